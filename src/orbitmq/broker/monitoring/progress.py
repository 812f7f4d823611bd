"""A group's place in the queues of a topic."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.broker.groups.offsets import UNKNOWN, GroupOffsets
from orbitmq.model.route import MessageQueue
from orbitmq.store import Store
from orbitmq.wire.bodies.topics import QueueProgress


def stored_queue_ids(store: Store, topic: str, queue_count: int) -> list[int]:
    """Return the ids of the queues that a topic has by its settings, and of others that hold messages from before a change.

    Args:
        queue_count: by the settings.
    """
    others = (
        queue_id
        for queue_id in store.queue_ids(topic)
        if queue_id >= queue_count and store.max_offset(topic, queue_id) > store.min_offset(topic, queue_id)
    )
    return [*range(queue_count), *others]


def group_progress(
    store: Store,
    offsets: GroupOffsets,
    pulled: Mapping[tuple[str, str, int], int],
    broker_name: str,
    group: str,
    topic: str,
    queue_count: int,
    unknown: int = 0,
) -> dict[MessageQueue, QueueProgress]:
    """Return a group's place in each of a topic's queues, those that hold messages behind `queue_count` included.

    Args:
        pulled: where the group's readers go on, by topic, group and queue id.
        unknown: stands for the offset in queues that the group has none in.
    """
    places = {}
    for queue_id in stored_queue_ids(store, topic, queue_count):
        committed = offsets.query(group, topic, queue_id)
        consumed = unknown if committed == UNKNOWN else committed
        queue = MessageQueue(topic, broker_name, queue_id)
        end = store.max_offset(topic, queue_id)
        read = max(consumed, pulled.get((topic, group, queue_id), consumed))
        places[queue] = QueueProgress(end, consumed, read, stored_at_ms(store, queue, consumed - 1))
    return places


def stored_at_ms(store: Store, queue: MessageQueue, queue_offset: int) -> int:
    """Return when one message was stored, 0 when it is not there."""
    record = store.message_at(queue.topic, queue.queue_id, queue_offset) if queue_offset >= 0 else None
    return record.stored_at_ms if record is not None else 0
