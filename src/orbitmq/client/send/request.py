"""Requests that send one message: its encoded form, and the header for a queue. Pure.

Source: Java DefaultMQProducerImpl.sendKernelImpl.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, PropertyName, ReplyTo, SysFlag, TimerProperty
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import AUTO_CREATE_TOPIC
from orbitmq.wire.headers.send import SendMessageV2, SendReplyV2
from orbitmq.wire.messages.compression import CompressionType, compress
from orbitmq.wire.messages.properties import format_properties

COMPRESS_OVER = 4_096
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)

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
        ResponseCode.NOT_LEADER_FOR_QUEUE,
    )
)
"""Refusals that another broker may not share (Java: DefaultMQProducer.retryResponseCodes)."""

OLD_ROUTE_CODES = frozenset(
    (
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NOT_LEADER_FOR_QUEUE,
        ResponseCode.TOPIC_NOT_EXIST,
    )
)
"""Refusals by which a broker may say that the route is old: it has the queue no more (29), must not take it, or has no such topic."""

_RESERVED = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_") and isinstance(value, str)
)


class SendKind(Enum):
    """The sender's side of a request message."""

    PLAIN = "plain"
    REQUEST = "request"
    """The broker must know this client when the message arrives, for it will push the reply to it."""
    HALF = "half"
    """The broker must know this client as well: it may ask how the transaction ends."""
    REPLY = "reply"
    """It travels under a code of its own."""


class EncodedMessage(NamedTuple):
    """A message ready to be sent: what depends on neither queue nor broker is encoded once, for all attempts."""

    topic: str
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    message_id: str
    kind: SendKind = SendKind.PLAIN

    @property
    def size(self) -> int:
        """Bytes that travel, without the header."""
        return len(self.body) + len(self.properties)


_HEADERS: dict[SendKind, type[SendMessageV2] | type[SendReplyV2]] = {
    SendKind.PLAIN: SendMessageV2,
    SendKind.REQUEST: SendMessageV2,
    SendKind.HALF: SendMessageV2,
    SendKind.REPLY: SendReplyV2,
}


def encode_message(
    message: Message,
    message_id: str,
    compress_over: int,
    request: Mapping[str, str] | None = None,
    *,
    half_of: str | None = None,
) -> EncodedMessage:
    """Encode a message's properties, and compress its body when it is larger than `compress_over` bytes.

    Args:
        request: what makes the message a request; see `request_properties`.
        half_of: the producer group that decides about the message: it is the half of a transaction.

    Raises:
        InvalidArgument: a property that only RocketMQ itself may set, or properties too long.
    """
    body, sys_flag = bytes(message.body), 0
    if len(body) > compress_over:
        packed = compress(body)
        if len(packed) < len(body):  # random bytes would grow, perhaps over the broker's limit
            body, sys_flag = packed, CompressionType.ZLIB.sys_flag
    made = request if half_of is None else {PropertyName.TRAN_MSG: "true", PropertyName.PRODUCER_GROUP: half_of}
    properties = _properties(message, message_id, made)
    if message.tag and "||" in message.tag:
        raise InvalidArgument("tag", message.tag, "one tag, without '||'")
    kind = SendKind.PLAIN
    if half_of is not None:
        kind, sys_flag = SendKind.HALF, sys_flag | SysFlag.TRANSACTION_PREPARED
    elif request is not None:
        kind = SendKind.REQUEST
    elif message.in_reply_to is not None:
        kind = SendKind.REPLY
    return EncodedMessage(message.topic, body, properties, message.flag, sys_flag, message_id, kind)


def send_header(
    encoded: EncodedMessage, group: str, queue: MessageQueue, now_ms: int, queue_count: int
) -> SendMessageV2 | SendReplyV2:
    """Return the header that sends one message to one queue."""
    return _HEADERS[encoded.kind](
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


def request_properties(correlation_id: str, client_id: str, timeout_ms: int) -> dict[str, str]:
    """Return what makes a message a request (Java: DefaultMQProducerImpl.prepareSendRequest)."""
    return {
        PropertyName.CORRELATION_ID: correlation_id,
        PropertyName.REPLY_TO_CLIENT: client_id,
        PropertyName.TTL: str(timeout_ms),
    }


def _reply_properties(in_reply_to: ReplyTo) -> dict[str, str]:
    found = {
        PropertyName.MESSAGE_TYPE: "reply",
        PropertyName.CORRELATION_ID: in_reply_to.correlation_id,
        PropertyName.REPLY_TO_CLIENT: in_reply_to.client_id,
    }
    return found if in_reply_to.ttl is None else {**found, PropertyName.TTL: in_reply_to.ttl}


def _properties(message: Message, message_id: str, made: Mapping[str, str] | None) -> bytes:
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
    elif message.delay_ms:
        properties[TimerProperty.DELAY_MS] = str(message.delay_ms)
    elif message.deliver_at is not None:
        properties[TimerProperty.DELIVER_MS] = str(
            -((_EPOCH - message.deliver_at) // _MILLISECOND)
        )  # no part of one earlier
    if message.sharding_key is not None:
        properties[PropertyName.SHARDING_KEY] = message.sharding_key
    if message.priority is not None:
        properties[PropertyName.PRIORITY] = str(message.priority)
    if message.in_reply_to is not None:
        properties |= _reply_properties(message.in_reply_to)
    if made is not None:
        properties |= made
    properties[PropertyName.UNIQ_KEY] = message_id
    properties[PropertyName.WAIT] = "true"  # the answer comes when the broker's flush and replication promise is kept
    return format_properties(properties)
