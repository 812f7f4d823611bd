"""`orbitmq job alerts`: incidents of a running cluster, told once each to a topic."""

from __future__ import annotations

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


def alerts(
    topic: TopicArgument,
    every_s: Annotated[int, typer.Option("--every", min=1, metavar="SECONDS", help="Between two looks.")] = 10,
    looks: Annotated[int, typer.Option("--looks", min=0, help="End after so many; 0: Ctrl-C ends it.")] = 0,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Watch NameServers and brokers, and tell each incident once to a topic: when it begins, and when it is over.

    Killed and started again it tells nothing a second time. Exit code 1 when a check of the topic fails.
    """

    def work(spark: SparkSession, screen: Screen) -> list[CheckResult]:
        from orbitmq.spark.jobs.alerts import AlertPlan, watch
        from orbitmq.spark.jobs.runtime.cluster import Cluster

        return watch(spark, Cluster(name_servers, security), AlertPlan(topic, every_s, looks), screen)

    run_job("alerts", master, output, work, parse_conf(conf))
