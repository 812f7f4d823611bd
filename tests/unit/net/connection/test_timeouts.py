"""The time limits of a connection and of its pending requests, with a clock that tests move."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from cases import each_case
from orbitmq.errors import ClientError
from orbitmq.net.connection.request_timers import RequestTimers
from orbitmq.net.connection.timeouts import Timeouts
from orbitmq.net.limits import Limits
from orbitmq.net.session import Pending, Session, make_request
from orbitmq.wire.command import FLAG_RESPONSE, Command
from orbitmq.wire.headers import GetClusterInfo

from .fakes import FakeLoop

LIMITS = Limits(idle_ms=100, frame_ms=50, write_stall_ms=70)


def ticks(timeouts: Timeouts, *looks: dict[str, Any], limits: Limits = LIMITS) -> list[str | None]:
    """Look at a connection every 10 ms."""
    quiet = {"activity": 1, "frames": 1, "awaits_answer": False, "waits_for_frame": False, "is_stalled": False}
    return [timeouts.tick(limits, 10, **{**quiet, **look}) for look in looks]


def first_reason(
    timeouts: Timeouts, look: dict[str, Any], count: int = 30, limits: Limits = LIMITS
) -> tuple[int, str] | None:
    for number, reason in enumerate(ticks(timeouts, *[look] * count, limits=limits), 1):
        if reason is not None:
            return number, reason
    return None


@each_case(
    ({}, (11, "idle")),  # the first look sees the activity before it
    ({"waits_for_frame": True}, (6, "frame deadline")),
    ({"is_stalled": True}, (8, "write stall")),
    ({"awaits_answer": True}, None),
)
def test_each_limit_ends_the_connection_in_its_time(look: dict[str, Any], expected: tuple[int, str] | None):
    assert first_reason(Timeouts(), look) == expected


def test_no_limit_is_none():
    limits = Limits(idle_ms=0, frame_ms=0, write_stall_ms=0)
    assert first_reason(Timeouts(), {"waits_for_frame": True, "is_stalled": True}, limits=limits) is None


def test_activity_and_whole_frames_and_reading_begin_again():
    busy = [{"activity": number, "frames": number, "waits_for_frame": True} for number in range(2, 40)]
    assert set(ticks(Timeouts(), *busy)) == {None}
    slow = [{"activity": number, "waits_for_frame": True} for number in range(2, 40)]
    assert "frame deadline" in ticks(Timeouts(), *slow)
    timeouts = Timeouts()
    for _ in range(5):
        assert set(ticks(timeouts, *[{"activity": number, "is_stalled": True} for number in range(2, 8)])) == {None}
        timeouts.end_stall()


@each_case(
    ({}, Limits(idle_ms=31, frame_ms=0, write_stall_ms=0)),
    ({"waits_for_frame": True}, Limits(idle_ms=0, frame_ms=31, write_stall_ms=0)),
    ({"is_stalled": True}, Limits(idle_ms=0, frame_ms=0, write_stall_ms=31)),
)
def test_each_time_begins_at_nothing(look: dict[str, Any], limits: Limits):
    timeouts = Timeouts()
    ticks(timeouts, *[{"awaits_answer": True}] * 2, limits=limits)
    assert first_reason(timeouts, look, limits=limits) is not None
    ticks(timeouts, *[{"awaits_answer": True}] * 2, limits=limits)
    number, _ = first_reason(timeouts, look, limits=limits) or (0, "")
    began_before = not look
    assert number == (4 if began_before else 5), "31 ms lie between five looks 10 ms apart, not between four"


@each_case(({"waits_for_frame": True}, 50), ({"is_stalled": True}, 70))
def test_no_connection_is_ended_before_the_time_that_the_limit_says(look: dict[str, Any], limit_ms: int):
    timeouts = Timeouts()
    ticks(timeouts, {})
    number, _ = first_reason(timeouts, look) or (0, "")
    # What the first look sees may have begun just before it.
    assert (number - 1) * 10 >= limit_ms


class Side:
    """A session with its timers, and what they have handed on."""

    def __init__(self) -> None:
        self.loop, self.session = FakeLoop(), Session()
        self.expired: list[list[int]] = []
        self.asks_again_until_ms = 0
        self.timers = RequestTimers(cast(asyncio.AbstractEventLoop, self.loop), self.session, self._expire)

    def ask(self, deadline_ms: int) -> int:
        def ignore(_: Command | ClientError) -> None: ...

        opaque = self.session.request(make_request(GetClusterInfo()), ignore, deadline_ms)
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
    assert (side.expired, side.loop.waiting) == ([[soon], [late], [latest]], [])


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
