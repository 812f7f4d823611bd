"""Spark for one job, in the process of its command; and streams that read what is there and end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from orbitmq.errors import ConfigError, JobFailed
from orbitmq.spark.driver.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_NEEDED = ("pyspark", "pyarrow")
_SETTINGS = {
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # Rows of a window that are kept without a look at their size; further ones spill. Spark's 4,096 may be gigabytes of bodies.
    "spark.sql.windowExec.buffer.in.memory.threshold": "64",
}


@contextmanager
def job_session(name: str, master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Run Spark; it is stopped at the end, however that comes.

    Args:
        settings: of Spark, on top of the usual ones.

    Raises:
        ConfigError: a package that is needed, or Java, is missing; says what to type.
    """
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


_LOOK_EVERY_S = 1


def run_to_end(start: Callable[[], StreamingQuery], on_rows: Callable[[int], None]) -> int:
    """Run a query until it ends by itself; return how many rows it has read. However this ends, the query has ended, too.

    Args:
        on_rows: is told now and then how many rows finished micro-batches have read.

    Raises:
        JobFailed: the query has failed; says why.
    """
    from pyspark.errors import StreamingQueryException

    query = start()
    try:
        while not query.awaitTermination(_LOOK_EVERY_S):
            on_rows(_rows(query))
    except StreamingQueryException as error:
        raise JobFailed(str(error).splitlines()[0]) from error
    finally:
        query.stop()
    rows = _rows(query)
    on_rows(rows)
    return rows


def _rows(query: StreamingQuery) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)
