"""Requests that send one message: its encoded form, and the header for a queue. Pure.

Source: Java DefaultMQProducerImpl.sendKernelImpl.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, PropertyName
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import AUTO_CREATE_TOPIC
from orbitmq.wire.headers import SendMessageV2
from orbitmq.wire.messages.compression import CompressionType, compress
from orbitmq.wire.messages.properties import format_properties

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


class EncodedMessage(NamedTuple):
    """A message ready to be sent: what depends on neither queue nor broker is encoded once, for all attempts."""

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


def encode_message(message: Message, message_id: str, compress_over: int) -> EncodedMessage:
    """Encode a message's properties, and compress its body when it is larger than `compress_over` bytes.

    Raises:
        InvalidArgument: a property that only RocketMQ itself may set, or properties too long.
    """
    body, sys_flag = bytes(message.body), 0
    if len(body) > compress_over:
        body, sys_flag = compress(body), CompressionType.ZLIB.sys_flag
    properties = _properties(message, message_id)
    if message.tag and "||" in message.tag:
        raise InvalidArgument("tag", message.tag, "one tag, without '||'")
    return EncodedMessage(message.topic, body, properties, message.flag, sys_flag, message_id)


def send_header(
    encoded: EncodedMessage, group: str, queue: MessageQueue, now_ms: int, queue_count: int
) -> SendMessageV2:
    """Return the header that sends one message to one queue."""
    return SendMessageV2(
        producer_group=group,
        topic=encoded.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=queue_count,
        queue_id=queue.queue_id,
        sys_flag=encoded.sys_flag,
        born_at_ms=now_ms,
        flag=encoded.flag,
        properties=encoded.properties.decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name=queue.broker_name,
    )


def _properties(message: Message, message_id: str) -> bytes:
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
    properties[PropertyName.WAIT] = "true"  # the answer comes when the broker's flush and replication promise is kept
    return format_properties(properties)
