"""The decisions of the job; tests/spark/jobs/test_archive.py runs it."""

from __future__ import annotations

from cases import each_case
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.archive import check_archive, check_queues
from orbitmq.spark.jobs.tables import QueueCount
from orbitmq.wire.bodies.topics import QueueStats

QUEUE, OTHER = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


def results(goal, found, *, is_whole=True):
    return [result.holds for result in check_archive(goal, found, is_whole=is_whole)]


def test_an_archive_that_has_the_whole_topic_is_right():
    goal = {QUEUE: QueueStats(2, 10), OTHER: QueueStats(5, 5)}
    assert results(goal, {QUEUE: QueueCount(10, 10, 0, 9)}) == [True, True, True]
    assert results(goal, {QUEUE: QueueCount(12, 12, 2, 13)}) == [True, True, True]


def test_a_message_at_either_end_that_is_missing_is_told():
    goal = {QUEUE: QueueStats(2, 10)}
    assert results(goal, {QUEUE: QueueCount(7, 7, 3, 9)}) == [True, True, False]
    assert results(goal, {QUEUE: QueueCount(7, 7, 2, 8)}) == [True, True, False]
    assert results(goal, {}) == [True, True, False]


def test_of_an_archive_that_begins_in_the_middle_the_beginning_is_not_asked():
    assert results({QUEUE: QueueStats(2, 10)}, {QUEUE: QueueCount(2, 2, 8, 9)}, is_whole=False) == [True, True]


def test_messages_that_are_there_once_each_pass():
    results = check_queues([QueueCount(10, 10, 0, 9), QueueCount(1, 1, 7, 7)])

    assert [result.holds for result in results] == [True, True]
    assert [result.claim for result in results] == [
        "rows = different messages: 11 = 11",
        "offsets are contiguous in each of 2 queues",
    ]


@each_case(
    (QueueCount(11, 10, 0, 9), [False, False]),
    (QueueCount(9, 9, 0, 9), [True, False]),
    (QueueCount(10, 9, 0, 9), [False, False]),
)
def test_a_message_that_is_there_twice_or_not_at_all_is_told(queue, holds):
    assert [result.holds for result in check_queues([QueueCount(5, 5, 0, 4), queue])] == holds


def test_an_empty_archive_is_right():
    assert all(result.holds for result in check_queues([]))
