"""Claims about the timer of pending requests, with a loop whose clock the test moves."""

from __future__ import annotations

import asyncio
from typing import cast

from orbitmq.errors import ClientError
from orbitmq.net.connection.request_timers import RequestTimers
from orbitmq.net.session import Pending, Session, make_request
from orbitmq.wire.command import FLAG_RESPONSE, Command
from orbitmq.wire.headers import GetClusterInfo

from .fakes import FakeLoop


class Side:
    """A session with its timers, and what they have handed on."""

    def __init__(self) -> None:
        self.loop, self.session = FakeLoop(), Session()
        self.expired: list[list[int]] = []
        self.asks_again_until_ms = 0
        self.timers = RequestTimers(cast(asyncio.AbstractEventLoop, self.loop), self.session, self._expire)

    def ask(self, deadline_ms: int) -> int:
        def nobody(_: Command | ClientError) -> None: ...

        opaque = self.session.request(make_request(GetClusterInfo()), nobody, deadline_ms)
        if deadline_ms < self.timers.due_ms:
            self.timers.arm(deadline_ms)
        return opaque

    def _expire(self, expired: list[Pending]) -> None:
        self.expired.append([pending.opaque for pending in expired])
        if self.asks_again_until_ms:
            self.ask(self.asks_again_until_ms)


def test_one_timer_serves_all_requests_earliest_first():
    side = Side()
    late, soon, latest = side.ask(2000), side.ask(1000), side.ask(3000)
    for _ in range(3):
        side.loop.fire()
    assert side.expired == [[soon], [late], [latest]]
    assert side.loop.waiting == []


def test_the_timer_is_set_once_for_deadlines_that_only_grow():
    side = Side()
    for number in range(10):
        side.ask(1000 + number)
    assert len(side.loop.timers) == 1


def test_a_timer_whose_request_was_answered_goes_on_to_the_next_deadline():
    side = Side()
    first, second = side.ask(1000), side.ask(2000)
    side.session.resolve(Command(0, first, FLAG_RESPONSE))
    side.loop.fire()
    assert side.expired == [[]]
    assert [timer.when for timer in side.loop.waiting] == [2.0]
    side.loop.fire()
    assert side.expired == [[], [second]]


def test_a_waiter_that_asks_again_finds_one_timer_at_the_earliest_deadline():
    for again_ms in (1500, 2000, 2500):
        side = Side()
        side.ask(1000)
        side.ask(2000)
        side.asks_again_until_ms = again_ms
        side.loop.fire()
        assert [timer.when for timer in side.loop.waiting] == [min(again_ms, 2000) / 1000]
        assert len(side.loop.timers) == (3 if again_ms > 2000 else 2)


def test_a_cancelled_timer_does_not_fire_and_can_be_set_again():
    side = Side()
    side.ask(1000)
    side.timers.cancel()
    side.timers.cancel()
    assert side.loop.waiting == []
    side.timers.arm(5000)
    assert [timer.when for timer in side.loop.waiting] == [5.0]


def test_deadlines_of_the_same_and_the_next_millisecond_are_over_together():
    side = Side()
    first, second, third = side.ask(1000), side.ask(1001), side.ask(1002)
    side.loop.fire()
    assert side.expired == [[first, second]]
    side.loop.fire()
    assert side.expired == [[first, second], [third]]
