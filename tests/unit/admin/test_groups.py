"""Places to go on at, and the changes that they are."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from cases import each_case
from orbitmq.admin.groups import QueueLag, QueueReset, ResetTo
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.topics import QueueStats

BOUNDS = QueueStats(10, 50)


@each_case(
    (ResetTo.earliest(), None, 10),
    (ResetTo.latest(), None, 50),
    (ResetTo.offset(20), None, 20),
    (ResetTo.offset(3), None, 10),
    (ResetTo.offset(99), None, 50),
    (ResetTo.time(1_000), 30, 30),
    (ResetTo.time(1_000), 0, 10),
)
def test_an_offset_is_one_that_the_queue_has(to: ResetTo, found: int | None, offset: int) -> None:
    assert to.offset_in(BOUNDS, found) == offset


def test_brokers_are_asked_for_times_alone() -> None:
    assert ResetTo.time(0).needs_search
    assert not ResetTo.offset(0).needs_search


@each_case(*product([ResetTo.time, ResetTo.offset], [-1, 1 << 63, True, "7", 1.5]))
def test_a_number_that_is_none_is_refused(make: Any, number: Any) -> None:
    with pytest.raises(InvalidArgument, match="whole number"):
        make(number)


def test_a_change_says_what_comes_again_and_what_is_skipped() -> None:
    queue = MessageQueue("t", "a", 0)
    back, forth = QueueReset(queue, 30, 10), QueueReset(queue, 10, 30)
    assert (back.again_count, back.skipped_count) == (20, 0)
    assert (forth.again_count, forth.skipped_count) == (0, 20)
    assert QueueLag(7, 9, 0).lag == 2
    assert QueueLag(9, 7, 0).lag == 0
    assert (QueueLag(5, 405, 0, 185).lag, QueueLag(5, 405, 0, 185).gone) == (220, 180)
    assert (QueueLag(0, 405, 0, 185).lag, QueueLag(0, 405, 0, 185).gone) == (220, 0), "it has no offset: it lost none"
    assert QueueLag(200, 405, 0, 185).gone == 0
