"""What a route means for a client: the queues to write and to read, the addresses to call, and whether it changed.

Holds the choice of a queue, too. Pure: routes, keys and avoided brokers come in, queues and addresses go out.

Source: Java MQClientInstance.topicRouteData2TopicPublishInfo, topicRouteData2TopicSubscribeInfo, TopicPublishInfo.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MASTER_ID, BrokerData, MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import Perm
from orbitmq.wire.tags import tag_code


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
        for data in sorted(route.queues, key=_queue_data_order)
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


def same_route(old: TopicRoute | None, new: TopicRoute | None) -> bool:
    """True when both say the same, in whatever order their lists come. Nothing equals a route that is missing."""
    if old is None or new is None:
        return False
    return old == new or _in_order(old) == _in_order(new)


def address_of(broker: BrokerData, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
    """Return the address of one member of a broker group.

    Args:
        broker_id: whom to prefer; 0 is the master.
        only_this: None rather than another member when the preferred one is not there.
    """
    address = broker.addresses.get(broker_id)
    if address is not None or only_this or not broker.addresses:
        return address
    return broker.addresses[min(broker.addresses)]


def choose_by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue that `key` belongs to; Java's SelectMessageQueueByHash picks the same one for a String."""
    return queues[abs(tag_code(key)) % len(queues)]


class RoundRobin:
    """Takes queues in turn, past brokers that are to be avoided.

    Args:
        start: where to begin; chosen at random, so that many producers do not all begin at the same queue.
    """

    def __init__(self, start: int) -> None:
        self._next = start

    def choose(self, queues: Sequence[MessageQueue], avoided: Collection[str] = ()) -> MessageQueue:
        """Return the next queue that is not on an avoided broker; the next one at all when every broker is."""
        count = len(queues)
        start = self._next
        self._next = start + 1
        if avoided:
            for step in range(count):
                queue = queues[(start + step) % count]
                if queue.broker_name not in avoided:
                    self._next = start + step + 1
                    return queue
        return queues[start % count]


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


def _queue_data_order(data: QueueData) -> tuple[str, int, int, int]:
    return data.broker_name, data.read_queue_count, data.write_queue_count, data.perm


def _in_order(route: TopicRoute) -> tuple[object, ...]:
    brokers = sorted(route.brokers, key=lambda broker: (broker.broker_name, broker.cluster))
    return (
        sorted(route.queues, key=_queue_data_order),
        [(b.cluster, b.broker_name, dict(b.addresses), b.zone_name, b.enable_acting_master) for b in brokers],
        route.order_topic_conf,
        {address: tuple(sorted(servers)) for address, servers in route.filter_servers.items()},
    )
