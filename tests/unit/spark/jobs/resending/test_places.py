"""The decisions; tests/spark/jobs/test_replay.py and test_dead_letters.py run the queries."""

from __future__ import annotations

import pytest

from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.resending.places import starts_of
from orbitmq.wire.bodies.topics import QueueStats

QUEUE = MessageQueue("t", "a", 0)


@pytest.mark.parametrize(
    ("since", "start"),
    [({QUEUE: 5}, 5), ({QUEUE: 1}, 2), ({}, 2), ({QUEUE: 11}, 9)],
    ids=["there", "trimmed", "a new queue", "of a topic that was made anew"],
)
def test_a_topic_is_read_from_an_offset_that_it_has(since, start):
    assert starts_of({QUEUE: QueueStats(2, 9)}, since) == {QUEUE: start}
