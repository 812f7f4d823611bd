from __future__ import annotations

import pytest

from orbitmq.spark.jobs.frame.checks import QueueCount, check_queues


def test_messages_that_are_there_once_each_pass():
    verdicts = check_queues([QueueCount(10, 10, 0, 9), QueueCount(1, 1, 7, 7)])

    assert [verdict.holds for verdict in verdicts] == [True, True]
    assert [verdict.claim for verdict in verdicts] == [
        "rows = different messages: 11 = 11",
        "offsets are contiguous in each of 2 queues",
    ]


@pytest.mark.parametrize(
    ("queue", "holds"),
    [
        (QueueCount(11, 10, 0, 9), [False, False]),
        (QueueCount(9, 9, 0, 9), [True, False]),
        (QueueCount(10, 9, 0, 9), [False, False]),
    ],
    ids=["one twice", "one missing", "one twice and one missing"],
)
def test_a_message_that_is_there_twice_or_not_at_all_is_told(queue, holds):
    assert [verdict.holds for verdict in check_queues([QueueCount(5, 5, 0, 4), queue])] == holds


def test_an_empty_archive_is_right():
    assert all(verdict.holds for verdict in check_queues([]))
