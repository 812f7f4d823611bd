"""`orbitmq broker forget`: a broker that was lost, and will not come back, is no longer missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access, ask_each
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import say
from orbitmq.cli.terminal.printable import printable
from orbitmq.errors import InvalidArgument

if TYPE_CHECKING:
    from orbitmq.net.pool import ConnectionPool


def forget(
    access: Access,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The broker's name.")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Let NameServers no longer miss a broker that was lost and will not come back; else they do for a day.

    Until then every answer that lacks its part names it, and commands end with exit code 1.
    """
    from orbitmq.admin.monitoring import ask_health, forget_lost, lost_members_in

    async def find(pool: ConnectionPool, address: str) -> list[str]:
        alerts: list[dict[str, Any]] = (await ask_health(pool, address, timeout_ms=access.timeout_ms))["alerts"]
        return [f"{name}:{broker_id}" for _, lost, broker_id in sorted(lost_members_in(alerts)) if lost == name]

    async def tell(pool: ConnectionPool, address: str) -> list[int]:
        return await forget_lost(pool, address, name, timeout_ms=access.timeout_ms)

    found, silent = ask_each(access, find)
    members = sorted({member for lost in found.values() for member in lost})
    if not members:
        raise InvalidArgument("NAME", name, "a broker that a NameServer of orbitmq misses: `orbitmq health` names them")
    confirm(f"miss {', '.join(map(printable, members))} no longer", yes=yes, dry_run=dry_run)
    missing = [address for address, lost in found.items() if lost]
    told, failed = ask_each(access._replace(name_servers=";".join(missing)), tell)
    say(f"{printable(name)} is no longer missed at {', '.join(told)}")
    if silent or failed:
        raise typer.Exit(ExitCode.NO)
