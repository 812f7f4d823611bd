"""The decisions; tests/spark/jobs/test_replay.py and test_dead_letters.py run the queries."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orbitmq.errors import RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.resending.places import sent_since, starts_of
from orbitmq.spark.jobs.resending.progress import Progress
from orbitmq.wire.bodies.topics import QueueStats

QUEUE = MessageQueue("t", "a", 0)


@pytest.mark.parametrize(
    ("since", "start"),
    [({QUEUE: 5}, 5), ({QUEUE: 1}, 2), ({}, 2), ({QUEUE: 11}, 9)],
    ids=["there", "trimmed", "a new queue", "of a topic that was made anew"],
)
def test_a_topic_is_read_from_an_offset_that_it_has(since, start):
    assert starts_of({QUEUE: QueueStats(2, 9)}, since) == {QUEUE: start}


def test_a_topic_whose_brokers_are_away_is_not_passed_over():
    def stats(topic):
        if topic == "away":
            raise RouteNotFound(topic)
        return {QUEUE: QueueStats(0, 9)}

    with pytest.raises(RouteNotFound):
        sent_since(None, SimpleNamespace(readable_stats=stats), ["t", "away"], Progress("0f"), {})
