"""`orbitmq store check`: what is wrong with a store, one line for each thing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from orbitmq.cli.store.options import BrokerConfigOption, DirectoryArgument, read_config, sizes_of
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, Row, say, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.terminal.progress import show_progress

if TYPE_CHECKING:
    from orbitmq.store.inspection.issues import Issue

COLUMNS = ("severity", "file", "offset", "what", "remedy")


def check(directory: DirectoryArgument, config: BrokerConfigOption = None, output: FormatOption = Format.TABLE) -> None:
    """Verify every record, consume queue, checkpoint and table of a store. Exit code 1 when something is wrong.

    Nothing is written, and a broker may run meanwhile.
    """
    from orbitmq.cli.store.config_files import ConfigCheck
    from orbitmq.store.inspection.check import StoreCheck
    from orbitmq.store.inspection.issues import Severity

    settings = read_config(config)
    started = time.monotonic()
    tables = ConfigCheck(directory / "config")
    with show_progress("checking the log") as progress:
        store = StoreCheck(
            directory,
            sizes_of(settings),
            check_record_crc=settings is not None and settings.enabled_append_prop_crc,
            topics=tables.topics,
            on_size=progress.expect,
            on_read=progress.advance,
        )
        issues = [*store.run()]
    issues += tables.issues(store.queues.ends, has_messages=store.record_count > 0)
    show_rows([_row(issue) for issue in issues], COLUMNS, output)
    wrong = sum(issue.severity is Severity.WRONG for issue in issues)
    seconds = time.monotonic() - started
    running = " while its broker runs" if store.is_live else ""
    say(
        f"checked {store.record_count} records and {len(store.queues.ends)} queues in {seconds:.1f} s{running}: {wrong} wrong"
    )
    if wrong:
        raise typer.Exit(ExitCode.NO)


def _row(issue: Issue) -> Row:
    return {
        "severity": issue.severity.value,
        "file": printable(issue.path),
        "offset": issue.offset,
        "what": printable(issue.what),
        "remedy": issue.remedy,
    }
