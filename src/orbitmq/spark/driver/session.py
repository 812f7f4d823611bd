"""A Spark session with the settings of orbitmq's jobs and tests, and the Java that it runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOOPBACK = "127.0.0.1"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
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


JAVA_VERSION_MIN = 17
_INSTALL_DIRS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt")
_VERSION = re.compile(r'version "(\d+)')


def find_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home of a Java 17 or newer: JAVA_HOME's, the one on the PATH, or one where systems install it.

    Raises:
        ConfigError: there is none; says what to type.
    """
    environment = os.environ if environment is None else environment
    too_old: list[str] = []
    for home in _candidates(environment):
        version = java_version(home)
        if version is not None and version >= JAVA_VERSION_MIN:
            return home
        if version is not None:
            too_old.append(f"{home} is version {version}")
    found = "; ".join(too_old) or "none found"
    raise ConfigError("Java", found, f"version {JAVA_VERSION_MIN} or newer: {_advice()}, or set JAVA_HOME")


def java_version(home: Path) -> int | None:
    """Return the major version of the Java at `home`, None when there is none that runs."""
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(told)
    return int(found.group(1)) if found else None


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for directory in _INSTALL_DIRS:
        homes += sorted(path.parent.parent for path in Path(directory).glob("*/bin/java"))
        homes += sorted(path.parent.parent for path in Path(directory).glob("*/Contents/Home/bin/java"))
    return homes


def _advice() -> str:
    for tool, command in (
        ("apt-get", "sudo apt-get install openjdk-17-jre-headless"),
        ("dnf", "sudo dnf install java-17-openjdk-headless"),
        ("brew", "brew install openjdk@17"),
    ):
        if shutil.which(tool):
            return f"type `{command}`"
    return "install a JDK of your system"
