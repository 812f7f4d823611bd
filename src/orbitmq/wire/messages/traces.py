"""Message traces: what clients tell of a message's way, as text in the body of messages to a trace topic. Pure.

```
Pub            0x01 ms 0x01 region 0x01 group 0x01 topic 0x01 id 0x01 tags 0x01 keys 0x01 broker 0x01 size 0x01 cost 0x01
               kind 0x01 offset id 0x01 success                                                                     0x02
SubBefore      0x01 ms 0x01 region 0x01 group 0x01 request id 0x01 id 0x01 retries 0x01 keys                        0x02
SubAfter       0x01 request id 0x01 id 0x01 cost 0x01 success 0x01 keys 0x01 outcome 0x01 ms 0x01 group             0x02
EndTransaction 0x01 ms 0x01 region 0x01 group 0x01 topic 0x01 id 0x01 tags 0x01 keys 0x01 broker 0x01 kind 0x01
               transaction id 0x01 state 0x01 asked                                                                 0x02
Recall         0x01 ms 0x01 region 0x01 group 0x01 topic 0x01 id 0x01 success                                       0x02
```

A tag or key that is not there is the text `null`. Source: Java TraceDataEncoder, MessageType, ConsumeReturnType.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

_FIELD_END, _TRACE_END = "\x01", "\x02"
_NULL = "null"
_NUMBER_LENGTH_MAX = 20


class MessageKind(IntEnum):
    """What a message was to its producer (Java: MessageType)."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAYED = 3
    ORDERED = 4


class ConsumeReturnType(IntEnum):
    """How a consumption ended (Java: ConsumeReturnType)."""

    SUCCESS = 0
    TIMEOUT = 1
    EXCEPTION = 2
    NOTHING_RETURNED = 3
    FAILED = 4


class Published(NamedTuple):
    """A message was sent, and a broker has answered (Java: Pub)."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    broker: str
    body_size: int
    cost_ms: int
    kind: MessageKind
    offset_message_id: str
    is_success: bool


class ConsumptionBegun(NamedTuple):
    """A consumer has begun with a message (Java: SubBefore)."""

    at_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retries: int
    keys: str | None


class ConsumptionEnded(NamedTuple):
    """A consumer is done with a message. Clients before RocketMQ 4.9 tell neither time nor group (Java: SubAfter)."""

    request_id: str
    message_id: str
    cost_ms: int
    is_success: bool
    keys: str | None
    outcome: int
    at_ms: int = 0
    group: str = ""


class TransactionEnded(NamedTuple):
    """A producer has told a broker how a transaction ends (Java: EndTransaction)."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    broker: str
    kind: MessageKind
    transaction_id: str
    state: str
    is_asked: bool


class Recalled(NamedTuple):
    """A producer has taken a delayed message back (Java: Recall)."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    is_success: bool


Trace = Published | ConsumptionBegun | ConsumptionEnded | TransactionEnded | Recalled
_NAMES: dict[type[Trace], str] = {
    Published: "Pub",
    ConsumptionBegun: "SubBefore",
    ConsumptionEnded: "SubAfter",
    TransactionEnded: "EndTransaction",
    Recalled: "Recall",
}


def encode_trace(trace: Trace) -> str:
    """Return a trace as it stands in a trace message."""
    return _FIELD_END.join((_NAMES[type(trace)], *map(_format, trace))) + _TRACE_END


def decode_traces(body: bytes) -> list[Trace]:
    """Return the traces of a trace message; what is none is left out, for any client may write to the topic."""
    return list(_decode(body.decode(errors="replace")))


def _decode(text: str) -> Iterator[Trace]:
    for line in text.split(_TRACE_END):
        name, *fields = line.split(_FIELD_END)
        parse = _PARSERS.get(name)
        if parse is None:
            continue
        try:
            yield parse(fields)
        except (ValueError, IndexError):
            continue


def _format(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else str(value)


def _published(fields: Sequence[str]) -> Published:
    at_ms, region, group, topic, message_id, tags, keys, broker, size, cost, kind, *rest = fields
    # Clients of 4.5 have no offset id, those of 4.x name themselves behind the rest.
    offset_id, success = ("", rest[0]) if len(rest) == 1 else (rest[0], rest[1])
    return Published(
        _number(at_ms), region, group, topic, message_id, _text(tags), _text(keys), broker, _number(size),
        _number(cost), MessageKind(_number(kind)), offset_id, success == "true",
    )  # fmt: skip


def _begun(fields: Sequence[str]) -> ConsumptionBegun:
    at_ms, region, group, request_id, message_id, retries, keys, *_ = fields
    return ConsumptionBegun(_number(at_ms), region, group, request_id, message_id, _number(retries), _text(keys))


def _ended(fields: Sequence[str]) -> ConsumptionEnded:
    request_id, message_id, cost, success, keys, *rest = fields
    outcome = (
        _number(rest[0])
        if rest and rest[0]
        else int(ConsumeReturnType.SUCCESS if success == "true" else ConsumeReturnType.FAILED)
    )
    at_ms, group = (_number(rest[1]), rest[2]) if len(rest) > 2 else (0, "")
    return ConsumptionEnded(
        request_id, message_id, _number(cost), success == "true", _text(keys), outcome, at_ms, group
    )


def _transaction_ended(fields: Sequence[str]) -> TransactionEnded:
    at_ms, region, group, topic, message_id, tags, keys, broker, kind, transaction_id, state, asked, *_ = fields
    return TransactionEnded(
        _number(at_ms), region, group, topic, message_id, _text(tags), _text(keys), broker,
        MessageKind(_number(kind)), transaction_id, state, asked == "true",
    )  # fmt: skip


def _recalled(fields: Sequence[str]) -> Recalled:
    at_ms, region, group, topic, message_id, success, *_ = fields
    return Recalled(_number(at_ms), region, group, topic, message_id, success == "true")


_PARSERS: dict[str, Callable[[Sequence[str]], Trace]] = {
    "Pub": _published,
    "SubBefore": _begun,
    "SubAfter": _ended,
    "EndTransaction": _transaction_ended,
    "Recall": _recalled,
}


def _number(text: str) -> int:
    if len(text) > _NUMBER_LENGTH_MAX:
        raise ValueError(text[:_NUMBER_LENGTH_MAX])
    return int(text)


def _text(text: str) -> str | None:
    return None if text == _NULL else text
