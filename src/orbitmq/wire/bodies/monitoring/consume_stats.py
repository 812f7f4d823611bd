"""The places of all groups of a broker, in one answer.

Source: Java ConsumeStatsList, ConsumeStats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.topics import Progress, consume_stats_document


class TopicProgress(NamedTuple):
    """A group's place in every queue of one topic, and how many messages of it the group gets per second."""

    queues: Mapping[MessageQueue, Progress]
    rate: float = 0.0


def encode_broker_consume_stats(address: str, groups: Mapping[str, Iterable[TopicProgress]]) -> bytes:
    """Encode the answer to GET_BROKER_CONSUME_STATS: per group, each of its topics."""
    behind = in_flight = 0
    listed: list[dict[str, Any]] = []
    for group, topics in groups.items():
        documents = []
        for topic in topics:
            documents.append(consume_stats_document(topic.queues, topic.rate))
            behind += sum(place.broker_offset - place.consumer_offset for place in topic.queues.values())
            in_flight += sum(place.pull_offset - place.consumer_offset for place in topic.queues.values())
        listed.append({group: documents})
    return fastjson.dumps_loose(
        {"brokerAddr": address, "consumeStatsList": listed, "totalDiff": behind, "totalInflightDiff": in_flight}
    )
