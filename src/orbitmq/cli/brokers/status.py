"""`orbitmq broker status`: what running brokers say of themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.access import admin_client
from orbitmq.cli.brokers.selection import AddressOption, BrokerSelection, ClusterOption, NameOption, ask_brokers
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    DEFAULT_TIMEOUT_MS,
    FormatOption,
    NameServersOption,
    SecurityOption,
    TimeoutOption,
)
from orbitmq.cli.terminal.output import Format, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable


def status(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these values, such as putTps.")
    ] = None,
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show brokers' run-time values, by Java's names. Exit code 1 when one has no value of such a name."""
    from orbitmq.net.loop import run

    async def work() -> tuple[dict[str, str], dict[str, dict[str, str]], int]:
        async with admin_client(name_servers, timeout_ms, security) as admin:
            brokers = dict(await BrokerSelection(address, name, cluster).find(admin))
            return brokers, *await ask_brokers(brokers, admin.broker_runtime_info)

    brokers, found, code = run(work())
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
