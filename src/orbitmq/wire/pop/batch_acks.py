"""The body of BATCH_ACK_MESSAGE: acks of many messages, grouped by their checkpoints. Pure.

Source: Java BatchAckMessageRequestBody, BatchAck, BitSetSerializerDeserializer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from orbitmq.errors import HeaderError
from orbitmq.wire import fastjson
from orbitmq.wire.pop.handles import NORMAL, RETRY_V1, RETRY_V2
from orbitmq.wire.pop.revive_log import COUNT_MAX

ACKS_MAX = 4_096
"""Checkpoints that one request may acknowledge messages of."""
BITS_SIZE_MAX = 64
"""Bytes of the bits of one of them: a checkpoint has 32 messages, filters may lie between them."""
_NAMES = {
    "c": "consumerGroup", "t": "topic", "r": "retry", "so": "startOffset", "q": "queueId", "rq": "reviveQueueId",
    "pt": "popTime", "it": "invisibleTime", "b": "bitSet",
}  # fmt: skip
_NUMBERS = ("so", "q", "rq", "pt", "it")


class BatchAck(NamedTuple):
    """Acknowledged messages of one checkpoint.

    Args:
        topic: the one that was popped, also of messages from its retry topic.
        offsets: the messages' queue offsets, ascending.
    """

    group: str
    topic: str
    retry: str
    start_offset: int
    queue_id: int
    revive_queue_id: int
    pop_time_ms: int
    invisible_ms: int
    offsets: Sequence[int]


class BatchAcks(NamedTuple):
    """A request: the broker that it is for, and its acks, which are parsed one by one: there may be thousands."""

    broker_name: str | None
    entries: Sequence[Any]

    def acks(self) -> Iterator[BatchAck]:
        """Yield the acks.

        Raises:
            HeaderError: an entry is none; says which field.
        """
        return map(_parse, self.entries)


def encode_batch_acks(broker_name: str, acks: Iterable[BatchAck]) -> bytes:
    """Return the body of a request."""
    return orjson.dumps({"acks": [_document(ack) for ack in acks], "brokerName": broker_name})


def _document(ack: BatchAck) -> dict[str, Any]:
    bits = sum(1 << offset - ack.start_offset for offset in ack.offsets)
    size = (bits.bit_length() + 7) // 8
    return {
        "b": base64.b64encode(bits.to_bytes(size, "little")).decode(),
        "c": ack.group, "it": ack.invisible_ms, "pt": ack.pop_time_ms, "q": ack.queue_id, "r": ack.retry,
        "rq": ack.revive_queue_id, "so": ack.start_offset, "t": ack.topic,
    }  # fmt: skip


def decode_batch_acks(body: bytes) -> BatchAcks:
    """Parse the body of a request, but for the entries.

    Raises:
        HeaderError: not one, or too much in it; says which field.
    """
    try:
        document = fastjson.loads(body, is_bounded=True)
    except ValueError as error:
        raise HeaderError(f"batch ack: {error}") from None
    acks = document.get("acks") if isinstance(document, dict) else None
    if not isinstance(acks, list):
        raise HeaderError("batch ack: acks is missing, expected a list")
    if len(acks) > ACKS_MAX:
        raise HeaderError(f"batch ack: acks has {len(acks)} entries, expected at most {ACKS_MAX}")
    broker_name = document.get("brokerName")
    return BatchAcks(broker_name if isinstance(broker_name, str) else None, acks)


def _parse(entry: Any) -> BatchAck:
    if not isinstance(entry, dict):
        raise HeaderError(f"batch ack: {entry!r:.40} is not an ack")
    fields: dict[str, Any] = {name: entry.get(name, entry.get(long_name)) for name, long_name in _NAMES.items()}
    for name in _NUMBERS:
        if type(fields[name]) is not int or not 0 <= fields[name] < 2**63:
            raise HeaderError(f"batch ack: {name} is {fields[name]!r:.40}, expected a number from 0 to 2^63 - 1")
    for name in ("c", "t", "r", "b"):
        if not isinstance(fields[name], str):
            raise HeaderError(f"batch ack: {name} is {fields[name]!r:.40}, expected text")
    if fields["r"] not in (NORMAL, RETRY_V1, RETRY_V2):
        raise HeaderError(f"batch ack: r is {fields['r']!r:.40}, expected 0, 1 or 2")
    start = fields["so"]
    return BatchAck(
        fields["c"], fields["t"], fields["r"], start, fields["q"], fields["rq"], fields["pt"], fields["it"],
        [start + bit for bit in _bits(fields["b"])],
    )  # fmt: skip


def _bits(text: str) -> list[int]:
    if len(text) > BITS_SIZE_MAX * 2:
        raise HeaderError(f"batch ack: b has {len(text)} characters, expected bits of at most {BITS_SIZE_MAX} bytes")
    try:
        number = int.from_bytes(base64.b64decode(text, validate=True), "little")
    except (binascii.Error, ValueError):
        raise HeaderError(f"batch ack: b is {text!r:.40}, expected base64") from None
    if number.bit_count() > COUNT_MAX:
        raise HeaderError(f"batch ack: b names {number.bit_count()} messages, a checkpoint has at most {COUNT_MAX}")
    bits = []
    while number:
        lowest = number & -number
        bits.append(lowest.bit_length() - 1)
        number ^= lowest
    return bits
