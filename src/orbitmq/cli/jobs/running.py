"""The running of a job by its command: options that all have, Spark, and the checks that are shown at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import Format, say, show_json

if TYPE_CHECKING:
    from logging import LogRecord

    from pyspark.sql import SparkSession

    from orbitmq.model.check_result import CheckResult
    from orbitmq.spark.jobs.cluster import Cluster
    from orbitmq.spark.jobs.screen import Screen

Plan = TypeVar("Plan")

DEFAULT_MASTER = "local[*,2]"
"""All cores; a task that fails is tried once more."""

_NEEDED = ("pyspark", "pyarrow")
_SETTINGS = {
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # Rows of a window that are kept without a look at their size; further ones spill. Spark's 4,096 may be gigabytes of bodies.
    "spark.sql.windowExec.buffer.in.memory.threshold": "64",
}

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)?", re.DOTALL)
_PATTERN_CHARACTERS = "*?[]{}\\"
"""What Hadoop, and so Spark, takes for a pattern of several directories."""

MasterOption = Annotated[
    str, typer.Option("--master", metavar="MASTER", help="Where Spark runs; local[*,2]: on all cores of this machine.")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, as spark.driver.memory=4g. May be given several times."
    ),
]
SkipRefusedOption = Annotated[
    bool,
    typer.Option(
        "--skip-refused", help="Leave out messages that brokers refuse, as too large ones; else they end the job."
    ),
]


def parse_directory(text: str, name: str = "DIRECTORY") -> Path | str:
    """Return a local directory as an absolute path, and any other one as its URI.

    Args:
        name: of the argument.

    Raises:
        typer.BadParameter: it names no directory, or several, or has a password, which the error does not show.
    """
    place = _parse_place(text, name)
    if found := [character for character in _PATTERN_CHARACTERS if character in str(place)]:
        told = f"it has {' '.join(found)}, which Spark takes for a pattern of several directories"
        raise typer.BadParameter(told, param_hint=name)
    return place


def _parse_place(text: str, name: str) -> Path | str:
    from urllib.parse import unquote

    if not text:
        raise typer.BadParameter("it is empty; . is the directory of the shell", param_hint=name)
    parsed = _URI.match(text)
    if parsed is None:
        return Path(text).resolve()
    scheme, rest = parsed[1].lower(), parsed[2]
    if rest is None:
        told = f"{text!r} is not a URI, as {scheme}://...; ./{text} is a directory on this disk"
        raise typer.BadParameter(told, param_hint=name)
    host, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    user, _, address = host.rpartition("@")
    if ":" in user or (":" in address and not address.rpartition(":")[2].isdigit()):
        told = (
            f"a URI with a password ({scheme}://...), which logs and files would keep: it belongs in a setting of Spark"
        )
        raise typer.BadParameter(told, param_hint=name)
    if scheme == "file":
        if host not in ("", "localhost"):
            raise typer.BadParameter(f"file://{host}/ is another machine; file:///... is this disk", param_hint=name)
        return Path("/", unquote(path)).resolve()
    if not host and not path.strip("/"):
        raise typer.BadParameter(f"{text!r} names no directory", param_hint=name)
    if ":" in path:
        raise typer.BadParameter(f"{text!r} has a : in its path, which Hadoop does not take", param_hint=name)
    return f"{scheme}:{rest.rstrip('/')}"


def parse_local_directory(text: str) -> Path:
    """Return a directory as an absolute path.

    Raises:
        typer.BadParameter: it is none, or the URI of another file system.
    """
    place = parse_directory(text)
    if isinstance(place, str):
        raise typer.BadParameter(f"{place} is on no disk; this job needs a directory on one", param_hint="DIRECTORY")
    return place


LocalDirectoryArgument = Annotated[
    Path,
    typer.Argument(metavar="DIRECTORY", help="A new one, or one of an earlier run.", parser=parse_local_directory),
]


def parse_start(text: str) -> str:
    """Return where the first run of a job begins.

    Raises:
        typer.BadParameter: it is neither `earliest` nor a time.
    """
    from orbitmq.cli.terminal.times import parse_moment

    if text != "earliest":
        parse_moment(text, "--start")
    return text


def parse_conf(given: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of Spark that were given; of one that was given twice the last.

    Raises:
        typer.BadParameter: one is none.
    """
    settings = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):  # its value may be a secret: it is not shown
            raise typer.BadParameter(f"{key!r} is not KEY=VALUE, as spark.driver.memory=4g", param_hint="--conf")
        if key == "spark.master":
            raise typer.BadParameter(f"{key!r}: the option --master says where Spark runs", param_hint="--conf")
        settings[key] = value
    return settings


def run_job(
    name: str,
    plan: Plan,
    check: Callable[[Cluster, Plan], object],
    work: Callable[[SparkSession, Cluster, Plan, Screen], list[CheckResult]],
    name_servers: str,
    security: Path | None,
    master: str,
    conf: Sequence[str] | None,
    output: Format,
) -> None:
    """Run a job, and show what it has checked; steps and progress go to stderr.

    Args:
        plan: what the job's options say.
        check: refuses what the job would refuse, such as a topic that does not exist, before the seconds that Spark takes to start.
        conf: settings of Spark as they were given, on top of the usual ones.

    Raises:
        typer.Exit: a check does not hold.
    """
    import sys

    from orbitmq.spark.driver.interrupts import plain_interrupts
    from orbitmq.spark.jobs.cluster import Cluster
    from orbitmq.spark.jobs.screen import Screen

    cluster, settings, screen = Cluster(name_servers, security), parse_conf(conf), Screen(sys.stderr)
    check(cluster, plan)
    screen.step("starting Spark")
    with job_session(name, master, settings) as spark, plain_interrupts():
        results = work(spark, cluster, plan, screen)
    show_checks(name, results, output)


def check_packages() -> None:
    """Raise ConfigError where a package that jobs need is missing; it says what to type."""
    from importlib.util import find_spec

    from orbitmq.errors import ConfigError

    for package in _NEEDED:
        if find_spec(package) is None:
            raise ConfigError(package, "not installed", "pip install 'orbitmq[spark]'")


@contextmanager
def job_session(name: str, master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Run Spark; it is stopped at the end, however that comes.

    Args:
        settings: of Spark, on top of the usual ones.

    Raises:
        ConfigError: Java is missing; says what to type.
        JobFailed: Spark cannot do it; one sentence of what it says.
    """
    import warnings

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from orbitmq.errors import JobFailed
    from orbitmq.spark.driver.session import local_session

    quiet_logs()
    try:
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
    except (Py4JError, PySparkException) as error:
        raise JobFailed(sentence(str(error))) from error


def quiet_logs() -> None:
    """Keep off the screen what pyspark and py4j log of errors that are told in one sentence, and of Ctrl-C."""
    import logging

    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_interrupt)  # py4j logs these by the root


def _is_no_interrupt(record: LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


def sentence(told: str) -> str:
    """Return the line of an error of Spark, or of Java, that says what has failed: not the trace, nor the call from Python."""
    lines = told.strip().splitlines() or ["Spark has failed"]
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])


def show_checks(job: str, results: Sequence[CheckResult], output: Format) -> None:
    """Show what a job has checked of its own work.

    Raises:
        typer.Exit: a check does not hold.
    """
    if output is Format.JSON:
        show_json({"job": job, "checks": [result._asdict() for result in results]})
    else:
        from rich.console import Console

        console = Console(highlight=False)
        for holds, claim in results:
            console.print(
                f"  [green]ok[/]      {claim}" if holds else f"  [bold red]FAILED[/]  {claim}", soft_wrap=True
            )
    failed = sum(not result.holds for result in results)
    say(f"{failed} of {len(results)} checks FAILED" if failed else f"all {len(results)} checks hold")
    if failed:
        raise typer.Exit(ExitCode.NO)


def print_checks(results: Iterable[tuple[bool, str]]) -> None:
    """Print claims, each with whether it holds."""
    from rich.console import Console

    console = Console(highlight=False)
    for holds, claim in results:
        console.print(f"  [green]ok[/]      {claim}" if holds else f"  [bold red]FAILED[/]  {claim}", soft_wrap=True)
