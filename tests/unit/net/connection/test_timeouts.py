"""Claims about the time limits of a connection, in ticks."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.net.connection.timeouts import Timeouts
from orbitmq.net.limits import Limits

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


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        ({}, (11, "idle")),  # the first look sees the activity before it
        ({"waits_for_frame": True}, (6, "frame deadline")),
        ({"is_stalled": True}, (8, "write stall")),
        ({"awaits_answer": True}, None),
    ],
)
def test_each_limit_ends_the_connection_in_its_time(look: dict[str, Any], expected: tuple[int, str] | None):
    assert first_reason(Timeouts(), look) == expected


def test_no_limit_is_none():
    limits = Limits(idle_ms=0, frame_ms=0, write_stall_ms=0)
    assert first_reason(Timeouts(), {"waits_for_frame": True, "is_stalled": True}, limits=limits) is None


def test_activity_and_whole_frames_and_reading_begin_anew():
    busy = [{"activity": number, "frames": number, "waits_for_frame": True} for number in range(2, 40)]
    assert set(ticks(Timeouts(), *busy)) == {None}
    slow = [{"activity": number, "waits_for_frame": True} for number in range(2, 40)]
    assert "frame deadline" in ticks(Timeouts(), *slow)
    timeouts = Timeouts()
    for _ in range(5):
        assert set(ticks(timeouts, *[{"activity": number, "is_stalled": True} for number in range(2, 8)])) == {None}
        timeouts.end_stall()


@pytest.mark.parametrize(
    ("look", "limits"),
    [
        ({}, Limits(idle_ms=31, frame_ms=0, write_stall_ms=0)),
        ({"waits_for_frame": True}, Limits(idle_ms=0, frame_ms=31, write_stall_ms=0)),
        ({"is_stalled": True}, Limits(idle_ms=0, frame_ms=0, write_stall_ms=31)),
    ],
)
def test_each_time_begins_at_nothing(look: dict[str, Any], limits: Limits):
    timeouts = Timeouts()
    ticks(timeouts, *[{"awaits_answer": True}] * 2, limits=limits)
    assert first_reason(timeouts, look, limits=limits) is not None
    ticks(timeouts, *[{"awaits_answer": True}] * 2, limits=limits)
    number, _ = first_reason(timeouts, look, limits=limits) or (0, "")
    began_before = not look
    assert number == (4 if began_before else 5), "31 ms lie between five looks 10 ms apart, not between four"


@pytest.mark.parametrize(("look", "limit_ms"), [({"waits_for_frame": True}, 50), ({"is_stalled": True}, 70)])
def test_nobody_is_ended_before_the_time_that_the_limit_says(look: dict[str, Any], limit_ms: int):
    timeouts = Timeouts()
    ticks(timeouts, {})
    number, _ = first_reason(timeouts, look) or (0, "")
    # What the first look sees may have begun just before it.
    assert (number - 1) * 10 >= limit_ms
