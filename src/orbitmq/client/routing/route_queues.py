"""The queues of a route: those that a producer may write, and those that a consumer may read. Pure.

The queues of a static topic are logical: they name no broker, and `leaders` says which broker has each of them now.

Source: Java MQClientInstance.topicRouteData2TopicPublishInfo, topicRouteData2TopicSubscribeInfo;
ClientMetadata.topicRouteData2EndpointsForStaticTopic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MASTER_ID, MessageQueue, QueueData, TopicRoute
from orbitmq.model.static_topic import LOGICAL_BROKER_PREFIX, logical_broker
from orbitmq.model.topic import Perm

NO_LEADER = LOGICAL_BROKER_PREFIX + "none__"
"""In place of a broker that leads a logical queue (Java: LOGICAL_QUEUE_MOCK_BROKER_NAME_NOT_EXIST)."""
LOGICAL_QUEUES_MAX = 65_536
"""Ours: a topic that says it has more logical queues has as many as this."""


def writable_queues(topic: str, route: TopicRoute, *, queue_count_max: int | None = None) -> tuple[MessageQueue, ...]:
    """Return the queues a producer may send to: writable, on a group whose master is there.

    Args:
        queue_count_max: at most so many queues per broker; for a topic that is yet to be created from a template.
    """
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    if route.queue_mappings:
        return tuple(leaders(topic, route))
    masters = {broker.broker_name for broker in route.brokers if MASTER_ID in broker.addresses}
    return tuple(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queues, key=_broker_name)
        if data.perm & Perm.WRITE and data.broker_name in masters
        for queue_id in range(_at_most(data.write_queue_count, queue_count_max))
    )


def readable_queues(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues a consumer may read, sorted."""
    if route.queue_mappings:
        return tuple(leaders(topic, route))
    return tuple(
        sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queues
            if data.perm & Perm.READ
            for queue_id in range(data.read_queue_count)
        )
    )


def leaders(topic: str, route: TopicRoute) -> dict[MessageQueue, str]:
    """Return the logical queues of a static topic, in order, and the broker that leads each; none for a plain topic.

    Of two brokers that both claim a queue, the one whose mapping is younger leads it.
    """
    by_scope: dict[str, list[Mapping[str, Any]]] = {}
    for mapping in (route.queue_mappings or {}).values():
        scope = mapping.get("scope")
        if isinstance(scope, str):
            by_scope.setdefault(logical_broker(scope), []).append(mapping)
    found: dict[MessageQueue, str] = {}
    for name, mappings in sorted(by_scope.items()):
        mappings.sort(key=lambda mapping: _number(mapping, "epoch"))
        count = min(max(_number(mapping, "totalQueues") for mapping in mappings), LOGICAL_QUEUES_MAX)
        brokers = {
            int(queue_id): str(mapping.get("bname"))
            for mapping in mappings
            for queue_id in mapping.get("currIdMap") or ()
        }
        found |= {MessageQueue(topic, name, number): brokers.get(number, NO_LEADER) for number in range(count)}
    return found


def is_logical(queue: MessageQueue) -> bool:
    """Return True if a queue is one of a static topic."""
    return queue.broker_name.startswith(LOGICAL_BROKER_PREFIX)


def _number(mapping: Mapping[str, Any], name: str) -> int:
    return int(mapping.get(name) or 0)


def _ordered_queues(topic: str, order_topic_conf: str) -> tuple[MessageQueue, ...]:
    """Spell out `broker-a:4;broker-b:4`: an ordered topic's queues stay the same while a broker is away."""
    queues: list[MessageQueue] = []
    for part in filter(None, order_topic_conf.split(";")):
        broker_name, _, count = part.rpartition(":")
        if not broker_name or not count.isdecimal():
            raise InvalidArgument(
                f"order configuration of topic {topic}", order_topic_conf, "broker:count;broker:count"
            )
        queues += (MessageQueue(topic, broker_name, queue_id) for queue_id in range(int(count)))
    return tuple(queues)


def _at_most(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


def _broker_name(data: QueueData) -> str:
    return data.broker_name
