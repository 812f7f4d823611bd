"""`orbitmq backup`: a cluster's tables and messages, saved in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import ClusterOption, FormatOption
from orbitmq.cli.terminal.output import Format, format_time, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable

_COLUMNS = ("broker", "topics", "groups", "queues", "messages", "bytes")


async def backup(
    access: Access,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.")],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="PATTERN", help="Only topics that fit, as 'orders*'. May be repeated."),
    ] = None,
    no_messages: Annotated[bool, typer.Option("--no-messages", help="Save tables alone.")] = False,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Save a cluster's topics, groups, offsets, users, rules, settings and messages in a new directory.

    Exit code 1 when a broker, or a part of one, could not be saved: what it says so of is missing, the rest is there.
    """
    from importlib.metadata import version

    from orbitmq.admin.backup.saving import Saving
    from orbitmq.cli.terminal.progress import show_counts
    from orbitmq.clock import now_ms

    saving: Saving | None = None
    try:
        with show_counts("saving messages") as progress:
            async with access.clients() as clients:
                saving = Saving(
                    clients, directory, version("orbitmq"), now_ms(), topics or (), cluster, not no_messages, progress
                )
                manifest = await saving.run()
    except BaseException:
        if saving is not None and saving.has_begun:
            say(f"orbitmq: {directory} has no manifest.json: the backup was interrupted, and cannot be restored")
        raise
    rows = []
    for broker in sorted(manifest.clusters):
        files = [file for file in manifest.queues if file.broker == broker]
        told = saving.tables[broker]
        rows.append(
            {
                "broker": broker,
                "cluster": manifest.clusters[broker],
                "topics": len(told.topics),
                "groups": len(told.groups),
                "queues": len(files),
                "messages": sum(file.count for file in files),
                "bytes": sum(file.size for file in manifest.files if file.broker == broker),
            }
        )
    if output is Format.JSON:
        document = {
            "directory": str(directory),
            "created": format_time(manifest.created_at_ms),
            "brokers": rows,
            "message_count": manifest.message_count,
            "problems": manifest.problems,
        }
        show_json(document)
    else:
        show_rows(rows, _COLUMNS, output)
    for problem in manifest.problems:
        say(f"orbitmq: {printable(problem)}")
    if manifest.problems:
        raise typer.Exit(ExitCode.NO)
