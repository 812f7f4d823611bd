"""`orbitmq job trace`: how long messages take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.jobs.running import (
    DEFAULT_MASTER,
    ConfOption,
    LocalDirectoryArgument,
    MasterOption,
    parse_conf,
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.model.check_result import CheckResult
    from orbitmq.spark.jobs.cluster import Cluster
    from orbitmq.spark.jobs.screen import Screen
    from orbitmq.spark.jobs.trace import TracePlan


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

    def planned() -> tuple[Cluster, TracePlan]:
        from orbitmq.spark.jobs.cluster import Cluster
        from orbitmq.spark.jobs.trace import TracePlan

        return Cluster(name_servers, security), TracePlan(topic, directory, start, rows_per_batch, since_ms)

    def check() -> None:
        from orbitmq.spark.jobs.trace import check_plan

        check_plan(*planned())

    def work(spark: SparkSession, screen: Screen) -> list[CheckResult]:
        from orbitmq.spark.jobs.trace import evaluate_traces

        return evaluate_traces(spark, *planned(), screen)

    run_job("trace", master, output, work, parse_conf(conf), check=check)
