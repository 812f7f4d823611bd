"""`orbitmq job archive`: a topic as Parquet files by day."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.jobs.running import (
    DEFAULT_MASTER,
    ConfOption,
    MasterOption,
    check_packages,
    parse_directory,
    parse_start,
    run_job,
)
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    FormatOption,
    NameServersOption,
    SecurityOption,
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format


def archive(
    topic: TopicArgument,
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIRECTORY", help="A new one, or one of an earlier run; a path, or s3a://..., hdfs://..."
        ),
    ],
    start: Annotated[
        str,
        typer.Option(
            "--start",
            metavar="WHEN",
            help="Where a new archive begins: earliest, or an ISO 8601 time.",
            parser=parse_start,
        ),
    ] = "earliest",
    rows_per_batch: Annotated[
        int, typer.Option("--rows-per-batch", min=1, help="Messages that are written at a time.")
    ] = 500_000,
    merge: Annotated[
        bool | None,
        typer.Option(
            "--merge/--no-merge", help="Put small files together at the end, on a disk.", show_default="merge"
        ),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write what is in a topic now as Parquet files by day; again: only what came since.

    Killed and started again it goes on where it was, and every message is there once. Exit code 1 when a check of the
    archive fails.
    """
    place = parse_directory(directory)
    if merge and not isinstance(place, Path):
        told = f"files of {place} are not put together: it may be a store that cannot rename any"
        raise typer.BadParameter(told, param_hint="--merge")

    check_packages()
    from orbitmq.spark.jobs import archive as jobs

    plan = jobs.ArchivePlan(topic, place, start, rows_per_batch, merge is not False)
    run_job("archive", plan, jobs.check_plan, jobs.archive, name_servers, security, master, conf, output)
