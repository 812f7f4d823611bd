"""`orbitmq broker status`: what running brokers say of themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.brokers.selection import AddressOption, BrokerSelection, ClusterOption, NameOption, ask_brokers
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable


async def status(
    access: Access,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these values, such as putTps.")
    ] = None,
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show brokers' run-time values, by Java's names. Exit code 1 when one has no value of such a name."""
    async with access.admin() as admin:
        brokers = dict(await BrokerSelection(address, name, cluster).find(admin))
        found, code = await ask_brokers(brokers, admin.broker_runtime_info)
    chosen = {
        broker: {key: value for key, value in sorted(values.items()) if not keys or key in keys}
        for broker, values in found.items()
    }
    if output is Format.JSON:
        show_json([{"broker": name, "address": brokers[name], "values": values} for name, values in chosen.items()])
    else:
        rows = [
            {"broker": broker, "key": key, "value": printable(value)}
            for broker, values in chosen.items()
            for key, value in values.items()
        ]
        show_rows(rows, ("broker", "key", "value"), output)
    for broker, values in chosen.items():
        for key in (key for key in keys or () if key not in values):
            say(f"orbitmq: {broker} has no value {printable(key)}")
            code = code or ExitCode.NO
    raise typer.Exit(code)
