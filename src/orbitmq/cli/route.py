"""`orbitmq route …`: where topics are, what happened to them, whether all NameServers agree; and retiring brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from orbitmq.cli.access import Access, ask_each, command
from orbitmq.cli.terminal.exits import ExitCode, exit_code_of
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, format_time, say, show_json, show_rows
from orbitmq.cli.terminal.times import TIME_HELP, parse_time
from orbitmq.cli.topic import route as topic_route

if TYPE_CHECKING:
    from orbitmq.errors import ClientError
    from orbitmq.net.pool import ConnectionPool


class _RouteGroup(TyperGroup):
    """`orbitmq route TOPIC` is short for `orbitmq route show TOPIC`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_RouteGroup,
    help="Show a topic's route (`orbitmq route TOPIC`), its history, and whether all NameServers agree; retire brokers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
SinceOption = Annotated[str | None, typer.Option("--since", metavar="TIME", help=TIME_HELP)]
AtOption = Annotated[str, typer.Option("--at", metavar="TIME", help=TIME_HELP)]
BrokerArgument = Annotated[str, typer.Argument(metavar="BROKER", help="The broker's name.")]


command(app, "show")(topic_route)


@command(app, "history")
def history(
    access: Access,
    subject: Annotated[str | None, typer.Argument(metavar="[TOPIC|BROKER]", help="Everything without it.")] = None,
    since: SinceOption = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="At most so many from each NameServer.")] = 50,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show which brokers registered, changed, expired or were removed, when, from where and why; NameServers side by side."""
    from orbitmq.admin.monitoring import ask_history
    from orbitmq.admin.route_rows import event_row

    since_ms = parse_time(since, "--since") if since else 0

    async def ask(pool: ConnectionPool, address: str) -> list[dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        # A name may be a topic's, a broker's, or both: every broker has a topic of its own name.
        kinds = ({},) if subject is None else ({"topic": subject}, {"broker_name": subject})
        for kind in kinds:
            events = await ask_history(
                pool, address, since_ms=since_ms, count_max=count, timeout_ms=access.timeout_ms, **kind
            )
            found.update((event["number"], event) for event in events)
        return [found[number] for number in sorted(found, reverse=True)[:count]]

    answers, silent = ask_each(access, ask)
    rows = [event_row(address, event) for address, events in answers.items() for event in events]
    rows.sort(key=lambda row: row["at"], reverse=True)
    for row in rows:
        row["time"] = format_time(row["at"])
    if output is Format.JSON:
        show_json([{"nameServer": address, **event} for address, events in answers.items() for event in events])
    else:
        columns = ["time", "kind", "broker", "address", "topics", "cause", "remote"]
        show_rows(rows, columns if len(answers) == 1 else ["name_server", *columns], output)
    _end(False, silent)


@command(app, "diff")
def diff(
    access: Access,
    at: AtOption,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show what is different now from how it was at a time; exit code 1 where anything is."""
    from orbitmq.admin.monitoring import ask_difference
    from orbitmq.admin.route_rows import difference_rows
    from orbitmq.clock import now_ms

    at_ms = parse_time(at, "--at")
    if at_ms > now_ms():
        raise typer.BadParameter(f"{at!r} is still to come", param_hint="--at")

    async def ask(pool: ConnectionPool, address: str) -> dict[str, Any]:
        return await ask_difference(pool, address, at_ms, timeout_ms=access.timeout_ms)

    answers, silent = ask_each(access, ask)
    rows = [row for address, found in answers.items() for row in difference_rows(address, found)]
    if output is Format.JSON:
        show_json([{"nameServer": address, **found} for address, found in answers.items()])
    else:
        show_rows(rows, ("name_server", "what", "broker", "before", "after"), output)
        for address, found in answers.items():
            if not found["complete"]:
                say(f"{address} does not remember all since then (it forgot, or began later): this is what it knows")
    _end(bool(rows), silent)


@command(app, "compare")
def compare(
    access: Access,
    output: FormatOption = Format.TABLE,
) -> None:
    """Compare the routes of all NameServers, Java's included: digests and differences; exit code 1 on drift."""
    from orbitmq.admin.monitoring import take_snapshot
    from orbitmq.admin.route_comparison import differences

    async def ask(pool: ConnectionPool, address: str) -> Any:
        return await take_snapshot(pool, address, timeout_ms=access.timeout_ms)

    snapshots, silent = ask_each(access, ask)
    found = list(differences(snapshots))
    if output is Format.JSON:
        digests = [
            {"nameServer": address, "digest": taken.digest, "facts": len(taken.facts)}
            for address, taken in snapshots.items()
        ]
        drift = [{"subject": subject, "facts": dict(facts)} for subject, facts in found]
        show_json({"equal": not found, "digests": digests, "differences": drift})
    else:
        rows = [
            {"name_server": address, "digest": taken.digest, "facts": len(taken.facts)}
            for address, taken in snapshots.items()
        ]
        show_rows(rows, ("name_server", "digest", "facts"), output)
        if found:
            print()
            show_rows([{"subject": subject, **facts} for subject, facts in found], ("subject", *snapshots), output)
    _end(bool(found), silent)


@command(app, "wipe-write-perm")
def wipe_write_perm(
    access: Access,
    broker: BrokerArgument,
    output: FormatOption = Format.TABLE,
) -> None:
    """Take a broker's write permission on every NameServer, to retire it; exit code 1 when none knows it."""
    _set_write_perm(access, broker, False, output)


@command(app, "add-write-perm")
def add_write_perm(
    access: Access,
    broker: BrokerArgument,
    output: FormatOption = Format.TABLE,
) -> None:
    """Let a broker be written to again, on every NameServer; exit code 1 when none knows it."""
    _set_write_perm(access, broker, True, output)


def _set_write_perm(access: Access, broker: str, is_writable: bool, output: Format) -> None:
    """Tell every NameServer, and show how many topics each one knows of the broker."""
    from orbitmq.admin.monitoring import set_write_perm

    async def tell(pool: ConnectionPool, address: str) -> int:
        return await set_write_perm(pool, address, broker, is_writable=is_writable, timeout_ms=access.timeout_ms)

    counts, silent = ask_each(access, tell)
    if output is Format.JSON:
        show_json([{"nameServer": address, "topics": count} for address, count in counts.items()])
    else:
        rows = [{"name_server": address, "topics": count} for address, count in counts.items()]
        show_rows(rows, ("name_server", "topics"), output)
    for address, count in counts.items():
        if not count:
            say(f"orbitmq: {address} knows no topic of a broker called {broker!r}: `orbitmq cluster` shows its brokers")
    _end(not any(counts.values()), silent)


def _end(is_no: bool, silent: Mapping[str, ClientError]) -> None:
    """End with 1 where the answer is no; where a NameServer gave none, as if it had been the only one."""
    if is_no or silent:
        raise typer.Exit(ExitCode.NO if is_no else max(map(exit_code_of, silent.values())))
