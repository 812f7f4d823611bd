"""What goes into a send request and what comes out of its answer. Pure.

In: messages, sizes, ids and times. Out: typed headers, bodies, results.
Source: Java DefaultMQProducerImpl.sendKernelImpl, MQClientAPIImpl.processSendResponse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, PropertyName
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import AUTO_CREATE_TOPIC, RETRY_PREFIX
from orbitmq.wire.batch import encode_batch
from orbitmq.wire.command import Command
from orbitmq.wire.compression import CompressionType, compress
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendBatch, SendMessageV2, SendResponse
from orbitmq.wire.properties import format_properties

DEFAULT_QUEUE_COUNT = 4
"""Queues per broker of a topic that is created by sending to it (Java: defaultTopicQueueNums)."""

RETRY_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    )
)
"""Refusals that another broker may not share (Java: DefaultMQProducer.retryResponseCodes)."""

_RESERVED = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_") and isinstance(value, str)
)


class SendStatus(StrEnum):
    """What the broker had done when it answered (Java: SendStatus). Only SEND_OK keeps the broker's whole promise."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


_STATUS = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(NamedTuple):
    """Where a message went.

    `message_id` is the client's unique key, `offset_message_id` the broker's (empty when it gave none);
    `queue_offset` counts messages.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus


class Outgoing(NamedTuple):
    """A message made ready: what depends on neither queue nor broker is encoded once, for all attempts."""

    topic: str
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    message_id: str

    @property
    def size(self) -> int:
        """Bytes that travel, without the header."""
        return len(self.body) + len(self.properties)


def prepare(message: Message, message_id: str, compress_over: int, *, wait: bool = True) -> Outgoing:
    """Encode a message's properties, and compress its body when it is larger than `compress_over` bytes.

    Raises:
        InvalidArgument: a property that only RocketMQ itself may set, or properties too long.
    """
    body, sys_flag = bytes(message.body), 0
    if len(body) > compress_over:
        body, sys_flag = compress(body), CompressionType.ZLIB.sys_flag
    properties = _properties(message, message_id, wait=wait)
    if message.tag and "||" in message.tag:
        raise InvalidArgument("tag", message.tag, "one tag, without '||'")
    return Outgoing(message.topic, body, properties, message.flag, sys_flag, message_id)


def send_header(outgoing: Outgoing, group: str, queue: MessageQueue, now_ms: int, queue_count: int) -> SendMessageV2:
    """Return the header that sends one message to one queue."""
    return SendMessageV2(
        producer_group=group,
        topic=outgoing.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=queue_count,
        queue_id=queue.queue_id,
        sys_flag=outgoing.sys_flag,
        born_at_ms=now_ms,
        flag=outgoing.flag,
        properties=outgoing.properties.decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name=queue.broker_name,
    )


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


def batch_body(batch: Iterable[Outgoing]) -> bytes:
    """Return the body of a batch request."""
    return encode_batch((outgoing.flag, outgoing.body, outgoing.properties) for outgoing in batch)


def split(batch: Sequence[Outgoing], size_max: int) -> list[list[Outgoing]]:
    """Cut a list of messages into runs whose encoded size stays below `size_max` bytes (one message at least)."""
    runs: list[list[Outgoing]] = []
    size = size_max
    for outgoing in batch:
        item_size = outgoing.size + BATCH_ITEM_OVERHEAD
        if size + item_size > size_max:
            runs.append([])
            size = 0
        runs[-1].append(outgoing)
        size += item_size
    return runs


BATCH_ITEM_OVERHEAD = 22
"""Bytes that a message takes in a batch beside body and properties."""


def check_batch(messages: Sequence[Message]) -> None:
    """Refuse what cannot travel in one batch.

    Raises:
        InvalidArgument: no message, several topics, delayed messages or a retry topic.
    """
    if not messages:
        raise InvalidArgument("messages", messages, "at least one message")
    topics = {message.topic for message in messages}
    if len(topics) > 1:
        raise InvalidArgument("messages", sorted(topics)[:3], "messages of one topic")
    if any(message.delay_level for message in messages):
        raise InvalidArgument("delay_level", "a delay", "no delay inside a batch: send such messages on their own")
    if messages[0].topic.startswith(RETRY_PREFIX):
        raise InvalidArgument("topic", messages[0].topic, "a topic that is no retry topic, for a batch")


def fits_batch(outgoing: Outgoing, message: Message, size_max: int) -> bool:
    """True for a message that may travel with others: not compressed, not delayed, small, no retry topic."""
    return not (
        outgoing.sys_flag
        or message.delay_level
        or outgoing.size + BATCH_ITEM_OVERHEAD > size_max
        or message.topic.startswith(RETRY_PREFIX)
    )


def results(batch: Sequence[Outgoing], queue: MessageQueue, answer: Command) -> list[SendResult] | None:
    """Return the result of each message that a request carried, or None when the broker refused it.

    Raises:
        HeaderError: a success that does not say where the messages are.
    """
    status = _STATUS.get(answer.code)  # type: ignore[call-overload]
    if status is None:
        return None
    header = decode_header(SendResponse, answer.ext_fields)
    if len(batch) == 1:
        outgoing = batch[0]
        return [SendResult(outgoing.message_id, header.message_id, queue, header.queue_offset, status)]
    # A batch is answered with the offset of its first message and the ids of all, joined by commas.
    offset_ids = header.message_id.split(",")
    if len(offset_ids) != len(batch):
        offset_ids = [""] * len(batch)
    return [
        SendResult(outgoing.message_id, offset_id, queue, header.queue_offset + place, status)
        for place, (outgoing, offset_id) in enumerate(zip(batch, offset_ids, strict=True))
    ]


def _properties(message: Message, message_id: str, *, wait: bool) -> bytes:
    for name in message.properties:
        if name in _RESERVED:
            raise InvalidArgument("properties", name, "a name that RocketMQ does not use itself")
    properties = dict(message.properties)
    if message.keys:
        properties[PropertyName.KEYS] = " ".join(message.keys)
    if message.tag:
        properties[PropertyName.TAGS] = message.tag
    if message.delay_level:
        properties[PropertyName.DELAY] = str(message.delay_level)
    if message.sharding_key is not None:
        properties[PropertyName.SHARDING_KEY] = message.sharding_key
    properties[PropertyName.UNIQ_KEY] = message_id
    properties[PropertyName.WAIT] = "true" if wait else "false"
    return format_properties(properties)
