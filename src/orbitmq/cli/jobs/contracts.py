"""`orbitmq job contracts`: a topic's JSON bodies held against a declared schema, bad ones to quarantine."""

from __future__ import annotations

from pathlib import Path
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
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.model.check_result import CheckResult
    from orbitmq.spark.jobs.cluster import Cluster
    from orbitmq.spark.jobs.contracts import ContractPlan
    from orbitmq.spark.jobs.screen import Screen


def contracts(
    topic: TopicArgument,
    directory: LocalDirectoryArgument,
    contract: Annotated[
        Path,
        typer.Option(
            "--contract",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The columns of a body, in Spark's DDL.",
        ),
    ],
    quarantine: Annotated[
        str, typer.Option("--quarantine", metavar="TOPIC", help="Where bad messages are sent, with the reason.")
    ],
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
        int, typer.Option("--rows-per-batch", min=1, help="Messages that are judged at a time.")
    ] = 500_000,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Hold a topic's JSON bodies against a declared schema: good ones become Parquet files, bad ones go to a quarantine topic.

    Killed and started again it goes on where it was. Exit code 1 when a check of its own work fails; bad messages are
    no failure.
    """

    def planned() -> tuple[Cluster, ContractPlan]:
        from orbitmq.spark.jobs.cluster import Cluster
        from orbitmq.spark.jobs.contract_checks import load_contract
        from orbitmq.spark.jobs.contracts import ContractPlan

        declared = load_contract(contract.resolve())
        plan = ContractPlan(topic, directory, declared, quarantine, start, rows_per_batch)
        return Cluster(name_servers, security), plan

    def check() -> None:
        from orbitmq.spark.jobs.contracts import check_plan

        check_plan(*planned())

    def work(spark: SparkSession, screen: Screen) -> list[CheckResult]:
        from orbitmq.spark.jobs.contracts import hold_to_contract

        return hold_to_contract(spark, *planned(), screen)

    run_job("contracts", master, output, work, parse_conf(conf), check=check)
