"""The decisions of the job; tests/spark/jobs/test_lag.py runs it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from orbitmq.admin.groups import QueueLag
from orbitmq.errors import ClientError
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.lag import Summary, check_samples, look
from orbitmq.spark.jobs.lag_samples import UNKNOWN, GroupPosition
from orbitmq.wire.bodies.topics import QueueStats

FIRST, SECOND, THIRD = (MessageQueue("t", "a", number) for number in range(3))


class Admin:
    """A cluster with three queues: the group is at 5 of 7, at 0 of 7, and nowhere."""

    async def topic_stats(self, topic):
        return {queue: QueueStats(0, 7) for queue in (FIRST, SECOND, THIRD)}

    async def group_lag(self, group, topic):
        return {queue: QueueLag(5 if queue == FIRST else 0, 7, 0) for queue in (FIRST, SECOND, THIRD)}

    async def group_has_committed(self, group, queue):
        return queue == SECOND


async def fail(*_):
    raise ClientError("the broker does not answer")


def seen(admin, known=()):
    return asyncio.run(look(admin, "g", "t", known))


def test_a_queue_without_an_offset_is_unknown_and_one_at_zero_is_not():
    places, issue = seen(Admin())
    assert [places[queue].lag for queue in (FIRST, SECOND, THIRD)] == [2, 7, None]
    assert places[THIRD] == GroupPosition(None, 7)
    assert issue is None


def test_a_moment_at_which_a_broker_does_not_answer_is_unknown():
    admin = Admin()
    admin.group_lag = fail
    assert seen(admin, [FIRST]) == ({FIRST: UNKNOWN}, "the broker does not answer")


def test_a_queue_that_is_gone_is_unknown():
    gone = MessageQueue("t", "b", 0)
    assert seen(Admin(), [gone])[0][gone] == UNKNOWN


def test_a_cluster_that_cannot_be_asked_at_first_is_an_error():
    with pytest.raises(ClientError, match="does not answer"):
        seen(SimpleNamespace(topic_stats=fail))


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (Summary(3, 6, 6, 2, 0), [True, True, True]),
        (Summary(2, 6, 6, 2, 0), [False, True, True]),
        (Summary(3, 6, 5, 2, 0), [True, False, True]),
        (Summary(3, 6, 6, 2, 1), [True, True, False]),
    ],
    ids=["right", "a moment is missing", "a queue twice", "unknown shown as a number"],
)
def test_samples_that_are_wrong_are_told(found, holds):
    assert [result.holds for result in check_samples(3, found)] == holds
