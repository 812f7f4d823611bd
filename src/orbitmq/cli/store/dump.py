"""`orbitmq store dump`: the records of the log, one on a line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orbitmq.cli.store.options import BrokerConfigOption, DirectoryArgument, read_config, sizes_of
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, say, show_json

_OFFSET_MAX = (1 << 63) - 1


def dump(
    directory: DirectoryArgument,
    first: Annotated[int, typer.Option("--from", min=0, max=_OFFSET_MAX, help="First byte of the log.")] = 0,
    end: Annotated[
        int | None, typer.Option("--to", min=0, max=_OFFSET_MAX, help="Stop before this byte of the log.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic's.")] = None,
    queue: Annotated[int | None, typer.Option("--queue", "-q", help="Only this queue's.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many records.")] = None,
    with_body: Annotated[bool, typer.Option("--body", help="With the message's body.")] = False,
    config: BrokerConfigOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Print the records of the log. Exit code 1 when there is damage, which is passed over and told on stderr."""
    from orbitmq.cli.store.record_format import COLUMNS, format_document, format_line
    from orbitmq.store.inspection.layout import check_is_store, commit_log_files, log_files
    from orbitmq.store.inspection.log_walk import Damage, LogWalk

    check_is_store(directory)
    found = log_files(directory / "commitlog")
    size = sizes_of(read_config(config)).of_log(found)
    is_damaged, left = False, limit
    if output is Format.TABLE:
        print("  ".join([*COLUMNS, *(["body"] if with_body else [])]).upper())
    for item in LogWalk(commit_log_files(found, size)).run(first):
        if isinstance(item, Damage):
            if item.start != first:  # the first byte asked for may lie inside a record
                is_damaged = True
                say(f"from {item.start} to {item.end}: no records ({item.reason})")
            continue
        if (end is not None and item.physical_offset >= end) or left == 0:
            break
        if topic not in (None, item.topic) or queue not in (None, item.queue_id):
            continue
        if output is Format.JSON:
            show_json(format_document(item, with_body=with_body), is_line=True)
        else:
            print(format_line(item, with_body=with_body))
        left = None if left is None else left - 1
    sys.stdout.flush()
    if is_damaged:
        raise typer.Exit(ExitCode.NO)
