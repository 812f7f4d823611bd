"""The records of the revive topic: checkpoints of popped messages, and acks, single and in batches. Pure.

Each is the JSON that fastjson writes of Java's PopCheckPoint, AckMsg and BatchAckMsg, its keys in the order of the
alphabet, with a tag that says which it is.

Source: docs/formats/pop.md; Java PopMessageProcessor.buildCkMsg, AckMessageProcessor.appendAck.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from orbitmq.errors import HeaderError

REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""Under which it is committed how far the revive topic has been worked through."""
CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
ACK_INTERVAL_MS = 1_000
"""So long before its time is over a checkpoint is to be looked at (Java: ackTimeInterval)."""
COUNT_MAX = 32
"""Messages of one checkpoint: its acks are bits of a Java int."""

_LONG, _INT = 2**63, 2**31


class CheckpointKey(NamedTuple):
    """What a checkpoint is found by: acks carry the same fields."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    broker_name: str


class PopCheckpoint(NamedTuple):
    """Messages of one queue that a consumer has, until when.

    Args:
        offsets: the messages' queue offsets.
        acked: bits of the messages that were acknowledged when it was written.
        rewritten: how often it was written again.
    """

    key: CheckpointKey
    offsets: tuple[int, ...]
    invisible_ms: int
    acked: int = 0
    rewritten: int = 0

    @property
    def revive_at_ms(self) -> int:
        """When its messages may be given to another consumer, by the wall clock."""
        return self.key.pop_time_ms + self.invisible_ms


class Ack(NamedTuple):
    """Messages of a checkpoint that are done."""

    key: CheckpointKey
    offsets: tuple[int, ...]


def encode_checkpoint(checkpoint: PopCheckpoint) -> bytes:
    """Return a checkpoint's body."""
    key, start = checkpoint.key, checkpoint.key.start_offset
    document: dict[str, Any] = {
        "bm": checkpoint.acked - 2**32 if checkpoint.acked >= _INT else checkpoint.acked,
        "bn": key.broker_name,
        "c": key.group,
        "d": [offset - start for offset in checkpoint.offsets],
        "it": checkpoint.invisible_ms,
        "n": len(checkpoint.offsets),
        "pt": key.pop_time_ms,
        "q": key.queue_id,
        "reviveTime": checkpoint.revive_at_ms,
        "ro": 0,
    }
    if checkpoint.rewritten:
        document["rp"] = str(checkpoint.rewritten)
    return orjson.dumps({**document, "so": start, "t": key.topic})


def encode_ack(ack: Ack) -> tuple[str, bytes]:
    """Return an ack's tag and body: of a single message, or of a batch."""
    key, offsets = ack
    is_single = len(offsets) == 1
    document: dict[str, Any] = {"ao": offsets[0] if is_single else -1}
    if not is_single:
        document["aol"] = offsets
    document |= {
        "bn": key.broker_name, "c": key.group, "pt": key.pop_time_ms, "q": key.queue_id, "so": key.start_offset,
        "t": key.topic,
    }  # fmt: skip
    return (ACK_TAG if is_single else BATCH_ACK_TAG), orjson.dumps(document)


def checkpoint_id(key: CheckpointKey) -> str:
    """Return the unique key of a checkpoint's record."""
    return f"{key.topic}@{key.queue_id}@{key.start_offset}@{key.group}@{key.pop_time_ms}@{key.broker_name}@{CHECKPOINT_TAG}"


def ack_id(ack: Ack) -> str:
    """Return the unique key of an ack's record; a batch's names no offset, as Java's."""
    key, offsets = ack
    offset = offsets[0] if len(offsets) == 1 else -1
    return f"{key.topic}@{key.queue_id}@{offset}@{key.group}@{key.pop_time_ms}@{key.broker_name}@{ACK_TAG}"


def decode_checkpoint(body: bytes | memoryview) -> PopCheckpoint:
    """Parse a checkpoint's body.

    Raises:
        HeaderError: not one.
    """
    document = _document(body)
    key = _key(document, "")
    differences = document.get("d")
    count = _integer(document, "n", 0, COUNT_MAX * 4)
    if differences:
        if not isinstance(differences, list) or len(differences) > COUNT_MAX * 4:
            raise HeaderError(f"checkpoint: d is {differences!r:.40}, expected at most {COUNT_MAX * 4} numbers")
        offsets = tuple(key.start_offset + _checked("d", difference, 0, _INT - 1) for difference in differences)
    else:  # as the first versions wrote it: the messages follow one another
        offsets = tuple(range(key.start_offset, key.start_offset + count))
    rewritten = str(document.get("rp") or "0")
    return PopCheckpoint(
        key,
        offsets,
        _integer(document, "it", 0, _LONG - 1),
        _integer(document, "bm", -_INT, _INT - 1) & 0xFFFF_FFFF,
        int(rewritten) if rewritten.isdecimal() and len(rewritten) < 9 else 0,
    )


def decode_ack(body: bytes | memoryview, broker_name: str) -> Ack:
    """Parse the body of a single ack or a batch.

    Args:
        broker_name: of an ack that names none, as old brokers wrote it.

    Raises:
        HeaderError: not one.
    """
    document = _document(body)
    key = _key(document, broker_name)
    offsets = _find(document, "aol", "ackOffsetList")
    if offsets is None:
        return Ack(key, (_checked("ao", _find(document, "ao", "ackOffset"), 0, _LONG - 1),))
    if not isinstance(offsets, list) or len(offsets) > _BATCH_MAX:
        raise HeaderError(f"ack: aol is {offsets!r:.40}, expected at most {_BATCH_MAX} offsets")
    return Ack(key, tuple(_checked("aol", offset, 0, _LONG - 1) for offset in offsets))


_BATCH_MAX = 65_536


def _document(body: bytes | memoryview) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HeaderError(f"revive log: no JSON: {error}") from None
    if not isinstance(document, dict):
        raise HeaderError(f"revive log: {document!r:.40} is not a document")
    return document


def _key(document: Mapping[str, Any], broker_name: str) -> CheckpointKey:
    return CheckpointKey(
        _text(_find(document, "t", "topic"), "t"),
        _text(_find(document, "c", "consumerGroup"), "c"),
        _checked("q", _find(document, "q", "queueId") or 0, 0, _INT - 1),
        _checked("so", _find(document, "so", "startOffset") or 0, 0, _LONG - 1),
        _checked("pt", _find(document, "pt", "popTime") or 0, 0, _LONG - 1),
        _text(_find(document, "bn", "brokerName") or broker_name, "bn"),
    )


def _find(document: Mapping[str, Any], name: str, long_name: str) -> Any:
    found = document.get(name)
    return document.get(long_name) if found is None else found


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or (not value and name != "bn"):
        raise HeaderError(f"revive log: {name} is {value!r:.40}, expected text")
    return value


def _integer(document: Mapping[str, Any], name: str, low: int, high: int) -> int:
    return _checked(name, document.get(name) or 0, low, high)


def _checked(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise HeaderError(f"revive log: {name} is {value!r:.40}, expected a number from {low} to {high}")
    return value
