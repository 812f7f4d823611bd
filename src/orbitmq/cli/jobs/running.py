"""The running of a job by its command: options that all have, Spark, and the checks that are shown at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.terminal.checks import show_checks
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.model.check_result import CheckResult
    from orbitmq.spark.jobs.runtime.screen import Screen

DEFAULT_MASTER = "local[*,2]"
"""All cores; a task that fails is tried once more."""

MasterOption = Annotated[
    str, typer.Option("--master", metavar="MASTER", help="Where Spark runs; local[*,2]: on all cores of this machine.")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, as spark.driver.memory=4g. May be given several times."
    ),
]


def parse_conf(given: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of Spark that were given; of one that was given twice the last.

    Raises:
        typer.BadParameter: one is none.
    """
    settings = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise typer.BadParameter(f"{text!r} is no KEY=VALUE, as spark.driver.memory=4g", param_hint="--conf")
        if key == "spark.master":
            raise typer.BadParameter(f"{text!r}: the option --master says where Spark runs", param_hint="--conf")
        settings[key] = value
    return settings


def run_job(
    name: str,
    master: str,
    output: Format,
    work: Callable[[SparkSession, Screen], list[CheckResult]],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run a job, and show what it has checked; steps and progress go to stderr.

    Args:
        settings: of Spark, on top of the usual ones.

    Raises:
        typer.Exit: a check does not hold.
    """
    import sys

    from orbitmq.spark.driver.interrupts import plain_interrupts
    from orbitmq.spark.jobs.runtime.screen import Screen
    from orbitmq.spark.jobs.runtime.session import job_session

    screen = Screen(sys.stderr)
    screen.step("starting Spark")
    with job_session(name, master, settings) as spark, plain_interrupts():
        results = work(spark, screen)
    show_checks(name, results, output)
