"""`orbitmq job lag`: a group's lag over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.jobs.running import DEFAULT_MASTER, ConfOption, MasterOption, parse_conf, run_job
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    FormatOption,
    NameServersOption,
    SecurityOption,
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.jobs.runtime.checks import CheckResult
    from orbitmq.spark.jobs.runtime.screen import Screen


def lag(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")],
    topic: TopicArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A new one, or one of an earlier run.")],
    count: Annotated[int, typer.Option("--count", min=1, help="How often this run looks.")] = 60,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Time between two looks.")] = 10.0,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Look at a group's lag again and again, and show it over time: by queue as a table, as a whole as a plot.

    What is unknown stays unknown: a queue without a committed offset, or a moment at which a broker does not answer. Killed
    and started again it keeps what was seen. Exit code 1 when a check of its own work fails.
    """

    def work(spark: SparkSession, screen: Screen) -> list[CheckResult]:
        from orbitmq.spark.jobs.lag import LagPlan, watch_lag
        from orbitmq.spark.jobs.runtime.cluster import Cluster

        plan = LagPlan(group, topic, directory.resolve(), count, every)
        return watch_lag(spark, Cluster(name_servers, security), plan, screen)

    run_job("lag", master, output, work, parse_conf(conf))
