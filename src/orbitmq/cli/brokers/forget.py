"""`orbitmq broker forget`: a broker that was lost, and will not come back, is no longer missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, ask_each
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import say
from orbitmq.cli.terminal.printable import printable
from orbitmq.errors import InvalidArgument

if TYPE_CHECKING:
    from orbitmq.admin.monitoring import LostMember
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

    async def find(pool: ConnectionPool, address: str) -> list[LostMember]:
        alerts = (await ask_health(pool, address, timeout_ms=access.timeout_ms))["alerts"]
        return sorted(member for member in lost_members_in(alerts) if member.broker_name == name)

    async def tell(pool: ConnectionPool, address: str) -> None:
        await forget_lost(pool, address, found[address], timeout_ms=access.timeout_ms)

    found, silent = ask_each(access, find)
    missing = [address for address, members in found.items() if members]
    if silent and not missing:
        say(f"orbitmq: none of the NameServers that answer misses {printable(name)}")
        raise typer.Exit(ExitCode.NO)
    if not missing:
        raise InvalidArgument("NAME", name, "a broker that a NameServer of orbitmq misses: `orbitmq health` names them")
    ids = sorted({member.broker_id for members in found.values() for member in members})
    confirm(f"miss {', '.join(f'{printable(name)}:{number}' for number in ids)} no longer", yes=yes, dry_run=dry_run)
    told, failed = ask_each(access._replace(name_servers=";".join(missing)), tell)
    say(f"{printable(name)} is no longer missed at {', '.join(told)}")
    if silent or failed:
        raise typer.Exit(ExitCode.NO)
