"""A local session has the settings that jobs and tests agree on. Spark itself is not started here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq.errors import ConfigError
from orbitmq.spark.driver import session as module
from orbitmq.spark.driver.session import local_session


class Builder:
    """Collects what Spark's builder is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def appName(self, name: str):  # noqa: N802
        return self.config("app", name)

    def master(self, master: str):
        return self.config("master", master)

    def config(self, key: str, value: str):
        self.told[key] = value
        return self

    def getOrCreate(self):  # noqa: N802
        return self.told


@pytest.fixture(autouse=True)
def builder(monkeypatch):
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "before")  # so that it is put back
    monkeypatch.delenv("SPARK_LOCAL_IP")
    monkeypatch.setattr(module, "find_java_home", lambda: Path("/java"))
    monkeypatch.setattr(SparkSession, "builder", Builder())


def test_a_failed_task_is_tried_once_more_and_nothing_listens_to_the_network():
    told = local_session("mine")

    assert (told["app"], told["master"]) == ("mine", "local[2,2]")
    assert told["spark.driver.bindAddress"] == told["spark.driver.host"] == "127.0.0.1"
    assert told["spark.ui.enabled"] == told["spark.ui.showConsoleProgress"] == "false"
    assert told["spark.sql.session.timeZone"] == "UTC"
    assert told["spark.sql.shuffle.partitions"] == "2"
    assert told["spark.sql.catalogImplementation"] == "in-memory"
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_workers_run_the_python_and_the_java_of_the_driver():
    local_session("mine")

    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"] == "/java"


def test_an_address_of_ones_own_is_kept(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    local_session("mine")

    assert os.environ["SPARK_LOCAL_IP"] == "10.0.0.1"


def test_settings_and_java_options_of_ones_own_count():
    told = local_session("mine", master="local[1]", settings={"spark.ui.enabled": "true"}, java_options="-Xmx1g")

    assert (told["master"], told["spark.ui.enabled"]) == ("local[1]", "true")
    assert told["spark.driver.extraJavaOptions"].endswith(" -Xmx1g")


def test_a_cluster_reaches_the_driver_by_its_own_address(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    told = local_session("mine", master="spark://elsewhere:7077")

    assert not told.keys() & {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"}
    assert "SPARK_LOCAL_IP" not in os.environ
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_a_host_of_ones_own_counts_for_a_cluster():
    told = local_session("mine", master="yarn", settings={"spark.driver.host": "10.0.0.1"})

    assert told["spark.driver.host"] == "10.0.0.1"


def test_java_options_of_settings_come_after_ours():
    told = local_session("mine", settings={"spark.driver.extraJavaOptions": "-Xss4m"})

    assert "-Dlog4j2" in told["spark.driver.extraJavaOptions"]
    assert told["spark.driver.extraJavaOptions"].endswith(f"{module.QUICK_START} -Xss4m")


def test_sparks_own_log_shows_errors_only():
    (option,) = (
        option
        for option in local_session("mine")["spark.driver.extraJavaOptions"].split()
        if option.startswith("-Dlog4j2")
    )

    assert "rootLogger.level = error" in Path(option.partition("file://")[2]).read_text()


def test_without_java_nothing_is_started(monkeypatch):
    def nowhere():
        raise ConfigError("Java", "none found", "version 17")

    monkeypatch.setattr(module, "find_java_home", nowhere)
    with pytest.raises(ConfigError, match="Java"):
        local_session("mine")
