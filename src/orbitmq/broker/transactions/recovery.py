"""The recovery of transactions at a start: the window of half messages, and the ends of those in it.

Op messages say it, but the last seconds' were still to be written when a broker was killed. What ended then has left a
trace in the log all the same: a committed message names its half, and so does a renewed one. So the log is read again from the
first half message on that no op message names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.transactions.messages import RENEWED_FROM
from orbitmq.broker.transactions.ops import OpSpans, removed_offsets
from orbitmq.broker.transactions.window import EndedOffsets, Renewals
from orbitmq.errors import CorruptRecord
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import HALF_TOPIC, OP_TOPIC
from orbitmq.store import Store
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record, iter_records

log = logging.getLogger(__name__)

TRANS_GROUP = "CID_RMQ_SYS_TRANS"
"""The group whose committed offsets say how far both queues are done (Java: MixAll.CID_SYS_RMQ_TRANS)."""
_READ_COUNT = 256
_READ_SIZE = 4 * 1024 * 1024
_RENEWED_FROM = RENEWED_FROM.encode()
_JAVAS_MARK = f"{PropertyName.CHECK_TIMES}\x01".encode()


class RecoveredWindow(NamedTuple):
    """What was found: `unsaid` are queue offsets of half messages that have ended, and that no op message names."""

    ended: EndedOffsets
    renewals: Renewals
    spans: OpSpans
    unsaid: list[int]


def find_window(store: Store, offsets: GroupOffsets) -> RecoveredWindow:
    """Find out which half messages are open."""
    ended = EndedOffsets(_start_of(store, offsets, HALF_TOPIC))
    spans = OpSpans(_start_of(store, offsets, OP_TOPIC))
    window = RecoveredWindow(ended, Renewals(), spans, [])
    _read_ops(store, window)
    end = store.max_offset(HALF_TOPIC, 0)
    first = ended.first_open(ended.floor, end)
    half = next(_records(store, HALF_TOPIC, first), None) if first < end else None
    if half is not None:
        _read_log(store, half, window)
    if window.unsaid:
        log.info("%d transactions had ended that no op message names yet", len(window.unsaid))
    return window


def _start_of(store: Store, offsets: GroupOffsets, topic: str) -> int:
    committed = offsets.query(TRANS_GROUP, topic, 0)
    return min(max(committed, store.min_offset(topic, 0)), store.max_offset(topic, 0))


def _read_ops(store: Store, window: RecoveredWindow) -> None:
    """Take over what op messages say."""
    ended, end = window.ended, store.max_offset(HALF_TOPIC, 0)
    for op in _records(store, OP_TOPIC, window.spans.done):
        highest = -1
        for removed in removed_offsets(op):
            if ended.floor <= removed < end:
                ended.add(removed)
                highest = max(highest, removed)
        window.spans.add(op.queue_offset, highest)


def _read_log(store: Store, first: Record, window: RecoveredWindow) -> None:
    """Find ends that no op message names: in committed messages, and in half messages that others were renewed from."""
    moves: list[tuple[int, int]] = []
    unmarked: dict[bytes, int] = {}
    for half in _records(store, HALF_TOPIC, first.queue_offset):
        before = _renewed_from(half)
        if before is not None and before < half.queue_offset:
            moves.append((before, half.queue_offset))
        elif before is None and _JAVAS_MARK in half.properties and (key := _key_of(half)) is not None:
            unmarked[key] = half.queue_offset
    for record in store.committed_from(first.physical_offset):
        found = store.parsed_at(record.prepared_transaction_offset)
        if found is not None and found.topic == HALF_TOPIC and _key_of(found) == _key_of(record):
            _note(found.queue_offset, window)
    if unmarked:
        moves += _moves_of(store, window, unmarked)
    for before, after in sorted(moves):
        window.renewals.add(before, after)
        _note(before, window)


def _moves_of(store: Store, window: RecoveredWindow, unmarked: Mapping[bytes, int]) -> Iterator[tuple[int, int]]:
    """Yield where older records of half messages went that a Java broker has renewed: it leaves no mark but the same key."""
    for half in _records(store, HALF_TOPIC, window.ended.floor):
        latest = unmarked.get(_key_of(half) or b"", -1)
        if half.queue_offset < latest and half.queue_offset not in window.ended:
            yield half.queue_offset, latest


def _records(store: Store, topic: str, offset: int) -> Iterator[Record]:
    """Yield the records of a queue from `offset` on, passing over damaged ones: none of them may keep a broker from starting."""
    while True:
        found = store.read(topic, 0, offset, _READ_COUNT, _READ_SIZE)
        try:
            yield from list(iter_records(found.body, check_crc=False)) if found.body else ()
        except CorruptRecord as damage:
            log.error("a record of %s cannot be read, from %d on: %s", topic, offset, damage)
            yield from _whole_ones(store, topic, offset, found.next_offset)
        if found.next_offset <= offset:
            return
        offset = found.next_offset


def _whole_ones(store: Store, topic: str, start: int, end: int) -> Iterator[Record]:
    for offset in range(start, end):
        with suppress(CorruptRecord):
            record = store.message_at(topic, 0, offset)
            if record is not None:
                yield record


def _renewed_from(half: Record) -> int | None:
    text = find_property(half.properties, _RENEWED_FROM)
    return int(text) if text is not None and text.isdigit() and len(text) < 19 else None


def _key_of(record: Record) -> bytes | None:
    return find_property(record.properties, b"UNIQ_KEY")


def _note(offset: int, window: RecoveredWindow) -> None:
    if offset not in window.ended:
        window.ended.add(offset)
        window.unsaid.append(offset)
