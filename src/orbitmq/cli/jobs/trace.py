"""`orbitmq job trace`: how long messages take."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.jobs.running import (
    DEFAULT_MASTER,
    ConfOption,
    LocalDirectoryArgument,
    MasterOption,
    check_packages,
    parse_start,
    run_job,
)
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    FormatOption,
    NameServersOption,
    SecurityOption,
)
from orbitmq.cli.terminal.output import Format
from orbitmq.cli.terminal.times import TIME_HELP, parse_time


def trace(
    directory: LocalDirectoryArgument,
    topic: Annotated[
        str, typer.Option("--trace-topic", metavar="TOPIC", help="Where clients tell traces.")
    ] = "RMQ_SYS_TRACE_TOPIC",
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help=f"Only messages that were sent since. {TIME_HELP}")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--start",
            metavar="WHEN",
            help="Where the first run begins: earliest, or an ISO 8601 time.",
            parser=parse_start,
        ),
    ] = "earliest",
    rows_per_batch: Annotated[
        int, typer.Option("--rows-per-batch", min=1, help="Trace messages that are read at a time.")
    ] = 500_000,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Find how long messages take from their sending to the end of their consumption, by topic and group, with a plot.

    Reads what clients that trace have told; again: what came since as well. Killed and started again it goes on where it was.
    Exit code 1 when a check of its own work fails.
    """
    since_ms = parse_time(since, "--since") if since else 0

    check_packages()
    from orbitmq.spark.jobs.trace import TracePlan, check_plan, evaluate_traces

    plan = TracePlan(topic, directory, start, rows_per_batch, since_ms)
    run_job("trace", plan, check_plan, evaluate_traces, name_servers, security, master, conf, output)
