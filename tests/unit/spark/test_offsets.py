"""Offsets as JSON, and the marks in them."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import format_offsets, resolve_marks


def queue(queue_id: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "a", queue_id)


def test_positions_of_equal_offsets_are_equal_text():
    one = format_offsets({queue(1): 5, queue(10): 6, queue(2): 7})
    other = format_offsets({queue(2): 7, queue(10): 6, queue(1): 5})

    assert list(one["orders"]["a"].items()) == list(other["orders"]["a"].items())


def test_marks_become_offsets():
    earliest, latest = {queue(0): 3, queue(1): 4, queue(2): 5}, {queue(0): 13, queue(1): 14, queue(2): 15}

    assert resolve_marks({queue(0): -2, queue(1): -1, queue(2): 7}, earliest, latest, "startingOffsets") == {
        queue(0): 3,
        queue(1): 14,
        queue(2): 7,
    }


@each_case(({}, "missing orders/a/0"), ({queue(0): 1, queue(9): 1}, "orders/a/9"))
def test_offsets_name_every_queue_and_no_other(given, named):
    with pytest.raises(InvalidArgument, match=named):
        resolve_marks(given, {queue(0): 0}, {queue(0): 5}, "startingOffsets")
