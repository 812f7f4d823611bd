"""The running of a job by its command: options that all have, Spark, and the checks that are shown at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.terminal.checks import show_checks
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.model.check_result import CheckResult
    from orbitmq.spark.jobs.screen import Screen

DEFAULT_MASTER = "local[*,2]"
"""All cores; a task that fails is tried once more."""

_NEEDED = ("pyspark", "pyarrow")
_SETTINGS = {
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # Rows of a window that are kept without a look at their size; further ones spill. Spark's 4,096 may be gigabytes of bodies.
    "spark.sql.windowExec.buffer.in.memory.threshold": "64",
}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""Of a URI."""

MasterOption = Annotated[
    str, typer.Option("--master", metavar="MASTER", help="Where Spark runs; local[*,2]: on all cores of this machine.")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, as spark.driver.memory=4g. May be given several times."
    ),
]


def parse_directory(text: str) -> Path | str:
    """Return a local directory as an absolute path, and any other one as its URI."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    if _SCHEME.match(text) is None:
        return Path(text).resolve()
    if text.lower().startswith("file:"):
        return Path(url2pathname(urlsplit(text).path)).resolve()
    return text.rstrip("/")


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
    from orbitmq.spark.jobs.screen import Screen

    screen = Screen(sys.stderr)
    screen.step("starting Spark")
    with job_session(name, master, settings) as spark, plain_interrupts():
        results = work(spark, screen)
    show_checks(name, results, output)


@contextmanager
def job_session(name: str, master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Run Spark; it is stopped at the end, however that comes.

    Args:
        settings: of Spark, on top of the usual ones.

    Raises:
        ConfigError: a package that is needed, or Java, is missing; says what to type.
    """
    import warnings
    from importlib.util import find_spec

    from orbitmq.errors import ConfigError
    from orbitmq.spark.driver.session import local_session

    for package in _NEEDED:
        if find_spec(package) is None:
            raise ConfigError(package, "not installed", "pip install 'orbitmq[spark]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # pyspark warns of versions of pandas, which is not used
        spark = local_session(
            f"orbitmq job {name}",
            master=master,
            java_options="",  # jobs run for long: both of Java's compilers are worth their start
            settings={**_SETTINGS, **(settings or {})},
        )
    try:
        yield spark
    finally:
        spark.stop()
