"""Spark is told this program's Python where it would start another, and sessions that run learn the format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from orbitmq.spark.registration import choose_python, register, running_session
from pyspark_rocketmq import DefaultSource


@pytest.fixture
def environments(tmp_path):
    """Return a function that makes an environment's folder of commands, with a Python in it."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "python3").symlink_to(sys.executable)
        return folder

    return make


class Sources:
    """Stands for `spark.dataSource`: remembers what is registered."""

    def __init__(self) -> None:
        self.registered: list[type] = []

    def register(self, source: type) -> None:
        self.registered.append(source)


def session(master: str, python: str):
    return SimpleNamespace(_sc=SimpleNamespace(master=master, pythonExec=python), dataSource=Sources())


def test_a_program_of_an_environment_that_is_not_activated_names_its_python(environments):
    ours, other = environments("ours"), environments("other")
    environment = {"PATH": str(other)}

    choose_python(environment, str(ours / "python"))

    assert environment == {"PATH": str(other), "PYSPARK_PYTHON": str(ours / "python")}


def test_nothing_is_named_where_spark_would_start_the_same(environments):
    ours = environments("ours")
    environment = {"PATH": str(ours)}

    choose_python(environment, str(ours / "python"))

    assert environment == {"PATH": str(ours)}


def test_a_machine_without_python3_gets_the_name_of_ours(environments, tmp_path):
    environment = {"PATH": str(tmp_path)}

    choose_python(environment, str(environments("ours") / "python"))

    assert "PYSPARK_PYTHON" in environment


def test_the_users_choice_stands(environments):
    chosen = {"PATH": str(environments("other")), "PYSPARK_PYTHON": "./env/python", "PYSPARK_DRIVER_PYTHON": "python3"}
    environment = dict(chosen)

    choose_python(environment, str(environments("ours") / "python"))

    assert environment == chosen


@pytest.mark.parametrize("command", ["jupyter", "/opt/bin/ipython"])
def test_what_starts_notebooks_is_not_what_starts_python(environments, command):
    ours = environments("ours")
    environment = {"PATH": str(ours), "PYSPARK_DRIVER_PYTHON": command}

    choose_python(environment, str(ours / "python"))

    assert environment["PYSPARK_DRIVER_PYTHON"] == str(ours / "python")


def test_a_local_session_that_starts_another_python_gets_ours():
    running = session("local[2]", "/nowhere/python3")

    register(running)

    assert running._sc.pythonExec == sys.executable
    assert running.dataSource.registered == [DefaultSource]


def test_the_python_of_a_clusters_executors_is_not_touched():
    running = session("spark://127.0.0.1:7077", "/nowhere/python3")

    register(running)

    assert running._sc.pythonExec == "/nowhere/python3"
    assert running.dataSource.registered == [DefaultSource]


def test_a_session_of_spark_connect_has_no_python_to_choose():
    running = SimpleNamespace(dataSource=Sources())

    register(running)  # type: ignore[arg-type]

    assert running.dataSource.registered == [DefaultSource]


def test_spark_connects_session_is_found_without_a_local_one(monkeypatch):
    remote = SimpleNamespace(SparkSession=SimpleNamespace(getActiveSession=lambda: "the session"))
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", remote)

    assert running_session() == "the session"


@pytest.mark.real
def test_without_a_session_pyspark_is_not_even_loaded():
    program = "import sys, orbitmq.spark; print('pyspark' in sys.modules, 'pyarrow' in sys.modules)"

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.split() == ["False", "False"]
