"""`orbitmq user …`: users of brokers (ACL 2.0)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, command, exit_if_incomplete
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    BrokerOption,
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, say, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    pass

app = typer.Typer(help="Users of brokers, which sign their requests.", no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
PasswordOption = Annotated[
    Path | None, typer.Option("--password-file", metavar="FILE", help="The password is its first line; - is stdin.")
]


@command(app, "list")
async def list_users(
    access: Access,
    text: Annotated[str | None, typer.Option("--filter", help="Only names that contain this.")] = None,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the users of each broker; passwords are not shown."""
    async with access.access_client() as client:
        found = await client.users(text, broker=broker)
    rows = [
        {"broker": name, "user": user.name, "type": user.type.value, "status": user.status.value}
        for name, users in found.items()
        for user in users
    ]
    show_rows(rows, ("broker", "user", "type", "status"), output)


@command(app, "create")
async def create(
    access: Access,
    name: NameArgument,
    password_file: PasswordOption = None,
    is_super: Annotated[bool, typer.Option("--super", help="It may do everything, without rules.")] = False,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Make a user on every broker."""
    from orbitmq.model.access import UserType
    from orbitmq.wire.bodies.access import UserChange

    password = _password(password_file)
    if password is None:
        raise typer.BadParameter("a new user needs one", param_hint="--password-file")
    change = UserChange(password, UserType.SUPER if is_super else UserType.NORMAL)

    async with access.access_client() as client:
        brokers = await client.create_user(name, change, broker=broker)
    show_brokers(name, brokers, output)


@command(app, "update")
async def update(
    access: Access,
    name: NameArgument,
    password_file: PasswordOption = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it may sign.")] = None,
    is_super: Annotated[bool | None, typer.Option("--super/--normal", help="Whether it may do everything.")] = None,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Change what is said of a user. Exit code 1 when a broker is gone: the user stays there as it was."""
    from orbitmq.model.access import UserStatus, UserType
    from orbitmq.wire.bodies.access import UserChange

    kind = None if is_super is None else UserType.SUPER if is_super else UserType.NORMAL
    status = None if enabled is None else UserStatus.ENABLE if enabled else UserStatus.DISABLE
    change = UserChange(_password(password_file), kind, status)
    if change == UserChange():
        raise typer.BadParameter("nothing is to be changed", param_hint="--password-file, --disable, --super")

    async with access.access_client() as client:
        brokers = await client.update_user(name, change, broker=broker)
        missing = {} if broker else await client.missing_masters()
    show_brokers(name, brokers, output)
    exit_if_incomplete(missing)


@command(app, "delete")
async def delete(
    access: Access,
    name: NameArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Delete a user and its rules from every broker, after a question.

    Exit code 1 when there is none, or when a broker is gone: that one keeps it.
    """
    credentials = access.load_security().credentials
    is_own = credentials is not None and credentials.access_key == name
    what = f"delete the user {printable(name)}{', which signs this command,' if is_own else ''} and its rules"
    async with access.access_client() as client:
        found = await client.users(name, broker=broker)
        is_known = any(user.name == name for users in found.values() for user in users)
        if is_known:
            confirm(what, yes=yes, dry_run=dry_run)
        brokers = await client.delete_user(name, broker=broker) if is_known else []
        missing = {} if broker else await client.missing_masters()
    if not brokers:
        say(f"orbitmq: no broker has a user {printable(name)}: nothing was deleted")
        exit_if_incomplete(missing)
        raise typer.Exit(ExitCode.NO)
    show_brokers(name, brokers, output)
    exit_if_incomplete(missing)


def show_brokers(name: str, brokers: list[str], output: Format) -> None:
    """Print which brokers have taken a change."""
    show_rows([{"user": name, "broker": broker} for broker in brokers], ("user", "broker"), output)


def _password(path: Path | None) -> str | None:
    """Return the first line of a file; a password is not an option, since every user of a machine sees those."""
    if path is None:
        return None
    import sys

    text = sys.stdin.readline() if str(path) == "-" else path.read_text(encoding="utf-8")
    return text.partition("\n")[0].rstrip("\r")
