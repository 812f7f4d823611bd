"""The messages of a pull as their consumer is to see them: decoded, and filtered by the text of their tags. Pure.

Source: Java PullAPIWrapper.processPullResult.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from struct import Struct
from typing import NamedTuple

from orbitmq.client.consume.subscriptions import wants
from orbitmq.client.routing.route_queues import is_logical
from orbitmq.errors import CorruptRecord
from orbitmq.model.group import Subscription
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.wire.messages.stored_messages import decode_answer


class Pulled(NamedTuple):
    """The wanted messages of a pull, why each other record cannot be read, and where the next pull starts."""

    messages: list[StoredMessage]
    errors: list[CorruptRecord]
    next_offset: int


def decode_messages(
    records: bytes,
    queue: MessageQueue,
    subscription: Subscription,
    pull_offset: int,
    next_offset: int,
    offset_delta: int | None = None,
    *,
    body_size_max: int | None = None,
) -> Pulled:
    """Return the messages that `subscription` wants, of whole records back to back; a damaged one stops no other.

    Where one is so damaged that it hides those behind it, the next pull starts behind it instead of behind the answer. One
    whose queue offset cannot be right gets the one that it can have: committed, the other would pass over messages.

    Args:
        pull_offset: the queue offset that was asked for.
        next_offset: the one behind the answer.
        offset_delta: from a record's offset to the one in its logical queue; None for a plain queue.
        body_size_max: bytes of each body that are kept; None: all.
    """
    records = logical_records(records, queue, offset_delta)
    messages, errors, unread = decode_answer(records, queue.broker_name, body_size_max=body_size_max)
    if unread:
        damaged = max([pull_offset, *(message.queue_offset + 1 for message in messages)])
        next_offset = min(damaged + 1, next_offset)
    messages = list(_in_their_places(messages, errors, pull_offset, next_offset))
    if subscription.tags:
        messages = [message for message in messages if wants(subscription, message.tag)]
    if queue.topic.startswith(RETRY_PREFIX):
        messages = [_as_sent(message) for message in messages]
    return Pulled(messages, errors, next_offset)


def _in_their_places(
    messages: Iterable[StoredMessage], errors: list[CorruptRecord], pull_offset: int, next_offset: int
) -> Iterator[StoredMessage]:
    behind = pull_offset
    for message in messages:
        if not pull_offset <= message.queue_offset < next_offset and behind < next_offset:
            errors.append(CorruptRecord(message.physical_offset, f"its queue offset is {message.queue_offset}"))
            message = replace(message, queue_offset=behind)
        behind = message.queue_offset + 1
        yield message


def _as_sent(message: StoredMessage) -> StoredMessage:
    """Return a message from the retry topic under the topic it was sent to."""
    topic = message.properties.get(PropertyName.RETRY_TOPIC)
    return replace(message, topic=topic) if topic else message


_SIZE = Struct(">I")
_QUEUE_ID_AT, _QUEUE_OFFSET_AT = 12, 20
_QUEUE_ID, _QUEUE_OFFSET = Struct(">i"), Struct(">q")
_HEAD_SIZE = _QUEUE_OFFSET_AT + _QUEUE_OFFSET.size


def logical_records(records: bytes, queue: MessageQueue, offset_delta: int | None) -> bytes:
    """Return whole records, back to back, as records of their logical queue; those of a plain queue as they are.

    What is damaged stays as it is, for the decoder to report.
    """
    if not is_logical(queue):
        return records
    found = bytearray(records)
    start = 0
    while start + _HEAD_SIZE <= len(found):
        (size,) = _SIZE.unpack_from(found, start)
        if size < _HEAD_SIZE:
            break
        (queue_offset,) = _QUEUE_OFFSET.unpack_from(found, start + _QUEUE_OFFSET_AT)
        _QUEUE_ID.pack_into(found, start + _QUEUE_ID_AT, queue.queue_id)
        _QUEUE_OFFSET.pack_into(found, start + _QUEUE_OFFSET_AT, queue_offset + (offset_delta or 0))
        start += size
    return bytes(found)
