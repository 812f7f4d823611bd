"""A Spark session with the settings that orbitmq's jobs and tests agree on, on this machine unless its master is elsewhere."""

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
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.sql.shuffle.partitions": "2",
}
"""Executors elsewhere could not reach a driver on the loopback address."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Java options for short jobs: they gain more from a quick start than from the second compiler. With one compiler alone Java keeps
48 MB for compiled code, which hundreds of queries fill: then Spark ends with "Out of space in CodeCache"."""


def local_session(
    name: str,
    *,
    master: str = "local[2,2]",
    settings: Mapping[str, str] | None = None,
    java_options: str = QUICK_START,
) -> SparkSession:
    """Start Spark's driver in this process' JVM.

    Args:
        name: of the application.
        master: `local[threads,attempts]`; with one attempt a failed task is not tried again. Any other one is a cluster, which
            reaches the driver by the address that Spark finds; PYSPARK_PYTHON is kept for it.
        settings: Spark settings on top of the usual ones; Java options come after the usual ones.
        java_options: for Spark's JVM.

    Raises:
        ConfigError: no Java 17 or newer was found; says what to type.
    """
    os.environ["JAVA_HOME"] = str(find_java_home())
    is_local = master.startswith("local")
    # Workers are started by name: without this they may be another Python, without pyarrow.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local or not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    temporary = f'"-Djava.io.tmpdir={tempfile.gettempdir()}"'  # TMPDIR counts for the JVM, too
    told = {**_SETTINGS, **(_LOCAL_SETTINGS if is_local else {}), **(settings or {})}
    told[_JAVA_OPTIONS] = " ".join(filter(None, (_QUIET, temporary, java_options, told.get(_JAVA_OPTIONS))))
    for key, value in told.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session
