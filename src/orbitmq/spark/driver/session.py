"""A local Spark session with the settings that orbitmq's jobs and tests agree on."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.spark.driver.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_SETTINGS = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for short jobs: they gain more from a quick start than from the second compiler."""


def local_session(
    name: str,
    *,
    master: str = "local[2,2]",
    settings: Mapping[str, str] | None = None,
    java_options: str = QUICK_START,
) -> SparkSession:
    """Start Spark in this process' JVM.

    Args:
        name: of the application.
        master: `local[threads,attempts]`; with one attempt a failed task is not tried again.
        settings: Spark settings on top of the usual ones.
        java_options: for Spark's JVM.

    Raises:
        ConfigError: no Java 17 or newer was found; says what to type.
    """
    os.environ["JAVA_HOME"] = str(find_java_home())
    # Workers are started by name: without this they may be another Python, without pyarrow.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    temporary = f'"-Djava.io.tmpdir={tempfile.gettempdir()}"'  # TMPDIR counts for the JVM, too
    java = {"spark.driver.extraJavaOptions": f"{_QUIET} {temporary} {java_options}"}
    for key, value in {**_SETTINGS, **java, **(settings or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session
