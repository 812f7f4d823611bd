"""Walks over the CommitLog, record after record: for starts, rebuilds and what is looked up at a start."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import SysFlag
from orbitmq.store.log.commit_log import RESERVE_SIZE, CommitLog
from orbitmq.store.log.segment import Segment
from orbitmq.wire.messages.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX,
    RECORD_SIZE_MIN,
    Blank,
    Record,
    parse_record,
)

log = logging.getLogger(__name__)

_MAGIC_START = MAGIC_V1.to_bytes(4, "big")[:3]  # of both magics
_MAGIC_AT = 4
_TO_FLAGS = Struct(">II28xi")  # size, magic, sys_flag
_RECORD_MAGICS = (MAGIC_V1, MAGIC_V2)


def scan(
    commit_log: CommitLog, start: int, stop: int | None = None, *, check_crc: bool = True
) -> Iterator[Record | Blank]:
    """Yield what lies in the log from `start` to `stop`, fillers included.

    A record's body is a slice of the segment: a reference to it keeps the mapping.

    Args:
        stop: None: over every segment there is.
        check_crc: False: lengths and places are compared, checksums are not.

    Raises:
        CorruptRecord: here ends what can be read; the next record would go here.
        OSError: a record reaches into a hole, and the disk has no room to fill it.
    """
    stop = commit_log.log.end if stop is None else stop
    check_record_crc = check_crc and commit_log.record_crc
    while start < stop and (segment := commit_log.log.find(start)) is not None:
        view, base, end = memoryview(segment.buffer), segment.base, min(segment.end, stop)
        # A later write into a hole would need room that the disk may not have: it is filled when a record reaches into it.
        hole = base + segment.file.hole_start()
        while start < end:
            if hole < end:
                hole = _keep_out_of_hole(segment, start, hole)
            found = parse_record(view[start - base :], start, check_crc=check_crc, check_record_crc=check_record_crc)
            if isinstance(found, Blank) and found.size != end - start:
                raise CorruptRecord(start, f"filler of {found.size} bytes ends inside the segment")
            yield found
            start += found.size


def whole_records(commit_log: CommitLog, start: int, stop: int) -> Iterator[Record]:
    """Yield the records from `start` to `stop`, passing over damaged ones."""
    while start < stop:
        try:
            for found in scan(commit_log, start, stop, check_crc=False):
                if isinstance(found, Record):
                    yield found
                start += found.size
        except CorruptRecord as damage:
            end, start = start, _find_record(commit_log, start + 1, stop)
            if start < stop:
                log.warning("passed over damage: %s; the next record is at %d", damage, start)
            elif not _is_blank(commit_log, end, stop):
                log.warning("the last whole record ends at %d, what follows is none: %s", end, damage)


def committed_records(commit_log: CommitLog, start: int, stop: int) -> Iterator[Record]:
    """Yield the records of committed transactions from `start` to `stop`: of the others no more than the head is looked at."""
    while start < stop and commit_log.log.find(start) is not None:
        base, segment_end, buffer = commit_log.look(start)
        end = min(segment_end, stop)
        while start + RECORD_SIZE_MIN <= end:
            size, magic, sys_flag = _TO_FLAGS.unpack_from(buffer, start - base)
            if magic not in _RECORD_MAGICS or not RECORD_SIZE_MIN <= size <= end - start:
                break
            if sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_COMMIT:
                record = commit_log.parsed_at(start)
                if record is not None:
                    yield record
                    base, segment_end, buffer = commit_log.look(start)  # its reader may have opened other files
            start += size
        else:
            start = end
            continue
        _, magic = PREFIX.unpack_from(buffer, start - base)
        start = end if magic == MAGIC_BLANK else _find_record(commit_log, start + 1, stop)


def _keep_out_of_hole(segment: Segment, start: int, hole: int) -> int:
    """Make sure that the record at `start` can be looked at; return where the hole begins then.

    Files that were cut from outside, or copied sparsely, end in holes.
    """
    if start >= hole:
        raise CorruptRecord(start, "nothing was written here")
    at, head_end = start - segment.base, min(start + PREFIX.size, segment.end)
    if head_end > hole:
        segment.file.reserve(hole - segment.base, head_end - hole)
        hole = head_end
    size = int.from_bytes(segment.buffer[at : at + 4], "big")
    end = min(start + size, segment.end)
    if end <= hole or int.from_bytes(segment.buffer[at + 4 : at + 8], "big") == MAGIC_BLANK:
        return hole
    segment.file.reserve(hole - segment.base, end - hole)
    return end


def _find_record(commit_log: CommitLog, start: int, stop: int) -> int:
    """Return where the first record at or behind `start` begins, `stop` without one."""
    for segment in commit_log.log.between(start, stop):
        buffer, base = segment.buffer, segment.base
        # One byte less, which begins no record: before Python 3.11.5 `mmap.find` looks at the byte behind its end
        # (python/cpython#105235), and behind a map's end that kills the process.
        end = min(stop, segment.end) - base - 1
        at = max(start - base, 0)
        while (at := buffer.find(_MAGIC_START, at + _MAGIC_AT, end) - _MAGIC_AT) >= 0:
            # A record says where it lies: bytes in a body that look like one do not lie there.
            with suppress(CorruptRecord):
                parse_record(memoryview(buffer)[at:], base + at, check_crc=False)
                return base + at
            at += 1
    return stop


def _is_blank(commit_log: CommitLog, start: int, stop: int) -> bool:
    """Return True if only zeros lie there: room that was made for records, and not needed."""
    for segment in commit_log.log.between(start, stop):
        low, high = max(start - segment.base, 0), min(stop, segment.end) - segment.base
        for at in range(low, high, RESERVE_SIZE):
            if bytes(segment.buffer[at : min(at + RESERVE_SIZE, high)]).strip(b"\0"):
                return False
    return True
