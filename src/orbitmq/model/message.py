"""Messages: those that users send, and those that brokers have stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from operator import index
from typing import NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.model.delay_levels import DELAY_DAYS_MAX, DELAY_LEVELS_MAX
from orbitmq.model.topic import check_name, reply_topic

BODY_SIZE_MAX = 4 * 1024 * 1024
"""Bytes of a message body, as RocketMQ's `maxMessageSize`."""
PROPERTIES_SIZE_MAX = 32767
"""Bytes of the encoded properties: their length travels as a signed short."""

FLAG_LIMIT = 2**31
DELAY_MS_MAX = DELAY_DAYS_MAX * 24 * 60 * 60 * 1_000
"""A hundred years; brokers allow less."""
_KEYS = "a list of strings, one per key"
_PROPERTIES = "a dict of text to text"
_PRIORITY = re.compile(r"\+?0*([0-9]{1,10})")


class PropertyName:
    """Names of the properties that RocketMQ gives a meaning (Java: MessageConst)."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT = "WAIT"
    DELAY = "DELAY"
    RETRY_TOPIC = "RETRY_TOPIC"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    UNIQ_KEY = "UNIQ_KEY"
    INNER_NUM = "INNER_NUM"
    LMQ_QUEUES = "INNER_MULTI_DISPATCH"
    LMQ_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
    CLUSTER = "CLUSTER"
    TRAN_MSG = "TRAN_MSG"
    PRODUCER_GROUP = "PGROUP"
    TRANSACTION_ID = "__transactionId__"
    CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    SHARDING_KEY = "__SHARDINGKEY"
    PRIORITY = "_SYS_MSG_PRIORITY_"
    CRC32 = "__CRC32#"
    CORRELATION_ID = "CORRELATION_ID"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    TTL = "TTL"
    MESSAGE_TYPE = "MSG_TYPE"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    ARRIVE_TIME = "ARRIVE_TIME"
    POP_CK = "POP_CK"
    FIRST_POP_TIME = "1ST_POP_TIME"
    DECODE_ERROR = "DECODE_ERROR"
    """Ours: why a dead letter's body is as it was stored, see StoredMessage.decode_error."""


class TimerProperty:
    """Names of the properties of messages that are delivered at a time of their own (Java: MessageConst).

    Senders write the first four, brokers the others. Apart from the others of their kind: users may set them by hand.
    """

    DELAY_SEC = "TIMER_DELAY_SEC"
    DELAY_MS = "TIMER_DELAY_MS"
    DELIVER_MS = "TIMER_DELIVER_MS"
    DELETE_KEY = "TIMER_DEL_UNIQKEY"
    OUT_MS = "TIMER_OUT_MS"
    ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    ROLL_TIMES = "TIMER_ROLL_TIMES"


class SysFlag:
    """Bits of a stored message's sys_flag (Java: MessageSysFlag)."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    """The body holds a batch, as in topics of type BatchCQ."""
    FOR_THE_BROKER = TRANSACTION_MASK | INNER_BATCH
    """A sender's message has none of these."""
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300
    COMPRESSION_MASK = 0x700


class Host(NamedTuple):
    """An address as stored messages carry it: text form of an IPv4 or IPv6 address, and a port."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class ReplyTo(NamedTuple):
    """What makes a message a reply: the request's correlation id, and the client that waits for it.

    `ttl` is how long the client waits, in ms as text, None when the request does not say it; `broker_name` is where the
    request was stored, and where that client is connected.
    """

    correlation_id: str
    client_id: str
    ttl: str | None
    broker_name: str


def parse_priority(text: str) -> int | None:
    """Return a priority as its property has it; None for what is not a number of 31 bits (Java: Message.getPriority)."""
    found = _PRIORITY.fullmatch(text)
    number = FLAG_LIMIT if found is None else int(found[1])
    return number if number < FLAG_LIMIT else None


def priority_of(properties: Mapping[str, str]) -> int | None:
    """Return the priority that a message was sent with; None without one, or where a sharding key chooses the queue."""
    if PropertyName.SHARDING_KEY in properties:
        return None
    return parse_priority(properties.get(PropertyName.PRIORITY, ""))


def split_keys(text: str) -> tuple[str, ...]:
    """Return the keys of the property KEYS, which blanks separate and no other white space (Java: MessageConst.KEY_SEPARATOR)."""
    return tuple(filter(None, text.split(" ")))


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send.

    Args:
        topic: up to 127 characters of the topic alphabet.
        body: up to 4 MiB.
        tag: one tag; consumers filter on it at the broker.
        keys: business keys, found again with a query by key; no blanks inside one, which separate them.
        properties: the user's own name-value pairs.
        flag: a free 32-bit number.
        delay_level: one of the broker's levels, 0 for no delay. Most have 1 to 18 (1s 5s 10s 30s 1m .. 2h); one above
            the highest is the highest.
        sharding_key: messages of one key go to one queue, in order.
        in_reply_to: set by `StoredMessage.reply`.
        delay_ms: deliver it so long after the broker has it, in steps of a second unless the broker is set to shorter ones.
        deliver_at: deliver it at this time (with a time zone), or immediately when that is over.
        priority: 0 is the lowest one; in a topic of type PRIORITY groups that pop get higher ones first. The broker stores the
            message in the queue of this number, or in the last one. Not with a delay or a sharding key.
    """

    topic: str
    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] | list[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    sharding_key: str | None = None
    in_reply_to: ReplyTo | None = None
    delay_ms: int = 0
    deliver_at: datetime | None = None
    priority: int | None = None

    def __post_init__(self) -> None:
        check_name("topic", self.topic)
        if not isinstance(self.body, bytes | bytearray | memoryview):
            raise InvalidArgument("body", type(self.body).__name__, "bytes")
        if len(self.body) > BODY_SIZE_MAX:
            raise InvalidArgument("body", f"{len(self.body)} bytes", f"at most {BODY_SIZE_MAX} bytes")
        if self.tag is not None and not isinstance(self.tag, str):
            raise InvalidArgument("tag", self.tag, "one tag, as text, or None")
        if self.keys:
            self._check_keys()
        elif self.keys not in ((), []):
            raise InvalidArgument("keys", self.keys, _KEYS)
        if type(self.properties) is not dict or self.properties:
            self._check_properties()
        if not type(self.flag) is type(self.delay_level) is type(self.delay_ms) is int:
            self._take_ints()
        if type(self.flag) is not int or not -FLAG_LIMIT <= self.flag < FLAG_LIMIT:
            raise InvalidArgument("flag", self.flag, "a whole number of 32 bits")
        if self.sharding_key is not None and not isinstance(self.sharding_key, str):
            raise InvalidArgument("sharding_key", self.sharding_key, "a text or None")
        if self.in_reply_to is not None and not isinstance(self.in_reply_to, ReplyTo):
            raise InvalidArgument("in_reply_to", self.in_reply_to, "what StoredMessage.reply() sets, or None")
        if type(self.delay_level) is not int or not 0 <= self.delay_level <= DELAY_LEVELS_MAX:
            raise InvalidArgument("delay_level", self.delay_level, f"1 to {DELAY_LEVELS_MAX}, or 0 for no delay")
        if type(self.delay_ms) is not int or self.delay_ms or self.deliver_at is not None:
            self._check_time()
        if self.priority is not None:
            self._check_priority()

    @property
    def is_delayed(self) -> bool:
        """Return True if it is to be delivered later."""
        return bool(self.delay_level or self.delay_ms or self.deliver_at is not None)

    def _check_priority(self) -> None:
        self._take_ints()
        if type(self.priority) is not int or not 0 <= self.priority < FLAG_LIMIT:
            raise InvalidArgument("priority", self.priority, "a whole number from 0 on, or None")
        if self.is_delayed or self.sharding_key is not None:
            raise InvalidArgument("priority", self.priority, "no priority with a delay or a sharding key")

    def _take_ints(self) -> None:
        """Make ints of numbers of other kinds, such as numpy's; what is none is left to the checks."""
        for name in ("flag", "delay_level", "delay_ms", "priority"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                with suppress(TypeError):
                    object.__setattr__(self, name, index(value))

    def _check_keys(self) -> None:
        if not isinstance(self.keys, tuple | list):
            raise InvalidArgument("keys", self.keys, _KEYS)
        for key in self.keys:
            if not isinstance(key, str) or not key or " " in key or "\x02" in key:
                raise InvalidArgument("keys", key, "strings that are not empty and have no blank and no 0x02 inside")

    def _check_properties(self) -> None:
        if not isinstance(self.properties, Mapping):
            raise InvalidArgument("properties", self.properties, _PROPERTIES)
        for pair in self.properties.items():
            if not (isinstance(pair[0], str) and isinstance(pair[1], str)):
                raise InvalidArgument("properties", pair, _PROPERTIES)

    def _check_time(self) -> None:
        if type(self.delay_ms) is not int or not 0 <= self.delay_ms <= DELAY_MS_MAX:
            raise InvalidArgument("delay_ms", self.delay_ms, f"a whole number from 0 to {DELAY_MS_MAX}")
        if self.deliver_at is not None and not isinstance(self.deliver_at, datetime):
            raise InvalidArgument("deliver_at", self.deliver_at, "a datetime with a time zone, or None")
        if bool(self.delay_level) + bool(self.delay_ms) + (self.deliver_at is not None) > 1:
            raise InvalidArgument("deliver_at", "several delays", "one of delay_level, delay_ms and deliver_at")
        if self.deliver_at is not None and self.deliver_at.tzinfo is None:
            raise InvalidArgument("deliver_at", self.deliver_at.isoformat(), "a time with a time zone")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message as the broker keeps it, or as a consumer receives it.

    `body` is decompressed when it comes from a client; `physical_offset` and `store_size` are in bytes,
    `queue_offset` counts messages. `decode_error` says why a body could not be decoded (it does not decompress, or its
    checksum does not match): `body` is as it was stored then. None for every other message.
    """

    topic: str
    body: bytes
    properties: Mapping[str, str]
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    flag: int = 0
    sys_flag: int = 0
    born_at_ms: int = 0
    born_host: Host = Host("0.0.0.0", 0)
    stored_at_ms: int = 0
    store_host: Host = Host("0.0.0.0", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    broker_name: str = ""
    decode_error: str | None = None

    @property
    def tag(self) -> str | None:
        """The message's tag, None without one."""
        return self.properties.get(PropertyName.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The message's business keys."""
        return split_keys(self.properties.get(PropertyName.KEYS, ""))

    @property
    def message_id(self) -> str:
        """The client's unique key; the broker's offset id lives in `offset_message_id`."""
        return self.properties.get(PropertyName.UNIQ_KEY, "")

    @property
    def sharding_key(self) -> str | None:
        """The key whose messages are in one queue, in order; None without one."""
        return self.properties.get(PropertyName.SHARDING_KEY)

    @property
    def attempt(self) -> int:
        """1 at the first delivery to its group, one more with every redelivery."""
        return self.reconsume_times + 1

    @property
    def is_request(self) -> bool:
        """True when a client waits for a reply to this message (or has done so: it may have given up)."""
        names = (PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT, PropertyName.CLUSTER)
        return all(name in self.properties for name in names)

    def reply(
        self,
        body: bytes,
        *,
        tag: str | None = None,
        keys: tuple[str, ...] | list[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
    ) -> Message:
        """Return the reply to this request, to be sent by any producer: `await producer.send(message.reply(b"..."))`.

        Raises:
            InvalidArgument: the message is not a request.

        Source: Java MessageUtil.createReplyMessage.
        """
        if not self.is_request:
            raise InvalidArgument("message", self.message_id or self.topic, "a request: it expects no reply")
        found = self.properties
        in_reply_to = ReplyTo(
            found[PropertyName.CORRELATION_ID],
            found[PropertyName.REPLY_TO_CLIENT],
            found.get(PropertyName.TTL),
            self.broker_name,
        )
        topic = reply_topic(found[PropertyName.CLUSTER])
        return Message(topic, body, tag, keys, properties or {}, flag, in_reply_to=in_reply_to)
