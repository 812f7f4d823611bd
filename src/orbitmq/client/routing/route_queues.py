"""The queues of a route: those that a producer may write, and those that a consumer may read. Pure.

Source: Java MQClientInstance.topicRouteData2TopicPublishInfo, topicRouteData2TopicSubscribeInfo.
"""

from __future__ import annotations

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MASTER_ID, MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import Perm


def writable_queues(topic: str, route: TopicRoute, *, queue_count_max: int | None = None) -> tuple[MessageQueue, ...]:
    """Return the queues a producer may send to: writable, on a group whose master is there.

    Args:
        queue_count_max: at most so many queues per broker; for a topic that is yet to be created from a template.
    """
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    masters = {broker.broker_name for broker in route.brokers if MASTER_ID in broker.addresses}
    return tuple(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queues, key=_broker_name)
        if data.perm & Perm.WRITE and data.broker_name in masters
        for queue_id in range(_at_most(data.write_queue_count, queue_count_max))
    )


def readable_queues(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues a consumer may read, sorted."""
    return tuple(
        sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queues
            if data.perm & Perm.READ
            for queue_id in range(data.read_queue_count)
        )
    )


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
