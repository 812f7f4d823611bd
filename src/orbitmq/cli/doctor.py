"""`orbitmq doctor`: what is wrong in a cluster, worst first, and what to type."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import DEFAULT_NAME_SERVERS, FormatOption
from orbitmq.cli.terminal.output import Format, say, show_json
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.doctor import Issue, Snapshot
    from orbitmq.doctor.collecting import Progress

SHOWN_MAX = 10
"""Issues of one check that are printed; `--check` prints all of it."""
_MARKS = {"error": "ERROR  ", "warning": "WARNING", "info": "INFO   "}


async def doctor(
    access: Access,
    check: Annotated[list[str] | None, typer.Option("--check", help="Only this check. May be repeated.")] = None,
    watch_s: Annotated[
        int,
        typer.Option("--watch", min=0, metavar="SECONDS", help="Look again so often, and say what begins and ends."),
    ] = 0,
    output: FormatOption = Format.TABLE,
) -> None:
    """Look at NameServers, brokers, topics and groups, ours or Java's, and say what is wrong, worst first, with the command to type.

    Exit code 1: there is an error; 4: there are warnings alone; 0: neither. Nothing is changed.
    """
    from orbitmq.doctor import CHECKS, Severity

    for name in check or ():
        if name not in CHECKS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(CHECKS)}", param_hint="--check")
    if watch_s:
        await _watch(access, check, watch_s, output)
    snapshot, issues = await _examine(access, check, _progress_line() if sys.stderr.isatty() else None)
    if output is Format.JSON:
        show_json([_document(access, issue) for issue in issues])
    else:
        _show(access, issues, count_max=len(issues) if check else SHOWN_MAX)
        say(_summary(snapshot, issues))
    severities = {issue.severity for issue in issues}
    if Severity.ERROR in severities:
        raise typer.Exit(ExitCode.NO)
    if Severity.WARNING in severities:
        raise typer.Exit(ExitCode.WARNINGS)


async def _examine(access: Access, checks: list[str] | None, progress: Progress | None) -> tuple[Snapshot, list[Issue]]:
    from orbitmq.address import parse_name_servers
    from orbitmq.doctor import examine, take_snapshot
    from orbitmq.net.pool import ConnectionPool

    security = access.load_security()
    pool = ConnectionPool(name="doctor", **security._asdict())
    try:
        snapshot = await take_snapshot(
            parse_name_servers(access.name_servers),
            pool,
            timeout_ms=access.timeout_ms,
            tls=security.tls,
            **({} if progress is None else {"progress": progress}),
        )
    finally:
        await pool.close()
        if progress is not None:
            progress("", 0, 0)
    return snapshot, [issue for issue in examine(snapshot) if not checks or issue.check in checks]


async def _watch(access: Access, checks: list[str] | None, every_s: int, output: Format) -> None:
    """Print issues that begin and end, until Ctrl-C."""
    import asyncio
    from datetime import UTC, datetime

    from orbitmq.errors import ClientError

    known: list[Issue] = []
    while True:
        try:
            _, issues = await _examine(access, checks, None)
        except ClientError as error:
            say(f"orbitmq: {error}")
        else:
            now = datetime.now(UTC).strftime("%H:%M:%S")
            begun, ended = watched_changes(known, issues)
            for issue in begun:
                _show_change(access, now, "begins", issue, output)
            for issue in ended:
                if output is Format.JSON:
                    end = {"severity": issue.severity.value, "check": issue.check, "subject": issue.subject}
                    show_json({"at": now, "state": "ends", **end}, is_line=True)
                else:
                    print(printable(f"{now} ends    {issue.severity} {issue.check}: {issue.subject}"), flush=True)
            known = issues
        await asyncio.sleep(every_s)


def watched_changes(known: Sequence[Issue], current: Sequence[Issue]) -> tuple[list[Issue], list[Issue]]:
    """Return the issues that have begun, and one of each kind that has ended: of a check, a subject and a severity."""
    before = {issue[:3]: issue for issue in reversed(known)}
    now = {issue[:3] for issue in current}
    begun = [issue for issue in current if issue[:3] not in before]
    return begun, [issue for kind, issue in sorted(before.items()) if kind not in now]


def _show_change(access: Access, now: str, state: str, issue: Issue, output: Format) -> None:
    if output is Format.JSON:
        show_json({"at": now, "state": state, **_document(access, issue)}, is_line=True)
    else:
        print(printable(f"{now} {state}  {issue.severity} {issue.check}: {issue.subject}: {issue.text}"), flush=True)


def _show(access: Access, issues: list[Issue], count_max: int) -> None:
    counts = Counter((issue.severity, issue.check) for issue in issues)
    shown: Counter[tuple[str, str]] = Counter()
    for issue in issues:
        kind = issue.severity, issue.check
        shown[kind] += 1
        if shown[kind] > count_max:
            if shown[kind] == counts[kind]:
                left = counts[kind] - count_max
                print(f"{_MARKS[issue.severity]}  and {left} more: orbitmq doctor --check {issue.check}")
            continue
        print(printable(f"{_MARKS[issue.severity]}  {issue.subject}: {issue.text}  [{issue.check}]"))
        if issue.to_type is not None:
            print(printable(f"         $ {command_of(access, issue)}"))


def _summary(snapshot: Snapshot, issues: list[Issue]) -> str:
    from orbitmq.doctor import Severity

    counts = ", ".join(
        _counted(sum(issue.severity is severity for issue in issues), word)
        for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "note"))
    )
    parts = (
        (snapshot.name_servers, "NameServer"),
        (snapshot.brokers, "broker"),
        (snapshot.routes, "topic"),
        (snapshot.groups, "group"),
    )
    return f"{counts}; asked: {', '.join(_counted(len(part), word) for part, word in parts)}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _document(access: Access, issue: Issue) -> dict[str, str | None]:
    return {
        "severity": issue.severity.value,
        "check": issue.check,
        "subject": issue.subject,
        "text": issue.text,
        "toType": command_of(access, issue),
    }


def command_of(access: Access, issue: Issue) -> str | None:
    """Return the command with the NameServers that it has to ask."""
    is_local = issue.to_type is None or issue.to_type.startswith("orbitmq store ")  # it reads files, and asks no server
    if is_local or access.name_servers == DEFAULT_NAME_SERVERS:
        return issue.to_type
    return f"{issue.to_type} -n '{access.name_servers}'"


def _progress_line() -> Progress:
    width = 60

    def show(what: str, done: int, count: int) -> None:
        text = f"{what}: {done} of {count}" if what else ""
        print(f"\r{text:<{width}}\r", end="", file=sys.stderr, flush=True)

    return show
