"""The messages of a transaction in the log, each made of the one before. Pure.

Sent: for its own topic, with TRAN_MSG among its properties. Half: in RMQ_SYS_TRANS_HALF_TOPIC, where no consumer sees it;
its own topic and queue are properties. Renewed: the same at the end of that queue, after its producer was asked. Final: in
its own topic. Discarded: in TRANS_CHECK_MAX_TIME_TOPIC, for operators.

Source: Java TransactionalMessageBridge, EndTransactionProcessor, DefaultTransactionalMessageCheckListener; docs/formats/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.message import PropertyName, SysFlag, TimerProperty
from orbitmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, is_name
from orbitmq.store import Draft
from orbitmq.wire.messages.properties import find_property, format_properties, parse_properties
from orbitmq.wire.messages.record import Record

RENEWED_FROM = "TRAN_RENEWED_FROM"
"""Ours: the queue offset that a renewed half message had before. A start finds by it which of the two is the older."""
REMOVED_TAG = "d"
"""The tag of op messages (Java: TransactionalMessageUtil.REMOVE_TAG)."""

_OP_PROPERTIES = format_properties({PropertyName.TAGS: REMOVED_TAG})
_LATER = (PropertyName.DELAY, TimerProperty.DELAY_SEC, TimerProperty.DELAY_MS, TimerProperty.DELIVER_MS)
_CRC, _RENEWED = b"__CRC32#\x01", f"{RENEWED_FROM}\x01".encode()
_IMMUNITY = PropertyName.CHECK_IMMUNITY.encode()
_DIGITS_MAX = 9


class CommitTarget(NamedTuple):
    """Where a half message goes once it is committed."""

    topic: str
    queue_id: int


class Ending(NamedTuple):
    """What a half message says of its end, where nothing else has to be looked at."""

    group: str
    place: CommitTarget


def is_prepared(properties: Mapping[str, str]) -> bool:
    """Return True if properties make a message the half of a transaction."""
    return properties.get(PropertyName.TRAN_MSG, "").lower() == "true"


def half_message(draft: Draft, properties: Mapping[str, str]) -> Draft:
    """Return the form in which a message waits for its producer's decision.

    Args:
        draft: the message as it was sent, for its own topic.
        properties: its properties, parsed; they replace `draft.properties`.

    Raises:
        Rejected: 13, it asks for a delay as well, or names no producer group: no producer could ever be asked about it.
    """
    for name in _LATER:
        if name in properties and properties[name] != "0":
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, f"a transactional message cannot be delayed, it has {name}")
    if not properties.get(PropertyName.PRODUCER_GROUP):
        remark = f"a transactional message needs the property {PropertyName.PRODUCER_GROUP}: its producer group"
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, remark)
    waiting = dict(properties)
    waiting.pop(RENEWED_FROM, None)
    waiting[PropertyName.REAL_TOPIC], waiting[PropertyName.REAL_QUEUE_ID] = draft.topic, str(draft.queue_id)
    unique_key = properties.get(PropertyName.UNIQ_KEY)
    if unique_key is not None:
        waiting[PropertyName.TRANSACTION_ID] = unique_key
    sys_flag = draft.sys_flag & ~SysFlag.TRANSACTION_MASK
    return Draft(
        HALF_TOPIC, 0, draft.body, format_properties(waiting), draft.flag, sys_flag, draft.born_at_ms, draft.born_host,
        draft.reconsume_times,
    )  # fmt: skip


def place_of(half: Record) -> CommitTarget | None:
    """Return where a half message goes, None when it does not say so."""
    return _place(find_property(half.properties, b"REAL_TOPIC"), find_property(half.properties, b"REAL_QID"))


def _group(properties: bytes) -> str:
    return (find_property(properties, b"PGROUP") or b"").decode("utf-8", "replace")


@lru_cache(maxsize=64)
def _place(topic: bytes | None, queue_id: bytes | None) -> CommitTarget | None:
    if not topic or queue_id is None or not queue_id.isdigit() or len(queue_id) > _DIGITS_MAX:
        return None
    place = CommitTarget(topic.decode("utf-8", "replace"), int(queue_id))
    return place if is_name(place.topic) else None


def group_of(half: Record) -> str:
    """Return the producer group that decides about a half message."""
    return _group(half.properties)


def plain_ending(properties: bytes) -> Ending | None:
    """Return what the properties of a half message say of its end, None where more than its producer's group counts."""
    place = _place(find_property(properties, b"REAL_TOPIC"), find_property(properties, b"REAL_QID"))
    if place is None or any(name in properties for name in (_CRC, _RENEWED, _IMMUNITY)):
        return None
    return Ending(_group(properties), place)


def final_form(half: Record, place: CommitTarget) -> Draft:
    """Return a committed message as its consumers get it; it keeps the properties of its half, as Java's do."""
    properties = half.properties
    if _CRC in properties or _RENEWED in properties:
        properties = format_properties(_again(half))
    sys_flag = half.sys_flag & ~SysFlag.TRANSACTION_MASK | SysFlag.TRANSACTION_COMMIT
    return _draft(half, place, properties, sys_flag, half.physical_offset)


def final_form_of(half: Draft, place: CommitTarget, physical_offset: int) -> Draft:
    """Return the same of a half message with a plain ending, as it was stored."""
    sys_flag = half.sys_flag & ~SysFlag.TRANSACTION_MASK | SysFlag.TRANSACTION_COMMIT
    final = (
        place.topic, place.queue_id, half.body, half.properties, half.flag, sys_flag, half.born_at_ms, half.born_host, 0,
        physical_offset, half.tag_code,
    )  # fmt: skip
    return tuple.__new__(Draft, final)  # a named tuple's own constructor is a Python function


def renewed_form(half: Record, changes: Mapping[str, str]) -> Draft:
    """Return a half message as it goes to the end of the half queue again, with these properties changed."""
    properties = {**_again(half), **changes, RENEWED_FROM: str(half.queue_offset)}
    return _draft(half, CommitTarget(HALF_TOPIC, 0), format_properties(properties), half.sys_flag)


def given_up_form(half: Record) -> Draft:
    """Return a discarded half message as it is stored for operators."""
    return _draft(half, CommitTarget(GIVEN_UP_TOPIC, 0), format_properties(_again(half)), half.sys_flag)


def resumed_form(given_up: Record) -> Draft:
    """Return a discarded message as a half message again, as if its producer had never been asked."""
    properties = {**_again(given_up), PropertyName.CHECK_TIMES: "0"}
    return _draft(given_up, CommitTarget(HALF_TOPIC, 0), format_properties(properties), given_up.sys_flag)


def op_form(body: bytes, now_ms: int) -> Draft:
    """Return an op message: these half messages, by their queue offsets, need no decision any more."""
    return Draft(OP_TOPIC, 0, body, _OP_PROPERTIES, born_at_ms=now_ms)


def _again(record: Record) -> dict[str, str]:
    """Return the properties of a record that is stored once more; its own checksum and place do not hold then."""
    properties = parse_properties(record.properties)
    properties.pop(PropertyName.CRC32, None)
    properties.pop(RENEWED_FROM, None)
    return properties


def _draft(
    record: Record,
    place: CommitTarget,
    properties: bytes,
    sys_flag: int,
    prepared_offset: int = 0,
) -> Draft:
    return Draft(
        place.topic,
        place.queue_id,
        bytes(record.body),
        properties,
        record.flag,
        sys_flag,
        record.born_at_ms,
        record.born_host,
        record.reconsume_times,
        prepared_offset,
    )
