"""`orbitmq settle`: answers to brokers that ask about exactly-once writes of Spark, while no query runs that would."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    FormatOption,
    NameServersOption,
    SecurityOption,
    check_number,
)
from orbitmq.cli.terminal.output import Format, show_rows
from orbitmq.errors import ClientError

if TYPE_CHECKING:
    from orbitmq.client.transactions.decision import Decision

_COLUMNS = ("committed", "rolled_back", "left_open")


def settle(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics that the query writes to.")],
    markers: Annotated[
        str, typer.Option("--markers", metavar="TOPIC", help="The query's option markerTopic.")
    ] = "orbitmq-spark-markers",
    group: Annotated[str, typer.Option("--group", help="The query's option group.")] = "orbitmq-spark-exactly-once",
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", min=0, callback=check_number, help="How long brokers are answered; they ask in rounds of 30 s."
        ),
    ] = 120,
    abandon_after: Annotated[
        float | None,
        typer.Option(
            "--abandon-after",
            metavar="SECONDS",
            min=0,
            help="Roll back rows that were sent so long ago and are undecided. A query that was about to decide "
            "them fails and runs the batch again.",
        ),
    ] = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Commit and roll back what exactly-once writes of Spark have left open, as their markers say.

    Rows whose batch has no marker stay open, and the exit code is 1 then: the query decides when it runs again.
    """
    from orbitmq.client.transactions.decision import Decision

    counts = _answer(topics, markers, group, seconds, abandon_after, name_servers, security)
    row = dict(
        zip(_COLUMNS, (counts[kind] for kind in (Decision.COMMIT, Decision.ROLLBACK, Decision.UNKNOWN)), strict=True)
    )
    show_rows([row], _COLUMNS, output)
    if row["left_open"]:
        raise typer.Exit(ExitCode.NO)


def _answer(
    topics: list[str],
    markers: str,
    group: str,
    seconds: float,
    abandon_after: float | None,
    name_servers: str,
    security: Path | None,
) -> dict[Decision, int]:
    try:
        from orbitmq.spark.exactly_once.answers import Answers, answering
        from orbitmq.spark.exactly_once.marker_topic import MarkerTopic
        from orbitmq.spark.options import parse_write_options
    except ModuleNotFoundError as error:
        raise ClientError(f"{error}: settle needs pip install 'orbitmq[spark]'") from error
    given = {"nameServer": name_servers, "delivery": "exactly-once", "markerTopic": markers, "group": group}
    if security is not None:
        given["securityFile"] = str(security)
    options = parse_write_options(given)
    journal = MarkerTopic(options)
    list(journal.read())  # a wrong topic is an error here, not a line in the log with every question
    answers = Answers(journal, abandon_after_ms=None if abandon_after is None else int(abandon_after * 1000))
    with answering(options, answers, topics):
        time.sleep(seconds)
    return answers.counts()
