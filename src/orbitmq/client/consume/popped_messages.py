"""The messages of a pop's answer, each with its handle, and the requests that acknowledge them. Pure.

Source: Java MQClientAPIImpl.processPopResponse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, InvalidArgument, OrbitError
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import AckMessage, BatchAckMessages, ChangeInvisibleTimeResponse, PopResponse
from orbitmq.wire.messages.stored_messages import decode_answer
from orbitmq.wire.pop.batch_acks import BatchAck, encode_batch_acks
from orbitmq.wire.pop.handles import (
    Handle,
    format_handle,
    order_count_key,
    parse_handle,
    parse_order_counts,
    parse_popped_queues,
    pop_retry_topic,
    retry_kind,
)

NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND)
"""Codes of answers that hold no messages, and are not refusals."""


def decode_popped(answer: Command, topic: str, broker_name: str) -> tuple[list[StoredMessage], list[OrbitError]]:
    """Return the messages of a successful answer, and why each other one cannot be handed out.

    Each message has its handle among its properties, as Java's clients put it.

    Raises:
        HeaderError: the answer's texts about queues and offsets are damaged.
    """
    header = decode_header(PopResponse, answer.ext_fields)
    try:
        queues = parse_popped_queues(header.start_offset_info, header.message_offset_info)
        counts = parse_order_counts(header.order_count_info)
    except InvalidArgument as error:
        raise HeaderError(str(error)) from None
    starts = {(queue.retry, queue.queue_id): queue.start_offset for queue in queues}
    messages = []
    found = decode_answer(answer.body, broker_name)
    errors: list[OrbitError] = [*found.errors]
    for message in found.messages:
        properties = dict(message.properties)
        if PropertyName.POP_CK not in properties:
            retry = retry_kind(message.topic)
            start = starts.get((retry, message.queue_id))
            if start is None:
                errors.append(HeaderError(f"startOffsetInfo does not name queue {message.queue_id} of {message.topic}"))
                continue
            handle = Handle(
                start, header.pop_time_ms, header.invisible_ms, header.revive_queue_id, retry, broker_name,
                message.queue_id, message.queue_offset,
            )  # fmt: skip
            properties[PropertyName.POP_CK] = format_handle(handle)
        properties.setdefault(PropertyName.FIRST_POP_TIME, str(header.pop_time_ms))
        times = (_count_of(message, counts) if counts else 0) or message.reconsume_times
        messages.append(replace(message, topic=topic, properties=properties, reconsume_times=times))
    return messages, errors


def _count_of(message: StoredMessage, counts: Mapping[tuple[str, str], int]) -> int:
    """Return how often a message that came in order was tried before: its record does not say so."""
    retry, queue_id = retry_kind(message.topic), message.queue_id
    own = counts.get((retry, order_count_key(queue_id, message.queue_offset)))
    return counts.get((retry, str(queue_id)), 0) if own is None else own


def handle_of(message: StoredMessage) -> Handle:
    """Return a message's handle.

    Raises:
        InvalidArgument: it has none: no SimpleConsumer has received it.
    """
    if not isinstance(message, StoredMessage):
        raise InvalidArgument("message", message, "a message that receive() returned")
    text = message.properties.get(PropertyName.POP_CK)
    if text is None:
        raise InvalidArgument("message", message.message_id or message.topic, "a message that receive() returned")
    handle = parse_handle(text)
    if handle.queue_offset is None or handle.queue_id < 0:
        return handle._replace(queue_id=message.queue_id, queue_offset=message.queue_offset)
    return handle


def with_new_time(message: StoredMessage, handle: Handle, response: ChangeInvisibleTimeResponse) -> StoredMessage:
    """Return a message with the handle that a changed invisible time gives it."""
    assert handle.queue_offset is not None, "handle_of fills it in"
    changed = handle._replace(
        start_offset=handle.queue_offset,
        pop_time_ms=response.pop_time_ms,
        invisible_ms=response.invisible_ms,
        revive_queue_id=response.revive_queue_id,
    )
    return replace(message, properties={**message.properties, PropertyName.POP_CK: format_handle(changed)})


_DISTANCE_MAX = 256
"""Offsets behind a checkpoint's start that go into a batch: the others would make its bits long."""


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
