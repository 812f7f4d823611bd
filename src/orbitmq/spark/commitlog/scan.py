"""A scan of one segment: runs of records from any place on, found so that two neighbouring tasks always agree.

The order of a segment is what a walk from its first byte visits: each record leads to the next one, and behind damage the
walk goes on at the next head. A head says where it lies, so bytes of a body rarely look like one; where they do, the heads
overlap, and then the walk itself decides. Source: docs/formats/commit_log.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple, Protocol

import numpy as np

from orbitmq.spark.gather import Bytes, Flags, Positions, gather_fields
from orbitmq.wire.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT, PREFIX, RECORD_SIZE_MIN

RECORD_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of the largest record: that of the largest frame that a broker, Java's or ours, lets in."""
READ_SIZE = 4 * 1024 * 1024
"""Bytes that are read and decoded in one pass: smaller is slower, larger falls out of the processor's cache."""

_SIZE = Struct(">I")
_PREFIX = np.dtype([("size", ">u4"), ("magic", ">u4")])
_OWN = np.dtype([("physical_offset", ">i8")])
_MAGIC_AT = 4
_MAGIC_STARTS = [np.frombuffer(magic.to_bytes(4, "big")[:2], np.uint16)[0] for magic in (MAGIC_V1, MAGIC_BLANK)]
"""The first two bytes of every magic, as this machine reads them as a number; V2 begins as V1 does."""


class Content(Protocol):
    """A file's bytes."""

    def read_into(self, buffer: memoryview, at: int) -> int:
        """Fill a buffer with what lies from `at` on; return how many bytes that were, fewer where the file ends."""

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between `start` and `end` that are not holes."""


class RecordBlock(NamedTuple):
    """Records back to back: their bytes, where the first one lies in the log, where each starts in the bytes.

    The bytes are good until the next run is asked for.
    """

    raw: memoryview
    physical_offset: int
    starts: list[int]


class Heads(NamedTuple):
    """Where records and fillers lie in their segment, in the order of their starts, and which of them are fillers."""

    starts: Positions
    ends: Positions
    are_blank: Flags


@dataclass
class SegmentScan:
    """A segment to look for records in.

    Args:
        content: of its file.
        base: where it begins in the log, in bytes.
        size: bytes that belong to it; the file may have fewer.
    """

    content: Content
    base: int
    size: int
    _buffer: bytearray = field(default_factory=bytearray, init=False, repr=False)
    """For all reads: megabytes that are allocated for each of them would cost page faults each time."""

    def first_record(self, begin: int, stop: int) -> int | None:
        """Return where the first record at or behind `begin` starts, None without one before `stop`.

        Places are bytes from the segment's start on. The answer is what a walk from there would give.
        """
        # Whatever covers `begin` starts in the window. Heads that overlap are a record and what only looks like one.
        end = 0
        for heads in self._heads(max(0, begin - RECORD_SIZE_MAX), stop):
            overlapping = heads.starts < np.concatenate(([end], heads.ends[:-1]))
            candidates = np.flatnonzero(overlapping | ((heads.starts >= begin) & ~heads.are_blank))
            if len(candidates):
                first = candidates[0]
                return self._walked_to(begin, stop) if overlapping[first] else int(heads.starts[first])
            end = int(heads.ends[-1])
        return None

    def runs(self, begin: int, stop: int, damaged: Callable[[int, int], None]) -> Iterator[RecordBlock]:
        """Yield the records that start between `begin`, where one starts or should, and `stop`.

        Args:
            damaged: told where bytes begin and end, in the segment, that are not records.
        """
        at, size = begin, READ_SIZE
        while at < stop:
            raw = self._read(at, min(size, self.size - at))
            starts, end = self._chain(raw, at, stop)
            if starts:
                yield RecordBlock(raw[:end], self.base + at, starts)
                at, size = at + end, READ_SIZE
                continue
            head = self._heads_at(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), at)
            if len(head.starts):
                if head.are_blank[0]:
                    at = int(head.ends[0])
                    continue
                if head.ends[0] - at > len(raw) == size:
                    size = int(head.ends[0]) - at  # larger than what is read in one pass
                    continue
            following = next((int(heads.starts[0]) for heads in self._heads(at + 1, stop)), stop)
            damaged(at, following)
            at = following

    def _read(self, at: int, size: int) -> memoryview:
        """Return up to `size` bytes from `at` on, which the next read replaces."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        return view[: self.content.read_into(view, at)]

    def _chain(self, raw: memoryview, at: int, stop: int) -> tuple[list[int], int]:
        """Return where the whole records lie that follow each other from the start of `raw` on, and where they end."""
        starts: list[int] = []
        position, size_of = 0, _SIZE.unpack_from
        last = min(len(raw) - RECORD_SIZE_MIN, stop - at - 1)
        while position <= last:
            (size,) = size_of(raw, position)
            if not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX or position + size > len(raw):
                break
            starts.append(position)
            position += size
        # So far only sizes have led from one to the next: what follows the first that is not a record is none, either.
        are_valid = self._are_records(np.frombuffer(raw, np.uint8), np.array(starts, np.int64), at)
        if not are_valid.all():
            count = int(np.argmin(are_valid))
            return starts[:count], starts[count]
        return starts, position

    def _are_records(self, data: Bytes, positions: Positions, at: int) -> Flags:
        """Say at which positions the magic and the place are those of a record, in bytes that lie at `at`."""
        magics = gather_fields(data, positions, _PREFIX)["magic"]
        places = gather_fields(data, positions + PHYSICAL_OFFSET_AT, _OWN)["physical_offset"]
        are_records: Flags = ((magics == MAGIC_V1) | (magics == MAGIC_V2)) & (places == self.base + at + positions)
        return are_records

    def _heads_at(self, data: Bytes, positions: Positions, at: int) -> Heads:
        """Return the heads at those of the positions where there are any, in bytes that lie at `at`."""
        positions = positions[positions <= len(data) - PREFIX.size]
        prefixes = gather_fields(data, positions, _PREFIX)
        starts, sizes = at + positions, prefixes["size"].astype(np.int64)
        are_blank = (prefixes["magic"] == MAGIC_BLANK) & (sizes == self.size - starts)
        are_records = (sizes >= RECORD_SIZE_MIN) & (sizes <= np.minimum(RECORD_SIZE_MAX, self.size - starts))
        are_records &= positions <= len(data) - RECORD_SIZE_MIN
        are_records[are_records] = self._are_records(data, positions[are_records], at)
        found = are_blank | are_records
        return Heads(starts[found], (starts + sizes)[found], are_blank[found])

    def _heads(self, start: int, stop: int) -> Iterator[Heads]:
        """Yield every head between `start` and `stop`, also those within others, some of them at a time."""
        for first, end in self.content.data_ranges(start, stop):
            at = max(first - PREFIX.size, start)  # a head's first bytes may be zeros
            while at < end:
                # A head that starts in this piece is read whole.
                data = np.frombuffer(self._read(at, min(READ_SIZE + RECORD_SIZE_MIN, self.size - at)), np.uint8)
                heads = self._heads_at(data, _places(data, min(READ_SIZE, stop - at)), at)
                if len(heads.starts):
                    yield heads
                at += READ_SIZE

    def _walked_to(self, begin: int, stop: int) -> int | None:
        """Walk from the segment's start: what is not a record of this walk is none, whatever it looks like."""
        for run in self.runs(0, stop, lambda start, end: None):
            at = run.physical_offset - self.base
            if at + len(run.raw) > begin:
                found = next((at + start for start in run.starts if at + start >= begin), None)
                if found is not None:
                    return found
        return None


def _places(data: Bytes, end: int) -> Positions:
    """Return where heads may start in `data` before `end`, in order."""
    found = []
    for first in (_MAGIC_AT, _MAGIC_AT + 1):  # pairs of bytes at even, and at odd places
        pairs = data[first:][: max(0, len(data) - first) // 2 * 2].view(np.uint16)
        found.append(2 * np.flatnonzero((pairs == _MAGIC_STARTS[0]) | (pairs == _MAGIC_STARTS[1])) + first - _MAGIC_AT)
    places = np.sort(np.concatenate(found))
    return places[places < end]
