"""Brokers that do not answer, and come back."""

import asyncio
from typing import Any

import pytest

from orbitmq.client.consume.absent_brokers import AbsentBrokers
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.errors import RequestTimeout, RouteNotFound


class Session:
    """Answers what it is told to, one outcome after the other."""

    def __init__(self, *outcomes):
        self.tasks = BackgroundTasks()
        self.outcomes = list(outcomes)
        self.told = []

    def note_failure(self, broker_name, error):
        self.told.append((broker_name, str(error)))

    def note_answer(self, broker_name):
        self.told.append((broker_name, "back"))

    async def call(self, broker_name, header, *, only_this):
        assert (broker_name, header, only_this) == ("a", "question", True)
        if (outcome := self.outcomes.pop(0)) is not None:
            raise outcome


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.absent_brokers.FIRST_PAUSE_S", 0)


async def test_a_broker_is_away_until_it_answers():
    session: Any = Session(RequestTimeout("still away"), None)
    absent = AbsentBrokers(session)
    absent.note("a", RequestTimeout("first"), "question")
    absent.note("a", RequestTimeout("second"), "question")
    assert "a" in absent
    assert "b" not in absent
    assert str(absent.error(["a"])) == "first"
    assert absent.error(["a", "b"]) is None is absent.error([])
    (back,) = absent.returns(["a", "b"])
    await back
    await asyncio.sleep(0)
    assert "a" not in absent
    assert absent.returns(["a", "b"]) == set()
    assert session.told == [("a", "first"), ("a", "second"), ("a", "back")]
    assert session.outcomes == []


async def test_a_broker_without_a_route_is_asked_no_more():
    session: Any = Session(RouteNotFound("gone"))
    absent = AbsentBrokers(session)
    absent.note("a", RequestTimeout("first"), "question")
    await asyncio.gather(*absent.returns(["a"]))
    await asyncio.sleep(0)
    assert "a" not in absent
    assert session.told == [("a", "first")]
