"""The requests that acknowledge messages: one broker's go out together. Pure.

Source: Java MQClientAPIImpl.ackMessageAsync, batchAckMessageAsync.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from orbitmq.client.consume.pop.popped_messages import handle_of
from orbitmq.model.message import StoredMessage
from orbitmq.wire.headers import AckMessage, BatchAckMessages
from orbitmq.wire.pop.batch_acks import BatchAck, encode_batch_acks
from orbitmq.wire.pop.handles import Handle, format_handle, pop_retry_topic

_DISTANCE_MAX = 256
"""Offsets behind a checkpoint's beginning that go into a batch: the others would make its bits long."""


class AckRequest(NamedTuple):
    """A request for one broker."""

    broker_name: str
    header: AckMessage | BatchAckMessages
    body: bytes = b""


def ack_requests(group: str, messages: Iterable[StoredMessage]) -> list[AckRequest]:
    """Return the requests that acknowledge messages.

    Raises:
        InvalidArgument: one of the messages was not received by a SimpleConsumer.
    """
    batches: dict[str, dict[tuple[str, Handle], list[int]]] = {}
    single: list[AckRequest] = []
    handles = [(message, handle_of(message)) for message in messages]
    for message, handle in handles:
        assert handle.queue_offset is not None, "handle_of fills it in"
        if len(handles) == 1 or handle.queue_offset - handle.start_offset >= _DISTANCE_MAX:
            single.append(_single(group, message, handle))
        else:
            checkpoint = message.topic, handle._replace(queue_offset=None)
            batches.setdefault(handle.broker_name, {}).setdefault(checkpoint, []).append(handle.queue_offset)
    return single + [_batch(group, broker_name, batch) for broker_name, batch in batches.items()]


def _single(group: str, message: StoredMessage, handle: Handle) -> AckRequest:
    assert handle.queue_offset is not None, "handle_of fills it in"
    header = AckMessage(
        consumer_group=group,
        topic=pop_retry_topic(message.topic, group, handle.retry),
        queue_id=handle.queue_id,
        handle=format_handle(handle),
        queue_offset=handle.queue_offset,
        broker_name=handle.broker_name,
    )
    return AckRequest(handle.broker_name, header)


def _batch(group: str, broker_name: str, batch: dict[tuple[str, Handle], list[int]]) -> AckRequest:
    acks = [
        BatchAck(
            group, topic, handle.retry, handle.start_offset, handle.queue_id, handle.revive_queue_id, handle.pop_time_ms,
            handle.invisible_ms, sorted(set(offsets)),
        )
        for (topic, handle), offsets in batch.items()
    ]  # fmt: skip
    return AckRequest(broker_name, BatchAckMessages(), encode_batch_acks(broker_name, acks))
