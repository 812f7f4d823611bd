"""`orbitmq job contracts`: a topic's bodies held against a declared schema, bad ones to quarantine."""

from __future__ import annotations

from enum import StrEnum
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

    from orbitmq.model.check_result import CheckResult
    from orbitmq.spark.jobs.screen import Screen


class _Bodies(StrEnum):
    json = "json"
    avro = "avro"
    protobuf = "protobuf"


def contracts(
    topic: TopicArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A new one, or one of an earlier run.")],
    contract: Annotated[
        Path,
        typer.Option(
            "--contract",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="For json: columns in Spark's DDL; an Avro schema; a Protobuf descriptor set.",
        ),
    ],
    quarantine: Annotated[
        str, typer.Option("--quarantine", metavar="TOPIC", help="Where bad messages are sent, with the reason.")
    ],
    bodies: Annotated[_Bodies, typer.Option("--format", help="How bodies are written.")] = _Bodies.json,
    message: Annotated[str, typer.Option("--message", help="For protobuf: the message's full name.")] = "",
    jars: Annotated[
        list[Path] | None,
        typer.Option(
            "--jar", metavar="FILE", exists=True, help="For Spark, may be repeated: spark-avro, spark-protobuf."
        ),
    ] = None,
    start: Annotated[
        str, typer.Option("--start", metavar="WHEN", help="Where the first run begins: earliest, or an ISO 8601 time.")
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
    """Hold a topic's bodies against a declared schema: good ones become Parquet files, bad ones go to a quarantine topic.

    Killed and started again it goes on where it was. Exit code 1 when a check of its own work fails; bad messages are
    no failure.
    """

    def work(spark: SparkSession, screen: Screen) -> list[CheckResult]:
        from orbitmq.spark.jobs.cluster import Cluster
        from orbitmq.spark.jobs.contract_checks import BodyFormat, load_contract
        from orbitmq.spark.jobs.contracts import ContractPlan, hold_to_contract

        declared = load_contract(BodyFormat(bodies.value), contract.resolve(), message)
        plan = ContractPlan(topic, directory.resolve(), declared, quarantine, start, rows_per_batch)
        return hold_to_contract(spark, Cluster(name_servers, security), plan, screen)

    settings = {"spark.jars": ",".join(str(jar.resolve()) for jar in jars)} if jars else {}
    run_job("contracts", master, output, work, settings | parse_conf(conf))
