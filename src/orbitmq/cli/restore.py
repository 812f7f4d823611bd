"""`orbitmq restore`: what `orbitmq backup` saved, into the same cluster or another one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, Row, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin.backup.plan import RestorePlan
    from orbitmq.admin.backup.restoring import RestoreReport

_PLAN_COLUMNS = ("broker", "kind", "name", "action", "detail")
_QUEUE_COLUMNS = ("broker", "topic", "queue_id", "saved", "sent", "skipped", "end", "problem")


async def restore(
    access: Access,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `orbitmq backup` wrote.")],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="PATTERN", help="Only topics that fit, as 'orders*'. May be repeated."),
    ] = None,
    tables_only: Annotated[bool, typer.Option("--tables-only", help="Topics and groups, no messages.")] = False,
    map_broker: Annotated[
        list[str] | None,
        typer.Option("--map-broker", metavar="OLD=NEW", help="Where a broker's part goes. May be repeated."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Change topics and groups that have other settings.")
    ] = False,
    append: Annotated[bool, typer.Option("--append", help="Send behind messages that a queue has.")] = False,
    users: Annotated[bool, typer.Option("--users", help="Users and their rules as well.")] = False,
    skip_refused: Annotated[
        bool,
        typer.Option("--skip-refused", help="Leave out, and name, messages that brokers refuse, as too large ones."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted restore was.")] = False,
    progress_file: Annotated[
        Path | None,
        typer.Option("--progress", metavar="FILE", help="How far it is; restore-progress.json in DIR by default."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Restore a backup: create its topics and groups, send its messages, and set the groups' offsets to them.

    Messages go to the queue that they were in, in their order, and get new offsets. Files are checked before anything is changed.
    Exit code 1 when a part could not be restored, a message is left out, or a queue that would be filled has messages.
    """
    from orbitmq.admin.backup.plan import RestoreOptions
    from orbitmq.admin.backup.restoring import Restoring
    from orbitmq.admin.backup.sending import PROGRESS_NAME
    from orbitmq.cli.terminal.progress import show_counts

    options = RestoreOptions(
        tuple(topics or ()), tables_only, overwrite, append, _broker_map(map_broker or ()), users, skip_refused
    )
    path = progress_file or directory / PROGRESS_NAME
    restoring: Restoring | None = None
    try:
        with show_counts("sending messages") as progress:
            async with access.clients() as clients:
                restoring = Restoring(clients, directory, options, path, is_resumed=resume, progress=progress)
                report = await restoring.run(dry_run=dry_run)
    except BaseException:
        if restoring is not None and restoring.has_begun:
            say(f"orbitmq: interrupted: {path} says how far it is; --resume goes on there")
        raise
    is_done = not dry_run and not report.plan.refusals
    if output is Format.JSON:
        show_json(_document(report, is_done=is_done))
    elif is_done:
        show_rows([one._asdict() for one in report.queues], _QUEUE_COLUMNS, output)
        changed = sum(row["action"] in ("create", "overwrite") for row in _plan_rows(report.plan))
        say(f"{changed} topics, groups, users and rules made or changed, {report.offset_count} offsets set")
        _tell_left(report.plan)
    else:
        show_rows(_plan_rows(report.plan), _PLAN_COLUMNS, output)
    for remark in report.plan.remarks:
        say(f"orbitmq: {printable(remark)}")
    for skipped in report.skipped:
        say(f"orbitmq: left out: {printable(skipped)}")
    for problem in report.problems:
        say(f"orbitmq: {printable(problem)}")
    if report.problems or report.skipped:
        raise typer.Exit(ExitCode.NO)


def _broker_map(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `OLD=NEW` of broker names."""
    from orbitmq.errors import InvalidArgument

    found: dict[str, str] = {}
    for pair in pairs:
        old, separator, new = pair.partition("=")
        if not (old and separator and new) or old in found:
            raise InvalidArgument("map-broker", pair, "OLD=NEW, each OLD one time")
        found[old] = new
    return found


def _tell_left(plan: RestorePlan) -> None:
    for row in _plan_rows(plan):
        if row["action"] == "leave":
            detail = printable(str(row["detail"] or "it differs"))
            say(f"orbitmq: the {row['kind']} {row['name']} on {row['broker']} is left: {detail} (--overwrite)")


def _plan_rows(plan: RestorePlan) -> list[Row]:
    rows: list[dict[str, Any]] = [
        {
            "broker": step.broker,
            "kind": step.kind,
            "name": step.name,
            "action": str(step.action),
            "detail": step.detail,
        }
        for step in plan.tables
    ]
    rows += [
        {
            "broker": queue.broker_name,
            "kind": "messages",
            "name": f"{queue.topic}:{queue.queue_id}",
            "action": "send",
            "detail": f"{file.count} messages, from offset {place.base} on",
        }
        for queue, file, place in plan.queues
    ]
    rows += [
        {
            "broker": queue.broker_name,
            "kind": "offset",
            "name": f"{group}@{queue.topic}:{queue.queue_id}",
            "action": "set",
            "detail": f"to what {committed} was",
        }
        for queue, group, committed, _ in plan.offsets
    ]
    return list(rows)


def _document(report: RestoreReport, *, is_done: bool) -> dict[str, Any]:
    return {
        "is_done": is_done,
        "plan": _plan_rows(report.plan),
        "queues": [one._asdict() for one in report.queues],
        "offset_count": report.offset_count,
        "remarks": report.plan.remarks,
        "problems": report.problems,
        "skipped": report.skipped,
    }
