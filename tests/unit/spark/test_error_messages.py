"""Errors of ours leave the connector so that Spark tells them without a trace; all other errors keep theirs."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from orbitmq.errors import OrbitError, RouteNotFound
from orbitmq.spark.error_messages import in_sentences, without_trace


@in_sentences
class Reader:
    """Stands for a reader: each method fails as it is told to."""

    def partitions(self, error: Exception) -> list[int]:
        """Fails immediately."""
        raise error

    def read(self, error: Exception | None) -> Iterator[int]:
        """Fail behind the first row."""
        yield 1
        if error is not None:
            raise error

    def _quiet(self, error: Exception) -> None:
        raise error


@pytest.fixture(autouse=True)
def spark_process(monkeypatch):
    """Make this process look like one of Spark's, and put its environment back."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")


def is_hidden() -> bool:
    return os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def test_an_error_of_ours_is_told_without_its_trace():
    with pytest.raises(RouteNotFound):
        Reader().partitions(RouteNotFound("no route"))

    assert is_hidden()


def test_so_is_one_behind_some_rows():
    rows = Reader().read(OrbitError("gone"))
    assert next(rows) == 1
    assert not is_hidden()

    with pytest.raises(OrbitError):
        next(rows)

    assert is_hidden()


def test_a_mistake_of_the_program_keeps_its_trace():
    with pytest.raises(KeyError):
        Reader().partitions(KeyError("a mistake"))
    with pytest.raises(KeyError), without_trace():
        raise KeyError("a mistake")

    assert not is_hidden()


def test_traces_come_where_the_session_wants_them(monkeypatch):
    monkeypatch.delenv("SPARK_SIMPLIFIED_TRACEBACK")

    with pytest.raises(OrbitError), without_trace():
        raise OrbitError("refused")

    assert not is_hidden()


def test_the_process_that_plans_streams_is_not_told_and_hides_them(monkeypatch):
    monkeypatch.delenv("SPARK_SIMPLIFIED_TRACEBACK")
    name = "pyspark.sql.streaming.python_streaming_source_runner"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))

    with pytest.raises(OrbitError), without_trace():
        raise OrbitError("refused")

    assert is_hidden()


def test_private_methods_stay_as_they_are():
    with pytest.raises(OrbitError):
        Reader()._quiet(OrbitError("refused"))

    assert not is_hidden()


def test_the_class_still_travels_to_tasks_and_reads_there():
    assert list(pickle.loads(pickle.dumps(Reader())).read(None)) == [1]
    assert Reader.read.__name__ == "read"
