"""Rounds of questions: a server that does not answer delays no other, and is not asked twice."""

from __future__ import annotations

import threading

import pytest

from orbitmq.errors import RequestTimeout
from orbitmq.spark.reading.fan_out import Rounds
from unit.spark.conftest import over_for


@pytest.fixture
def gate():
    """An event that a hanging server waits for; set at the end."""
    gate = threading.Event()
    yield gate
    gate.set()


def refuse() -> str:
    raise ValueError("no")


def test_all_are_asked_at_the_same_time():
    meeting = threading.Barrier(3)

    def answer() -> int:
        return meeting.wait(10)

    assert set(Rounds[int]().ask(dict.fromkeys("abc", answer), None).values()) == {0, 1, 2}


def test_an_error_is_handed_on():
    found = Rounds[str]().ask({"a": refuse, "b": lambda: "yes"}, None)
    assert isinstance(found["a"], ValueError)
    assert found["b"] == "yes"


def test_a_late_server_delays_no_other_and_is_asked_again_when_it_has_answered(gate):
    rounds = Rounds[str]()
    asked = []

    def hang() -> str:
        asked.append(1)
        gate.wait(30)
        return "late"

    questions = {"a": hang, "b": lambda: "yes"}
    for _ in range(3):
        with over_for("a"):
            found = rounds.ask(questions, 30)
        assert isinstance(found["a"], RequestTimeout)
        assert found["b"] == "yes"
    assert len(asked) == 1
    gate.set()
    rounds._late["a"].outcome(30)
    assert rounds.ask(questions, 30) == {"a": "late", "b": "yes"}
    assert len(asked) == 2
