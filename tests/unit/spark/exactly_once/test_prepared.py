"""A marker says of its winners who they are, and what they add to which queues."""

from __future__ import annotations

from orbitmq.model.route import MessageQueue
from orbitmq.spark.exactly_once.commit_markers import Filled
from orbitmq.spark.exactly_once.prepared import Prepared, marker_parts

A, B = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def test_a_marker_adds_up_what_the_tasks_add_to_each_queue_from_the_lowest_begin_on():
    first = Prepared("q", 0, "one", 0, unverified=((4, 4),), filled={A: Filled(7, 3), B: Filled(9, 1)})
    second = Prepared("q", 0, "two", 0, filled={A: Filled(5, 2)})
    empty = Prepared("q", 0, "three", 0)

    assert marker_parts([first, second, empty]) == ({"one": ((4, 4),), "two": ()}, {A: Filled(5, 5), B: Filled(9, 1)})
    assert [first.count, empty.count] == [4, 0]
