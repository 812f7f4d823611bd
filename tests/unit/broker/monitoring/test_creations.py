"""Times of creations, and failures that are said once."""

from __future__ import annotations

import logging

import pytest

from orbitmq.broker.monitoring.creations import CreationTimes
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.errors import Rejected


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_what_is_made_later_took_until_then() -> None:
    clock = Clock()
    creations = CreationTimes(clock)
    with creations.measure() as made:
        clock.now_ms = 5
    assert len(creations.times_ms) == 0
    clock.now_ms = 50
    made()
    ((end, found),) = creations.times_ms.items()
    assert (end, found.count, found.total) == ("success", 1, 50)


def test_what_is_refused_has_failed() -> None:
    clock = Clock()
    creations = CreationTimes(clock)

    def fail() -> None:
        with creations.measure():
            clock.now_ms = 7
            raise Rejected(1, "no")

    with pytest.raises(Rejected):
        fail()
    ((end, found),) = creations.times_ms.items()
    assert (end, found.count, found.total) == ("failure", 1, 7)


def test_a_failure_is_said_when_it_is_another_one_or_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    failure = RepeatedFailure(logging.getLogger("orbitmq.test"), "sweeping failed, it is tried again")
    told = []
    for error in (OSError("full"), OSError("full"), OSError("gone"), None, OSError("gone"), OSError("gone")):
        failure.note(error)
        told.append((failure.text, len(caplog.records)))
    assert told == [
        ("OSError: full", 1),
        ("OSError: full", 1),
        ("OSError: gone", 2),
        (None, 2),
        ("OSError: gone", 3),
        ("OSError: gone", 3),
    ]
    first = caplog.records[0]
    assert (first.levelname, first.message) == ("ERROR", "sweeping failed, it is tried again")
    assert first.exc_info is not None
