"""Batches: several messages of one topic in one request. Pure.

Source: Java MessageBatch, MessageDecoder.encodeMessages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orbitmq.client.send.request import EncodedMessage, SendKind
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, TimerProperty
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import AUTO_CREATE_TOPIC, RETRY_PREFIX
from orbitmq.wire.headers.send import SendBatch
from orbitmq.wire.messages.batch import ITEM_SIZE_MIN, encode_batch

TIMES = frozenset((TimerProperty.DELAY_SEC, TimerProperty.DELAY_MS, TimerProperty.DELIVER_MS))
"""Users may set these by hand as well: brokers refuse a whole batch for one message that asks for a time."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Messages of one topic that were encoded together, as the body of one batch request.

    For callers that have many messages as columns: those never become objects one by one. `message_id` is the first one's.
    """

    topic: str
    body: bytes
    count: int
    message_id: str

    def __len__(self) -> int:
        return self.count

    @property
    def kind(self) -> SendKind:
        """Nothing else may travel in batches."""
        return SendKind.PLAIN

    @property
    def size(self) -> int:
        """Bytes that travel, without the header."""
        return len(self.body)


Load = Sequence[EncodedMessage] | EncodedBatch
"""What one request carries: a message, several that may travel together, or such as are encoded together already."""


def first_of(load: Load) -> EncodedMessage | EncodedBatch:
    """Return what tells the topic and the kind of all messages of a request."""
    return load if isinstance(load, EncodedBatch) else load[0]


def batch_header(topic: str, group: str, queue: MessageQueue, now_ms: int, queue_count: int) -> SendBatch:
    """Return the header that sends a batch to one queue."""
    return SendBatch(
        producer_group=group,
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=queue_count,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_at_ms=now_ms,
        flag=0,
        properties="",
        reconsume_times=0,
        unit_mode=False,
        batch=True,
        broker_name=queue.broker_name,
    )


def batch_body(batch: Iterable[EncodedMessage] | EncodedBatch) -> bytes:
    """Return the body of a batch request."""
    if isinstance(batch, EncodedBatch):
        return batch.body
    return encode_batch((encoded.flag, encoded.body, encoded.properties) for encoded in batch)


def split(batch: Sequence[EncodedMessage], size_max: int) -> list[list[EncodedMessage]]:
    """Cut a list of messages into runs whose encoded size stays below `size_max` bytes (one message at least)."""
    runs: list[list[EncodedMessage]] = []
    size = size_max  # as if a run were full: the first message begins a new one
    for encoded in batch:
        item_size = encoded.size + ITEM_SIZE_MIN
        if size + item_size > size_max:
            runs.append([])
            size = 0
        runs[-1].append(encoded)
        size += item_size
    return runs


def check_batch(messages: Sequence[Message]) -> None:
    """Refuse what cannot travel in one batch.

    Raises:
        InvalidArgument: no message, several topics, delayed messages, priorities, replies or a retry topic.
    """
    if not messages:
        raise InvalidArgument("messages", messages, "at least one message")
    topics = {message.topic for message in messages}
    if len(topics) > 1:
        raise InvalidArgument("messages", sorted(topics)[:3], "messages of one topic")
    if any(message.is_delayed or not TIMES.isdisjoint(message.properties) for message in messages):
        raise InvalidArgument("delay_level", "a delay", "no delay inside a batch: send such messages on their own")
    if any(message.priority is not None for message in messages):
        raise InvalidArgument("priority", "a priority", "no priority inside a batch: send such messages on their own")
    if any(message.in_reply_to is not None for message in messages):
        raise InvalidArgument("in_reply_to", "a reply", "no reply inside a batch: send each on its own")
    if messages[0].topic.startswith(RETRY_PREFIX):
        raise InvalidArgument("topic", messages[0].topic, "a topic that is not a retry topic, for a batch")


def fits_batch(encoded: EncodedMessage, message: Message, size_max: int) -> bool:
    """True for a message that may travel with others: not compressed, not delayed, no priority, small, no reply, no retry topic."""
    return not (
        encoded.sys_flag
        or message.is_delayed
        or message.priority is not None
        or message.in_reply_to is not None
        or encoded.size + ITEM_SIZE_MIN > size_max
        or message.topic.startswith(RETRY_PREFIX)
        or (message.properties and not TIMES.isdisjoint(message.properties))
    )
