from __future__ import annotations

import pytest

from orbitmq.broker.monitoring.creations import CreationTimes
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
