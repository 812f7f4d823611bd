"""Routes that a broker looks up: once for all who ask."""

from __future__ import annotations

import asyncio

from orbitmq.broker.groups import topic_routes as module
from orbitmq.broker.groups.topic_routes import KEPT_MS, Found, RouteLookup
from orbitmq.errors import ClientError
from orbitmq.model.route import MessageQueue
from orbitmq.testing import FakeClock

QUEUES = [MessageQueue("t", "a", 0)]


class NameServer:
    """Answers what it is told to, when it is let go."""

    def __init__(self, answer: Found | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.go = asyncio.Event()
        self.clock = FakeClock(0)
        self.lookup = RouteLookup(self.ask, self.clock)
        self.found: list[Found] = []

    async def ask(self, topic: str) -> Found:
        self.asked.append(topic)
        await self.go.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def find(self, topic: str = "t") -> None:
        self.lookup.find(topic, self.found.append)

    async def wait_for(self, count: int) -> None:
        self.go.set()
        while len(self.found) < count:
            await asyncio.sleep(0)


async def test_one_question_answers_all_who_ask_for_a_while():
    server = NameServer(QUEUES)
    server.find()
    server.find()
    await server.wait_for(2)
    server.clock.advance(KEPT_MS - 1)
    server.find()
    assert (server.found, server.asked) == ([QUEUES] * 3, ["t"])
    server.clock.advance(1)
    server.find()
    await server.wait_for(4)
    assert server.asked == ["t", "t"]


async def test_what_is_unknown_is_asked_for_again():
    for answer in (None, ClientError("nobody answers")):
        server = NameServer(answer)
        server.find()
        await server.wait_for(1)
        server.find()
        await server.wait_for(2)
        assert (server.found, len(server.asked)) == ([None, None], 2)


async def test_too_many_topics_are_not_looked_up_at_a_time(monkeypatch):
    monkeypatch.setattr(module, "UNDER_WAY_MAX", 1)
    monkeypatch.setattr(module, "KEPT_COUNT_MAX", 1)
    server = NameServer(QUEUES)
    server.find("t")
    server.find("u")
    assert server.found == [None]
    await server.wait_for(2)
    server.find("u")
    await server.wait_for(3)
    server.find("t")
    await server.wait_for(4)
    assert server.asked == ["t", "u", "t"]


async def test_the_end_answers_all_waiters():
    server = NameServer(QUEUES)
    server.find()
    await asyncio.sleep(0)
    await server.lookup.close()
    assert server.found == [None]
