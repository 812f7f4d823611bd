"""`orbitmq group lag --watch`: a group's lag again and again, shown, and kept in a directory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import Format, Row, format_plain, format_time, make_table, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.monitoring.lag_samples import LagSample
    from orbitmq.monitoring.lag_watch import LagDirectory

    Show = Callable[[LagSample], None]

_COLUMNS = ("time", "topic", "broker", "queue", "committed", "end", "lag")
_SUMMARY = ("queue", "moments", "unknown", "median", "most", "last")


class LagPlan(NamedTuple):
    """Whose lag is watched, and how often.

    Args:
        topic: None: all that the group reads.
        moments: samples of this run; None: Ctrl-C ends it.
    """

    group: str
    topic: str | None
    every_s: float
    moments: int | None


def watch(access: Access, plan: LagPlan, directory: Path | None, output: Format) -> None:
    """Watch a group's lag; with a directory keep it there, and show at the end all samples that it has.

    Raises:
        typer.Exit: no broker knows where the group is, or something of the last
            moment is not known.
        ConfigError: the directory is for something else, or matplotlib is missing.
        JobFailed: another run is under way in the directory.
        ClientError: the cluster cannot be asked at the first moment.
    """
    if directory is None:
        if _sample(access, plan, None, output) is not None:
            raise typer.Exit(ExitCode.NO)
        return
    from importlib.util import find_spec

    from orbitmq.errors import ConfigError
    from orbitmq.monitoring.lag_watch import kept_lag

    if plan.topic is None:
        raise typer.BadParameter("a directory keeps the lag in one topic: say which with --topic", param_hint="--to")
    if find_spec("matplotlib") is None:
        raise ConfigError("matplotlib", "not installed", "pip install matplotlib: it draws lag.svg")
    with kept_lag(directory.resolve(), plan.group, plan.topic) as kept:
        if kept.moments:
            say(f"{kept.moments:,} moments are there already")
        issue = _sample(access, plan, kept, output)
        queues = kept.finish()
        say(f"{kept.moments:,} moments are kept in {directory}")
    if output is Format.TABLE:
        show_rows([_shown(queue._asdict()) for queue in queues], _SUMMARY, output)
    if issue is not None:
        raise typer.Exit(ExitCode.NO)


def _sample(access: Access, plan: LagPlan, kept: LagDirectory | None, output: Format) -> str | None:
    from orbitmq.net.loop import run

    with suppress(KeyboardInterrupt), _screen(output) as show:
        return run(_watch(access, plan, kept, show))
    return None


async def _watch(access: Access, plan: LagPlan, kept: LagDirectory | None, show: Show) -> str | None:
    """Show samples; return why something is not known of the last one, where the plan says how many there are."""
    from contextlib import aclosing

    from orbitmq.monitoring.lag_watch import watch_lag

    issue, count = None, 0
    async with access.admin() as admin:
        found = watch_lag(admin, plan.group, plan.topic, plan.every_s, kept.queues if kept else ())
        async with aclosing(found) as samples:
            async for sample in samples:
                if not sample.positions:
                    if sample.issue is not None:
                        say(f"unknown: {printable(sample.issue)}")
                    say(f"orbitmq: no broker knows where group {printable(plan.group)} is")
                    raise typer.Exit(ExitCode.NO)
                if kept is not None:
                    kept.append(sample)
                if sample.issue is not None and sample.issue != issue:
                    say(f"unknown: {printable(sample.issue)}")
                issue = sample.issue
                show(sample)
                count += 1
                if count == plan.moments:
                    return issue
    return None


@contextmanager
def _screen(output: Format) -> Iterator[Show]:
    """Yield what shows a sample: a table in its place on a terminal, lines in a pipe, or a JSON document each."""
    if output is Format.JSON:
        yield lambda sample: show_json(
            {"at_ms": sample.at_ms, "queues": _rows(sample), "trouble": sample.issue}, is_line=True
        )
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(
            console=Console(highlight=False, markup=False), auto_refresh=False, vertical_overflow="visible"
        ) as live:
            yield lambda sample: live.update(make_table(list(map(_shown, _rows(sample))), _COLUMNS), refresh=True)
    else:
        yield _Lines().show


class _Lines:
    """Samples as lines, one for each queue, under one header."""

    def __init__(self) -> None:
        self._has_header = False

    def show(self, sample: LagSample) -> None:
        lines = format_plain(list(map(_shown, _rows(sample))), _COLUMNS).splitlines(keepends=True)
        sys.stdout.write("".join(lines[self._has_header :]))
        sys.stdout.flush()
        self._has_header = True


def _rows(sample: LagSample) -> list[Row]:
    return [
        {
            "time": format_time(sample.at_ms),
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "committed": position.committed,
            "end": position.end,
            "lag": position.lag,
        }
        for queue, position in sorted(sample.positions.items())
    ]


def _shown(row: Row) -> Row:
    """Return a row in which what is unknown is a question mark, and not a dash that could be read as nothing."""
    return {name: "?" if value is None else value for name, value in row.items()}
