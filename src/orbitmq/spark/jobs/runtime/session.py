"""Spark for one job, in the process of its command."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from orbitmq.errors import ConfigError
from orbitmq.spark.driver.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
