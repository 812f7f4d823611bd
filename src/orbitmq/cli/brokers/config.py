"""`orbitmq broker config …`: settings of running brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, command, exit_if_incomplete
from orbitmq.cli.brokers.selection import AddressOption, BrokerSelection, ClusterOption, NameOption, ask_brokers
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    FormatOption,
    parse_pairs,
)
from orbitmq.cli.terminal.output import Format, Row, say, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient

app = typer.Typer(
    help="List, show and change the settings of running brokers.", no_args_is_help=True, rich_markup_mode=None
)

_COLUMNS = ("broker", "key", "value", "effect", "changes")


@command(app, "list")
async def list_all(
    access: Access,
    text: Annotated[str, typer.Option("--filter", metavar="TEXT", help="Only keys that contain this.")] = "",
    in_effect: Annotated[bool, typer.Option("--in-effect", help="Without keys that have no effect.")] = False,
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List settings: which have an effect, and which change while the broker runs (- where it does not say)."""
    rows, code = await _rows(access, BrokerSelection(address, name, cluster))
    chosen = [row for row in rows if text.lower() in row["key"].lower() and not (in_effect and row["effect"] is False)]
    show_rows(_as_cells(chosen, output), _COLUMNS, output)
    raise typer.Exit(code)


@command(app, "get")
async def get(
    access: Access,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="RocketMQ's names of settings.")],
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show some settings. Exit code 1 when a broker has none of such a name."""
    rows, code = await _rows(access, BrokerSelection(address, name, cluster))
    found = [row for row in rows if row["key"] in keys]
    show_rows(_as_cells(found, output), _COLUMNS, output)
    for key in keys:
        missing = sorted({row["broker"] for row in rows} - {row["broker"] for row in found if row["key"] == key})
        if missing:
            say(f"orbitmq: {printable(key)} is not a setting of {', '.join(missing)}")
            code = code or ExitCode.NO
    raise typer.Exit(code)


@command(app, "set")
async def change(
    access: Access,
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Settings, by RocketMQ's names.")],
    address: AddressOption = None,
    name: NameOption = None,
    cluster: ClusterOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also a namesrvAddr of which no NameServer answers now.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Change settings of running brokers, which keep them. A broker of ours changes all of them, or none.

    Some count from the broker's next start on, and some of Java's have no effect: the broker says which. Exit code 1 when a broker refuses, was lost, or (Java's) says yes and does not change one.
    """
    from orbitmq.errors import OrbitError
    from orbitmq.masking import MASK, masked_value

    changes = parse_pairs(pairs, "KEY=VALUE")
    rows: list[Row] = []
    selection = BrokerSelection(address, name, cluster)
    lost: Mapping[str, str] = {}
    unasked: list[str] = []
    try:
        async with access.admin() as admin:
            if "namesrvAddr" in changes and not force:
                await admin.check_name_servers(changes["namesrvAddr"])
            brokers = await selection.find(admin)
            if selection == (None, None, None):
                lost = await admin.missing_masters()
            unasked = list(brokers)
            for broker, at in brokers.items():
                unasked.remove(broker)
                rows.extend(await _change_one(admin, broker, at, changes))
    except OrbitError as error:
        if unasked:
            error.add_note(f"Not asked after that: {', '.join(unasked)}")
        raise
    finally:
        if rows:  # what was changed is told, also when a later broker refuses
            show_rows(rows, ("broker", "key", "before", "after"), output)
    kept = [
        row
        for row in rows
        if row["after"] == row["before"]
        and row["after"].lower() != changes[row["key"]].lower()
        and MASK not in row["after"]  # a secret: whether it has changed is not to be seen
    ]
    for row in kept:
        say(
            f"orbitmq: {row['broker']} has accepted {row['key']}={printable(masked_value(row['key'], changes[row['key']]))}, and not changed it"
        )
    exit_if_incomplete(lost)
    if kept:
        raise typer.Exit(ExitCode.NO)


async def _change_one(admin: AdminClient, broker: str, address: str, changes: Mapping[str, str]) -> list[Row]:
    from orbitmq.admin.broker_settings import next_start_settings
    from orbitmq.errors import ClientError, InvalidArgument

    before = await admin.broker_settings(address)
    for key, value in changes.items():
        if key not in before:  # a Java broker would say yes, and do nothing
            raise InvalidArgument(key, value, f"a setting of the broker {broker}: it has none of this name")
    if remark := await admin.change_broker_settings(address, changes):
        say(f"orbitmq: {broker}: {printable(remark)}")
    try:
        after = await admin.broker_settings(address)
    except ClientError as error:
        error.add_note(f"{broker} has accepted the change")
        raise
    after |= next_start_settings(after)
    return [{"broker": broker, "key": key, "before": before[key], "after": after.get(key, "")} for key in changes]


async def _rows(access: Access, selection: BrokerSelection) -> tuple[list[Row], int]:
    """Return all settings of the brokers, and the exit code of `ask_brokers`."""
    from orbitmq.admin.broker_settings import list_settings

    async with access.admin() as admin:
        found, code = await ask_brokers(await selection.find(admin), admin.broker_settings)
    rows: list[Row] = [
        {
            "broker": broker,
            "key": setting.key,
            "value": setting.value,
            "effect": setting.has_effect,
            "changes": setting.may_change,
        }
        for broker, shown in found.items()
        for setting in list_settings(shown)
    ]
    return rows, code


def _as_cells(rows: list[Row], output: Format) -> list[Row]:
    """Return rows whose values a terminal does not obey; programs get them as they are."""
    if output is Format.JSON:
        return rows
    return [{**row, "value": printable(row["value"])} for row in rows]
