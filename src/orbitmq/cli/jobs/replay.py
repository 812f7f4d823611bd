"""`orbitmq job replay`: messages out of files to a topic again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.jobs.running import (
    DEFAULT_MASTER,
    ConfOption,
    LocalDirectoryArgument,
    MasterOption,
    SkipRefusedOption,
    check_packages,
    parse_directory,
    run_job,
)
from orbitmq.cli.terminal.options import DEFAULT_NAME_SERVERS, FormatOption, NameServersOption, SecurityOption
from orbitmq.cli.terminal.output import Format
from orbitmq.cli.terminal.times import MOMENT_HELP, parse_moment


def replay(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Parquet files (a path, or s3a://..., hdfs://...), a broker's store, or its commitlog.",
        ),
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where messages go; it must exist.")],
    directory: LocalDirectoryArgument,
    from_topic: Annotated[
        str | None,
        typer.Option("--from-topic", metavar="TOPIC", help="Only messages of this topic; a CommitLog needs it."),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help=f"Only messages that were stored then or later. {MOMENT_HELP}"),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help=f"Only messages that were stored before. {MOMENT_HELP}")
    ] = None,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Messages in a second, at most.")] = 1_000,
    rows_per_checkpoint: Annotated[
        int, typer.Option("--rows-per-checkpoint", min=1, help="Messages from one checkpoint to the next.")
    ] = 10_000,
    skip_refused: SkipRefusedOption = False,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send the messages of Parquet files, or of a CommitLog, to a topic: those of each sharding key in order.

    Killed and started again it goes on where it was, and sends no message a second time. Exit code 1 when a check of its
    own work fails.
    """
    since = None if begin is None else parse_moment(begin, "--from")
    until = None if end is None else parse_moment(end, "--to")

    place = parse_directory(source, "SOURCE")
    if isinstance(place, Path) and not place.is_dir():
        raise typer.BadParameter(f"there is no directory {place}", param_hint="SOURCE")

    check_packages()
    from orbitmq.spark.jobs import replay as jobs

    plan = jobs.ReplayPlan(place, topic, from_topic, directory, rate, rows_per_checkpoint, since, until, skip_refused)
    run_job("replay", plan, jobs.check_plan, jobs.replay, name_servers, security, master, conf, output)
