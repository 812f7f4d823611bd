"""Spark is told this program's Python where it would start another, and sessions that run learn the format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cases import each_case
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
    context = SimpleNamespace(master=master, pythonExec=python)
    return SimpleNamespace(_sc=context, dataSource=Sources(), createDataFrame=lambda *_: None)


@pytest.mark.parametrize(("path", "is_named"), [("other", True), ("ours", False)])
def test_our_python_is_named_where_spark_would_start_another_one(environments, path, is_named):
    folders = {name: environments(name) for name in ("ours", "other")}
    environment = {"PATH": str(folders[path])}
    ours = str(folders["ours"] / "python")

    choose_python(environment, ours)

    assert environment == {"PATH": str(folders[path])} | ({"PYSPARK_PYTHON": ours} if is_named else {})


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


@each_case(("local[2]", sys.executable), ("spark://127.0.0.1:7077", "/nowhere/python3"))
def test_a_local_session_gets_our_python_and_a_clusters_executors_keep_theirs(master, python):
    running = session(master, "/nowhere/python3")

    register(running)

    assert running._sc.pythonExec == python
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
