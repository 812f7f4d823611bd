"""`orbitmq job contracts`: a topic's JSON bodies held against a declared schema, bad ones to quarantine."""

from __future__ import annotations

from pathlib import Path
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
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format


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
    check_packages()
    from orbitmq.spark.jobs.contract_checks import load_contract
    from orbitmq.spark.jobs.contracts import ContractPlan, check_plan, hold_to_contract

    plan = ContractPlan(topic, directory, load_contract(contract.resolve()), quarantine, start, rows_per_batch)
    run_job("contracts", plan, check_plan, hold_to_contract, name_servers, security, master, conf, output)
