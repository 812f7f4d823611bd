"""A local session has the settings that jobs and tests agree on. Spark itself is not started here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq.errors import ConfigError
from orbitmq.spark.driver import session
from orbitmq.spark.driver import session as module
from orbitmq.spark.driver.session import find_java_home, java_version, local_session


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


pytestmark = pytest.mark.real


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    monkeypatch.setattr(session, "_INSTALL_DIRS", ())


@pytest.mark.parametrize(("told", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_452", 1)])
def test_the_version_is_read(tmp_path, told, version):
    assert java_version(fake_java(tmp_path, told)) == version


def test_java_home_comes_before_the_path(tmp_path):
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "21.0.1")

    assert find_java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home
    assert find_java_home({"PATH": str(other / "bin")}) == other


def test_one_that_is_too_old_is_passed_over(tmp_path):
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "17.0.2")

    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


@pytest.mark.parametrize("below", ["", "Contents/Home"])
def test_one_that_the_system_installed_is_found(tmp_path, monkeypatch, below):
    home = fake_java(tmp_path / "temurin-21.jdk" / below, "21.0.2")
    monkeypatch.setattr(session, "_INSTALL_DIRS", (str(tmp_path / "nowhere"), str(tmp_path)))

    assert find_java_home({"PATH": ""}) == home


@pytest.mark.parametrize(
    ("tool", "advice"),
    [
        ("apt-get", "type `sudo apt-get install openjdk-17-jre-headless`"),
        ("dnf", "type `sudo dnf install java-17-openjdk-headless`"),
        ("brew", "type `brew install openjdk@17`"),
        ("none", "install a JDK of your system"),
    ],
)
def test_the_error_says_what_to_type_on_this_system(monkeypatch, tool, advice):
    monkeypatch.setattr(session.shutil, "which", lambda name, path=None: name if name == tool else None)

    with pytest.raises(ConfigError, match=f"version 17 or newer: {advice}, or set JAVA_HOME"):
        find_java_home({"PATH": ""})


def test_without_java_the_error_says_what_to_do(tmp_path):
    old = fake_java(tmp_path / "old", "11.0.2")

    with pytest.raises(ConfigError, match=r"is version 11.*version 17 or newer: .*JAVA_HOME"):
        find_java_home({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(ConfigError, match="none found"):
        find_java_home({"PATH": ""})


def test_a_home_without_java_or_with_a_broken_one_has_no_version(tmp_path):
    assert java_version(tmp_path) is None
    broken = fake_java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert java_version(broken) is None
