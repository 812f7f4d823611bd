"""A scan of one segment: runs of records from any place on, found so that two neighbouring tasks always agree.

The order of a segment is what a walk from its first byte visits: each record leads to the next one, and behind damage the
walk goes on at the next head. A head says where it lies, so bytes of a body rarely look like one; where they do, the heads
overlap, and then the walk itself decides. Source: docs/formats/commit_log.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, Protocol

from orbitmq.wire.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT, PREFIX, RECORD_SIZE_MIN

RECORD_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of the largest record: that of the largest frame that a broker, Java's or ours, lets in."""
READ_SIZE = 4 * 1024 * 1024
"""Bytes that are read and decoded at once: smaller is slower, larger falls out of the processor's cache."""

_HEAD = Struct(f">II{PHYSICAL_OFFSET_AT - PREFIX.size}xq")  # size, magic, physical offset
_MAGIC_STARTS = (MAGIC_V1.to_bytes(4, "big")[:3], MAGIC_BLANK.to_bytes(4, "big"))  # the first one is that of both
_MAGIC_AT = 4


class Content(Protocol):
    """A file's bytes."""

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from `at` on, fewer where the file ends."""

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between `start` and `end` that are no holes."""


class Run(NamedTuple):
    """Records back to back: their bytes, where the first one lies in the log, where each starts in the bytes."""

    raw: memoryview
    physical_offset: int
    starts: list[int]


class Head(NamedTuple):
    """Where a record or a filler lies in its segment, and whether it is a filler."""

    start: int
    end: int
    is_blank: bool


@dataclass(frozen=True)
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

    def first_record(self, begin: int, stop: int) -> int | None:
        """Return where the first record at or behind `begin` starts, None without one before `stop`.

        Places are bytes from the segment's start on. The answer is what a walk from there would give.
        """
        # Whatever covers `begin` starts in the window. Heads that overlap are a record and what only looks like one.
        end = 0
        for head in self._heads(max(0, begin - RECORD_SIZE_MAX), stop):
            if head.start < end:
                return self._walked_to(begin, stop)
            if head.start >= begin and not head.is_blank:
                return head.start
            end = head.end
        return None

    def runs(self, begin: int, stop: int, damaged: Callable[[int, int], None]) -> Iterator[Run]:
        """Yield the records that start between `begin`, where one starts or should, and `stop`.

        Args:
            damaged: told where bytes begin and end, in the segment, that are no records.
        """
        at, size = begin, READ_SIZE
        while at < stop:
            raw = self.content.read(at, min(size, self.size - at))
            starts, end = self._chain(raw, at, stop)
            if starts:
                yield Run(memoryview(raw)[:end], self.base + at, starts)
                at, size = at + end, READ_SIZE
                continue
            head = self._head(raw, at)
            if head is not None and not head.is_blank and head.end - at > len(raw) == size:
                size = head.end - at  # larger than what is read at once
                continue
            if head is not None and head.is_blank:
                at = head.end
                continue
            following = next((found.start for found in self._heads(at + 1, stop)), stop)
            damaged(at, following)
            at = following

    def _chain(self, raw: bytes, at: int, stop: int) -> tuple[list[int], int]:
        """Return where the whole records lie that follow each other from the start of `raw` on, and where they end."""
        starts: list[int] = []
        position, end = 0, min(len(raw), stop - at)
        place, head_of = self.base + at, _HEAD.unpack_from
        last = len(raw) - RECORD_SIZE_MIN
        while position < end and position <= last:
            size, magic, own = head_of(raw, position)
            if (
                own != place + position
                or not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX
                or position + size > len(raw)
                or (magic != MAGIC_V1 and magic != MAGIC_V2)
            ):
                break
            starts.append(position)
            position += size
        return starts, position

    def _head(self, raw: bytes, at: int, position: int = 0) -> Head | None:
        """Return the head at `raw[position]`, which lies at `at` in the segment; None when there is none."""
        if position + PREFIX.size > len(raw):
            return None
        size, magic = PREFIX.unpack_from(raw, position)
        if magic == MAGIC_BLANK:
            return Head(at, self.size, True) if size == self.size - at else None
        if position + RECORD_SIZE_MIN > len(raw) or magic not in (MAGIC_V1, MAGIC_V2):
            return None
        _, _, own = _HEAD.unpack_from(raw, position)
        is_sound = own == self.base + at and RECORD_SIZE_MIN <= size <= min(RECORD_SIZE_MAX, self.size - at)
        return Head(at, at + size, False) if is_sound else None

    def _heads(self, start: int, stop: int) -> Iterator[Head]:
        """Yield every head between `start` and `stop`, also those within others."""
        for first, end in self.content.data_ranges(start, stop):
            at = max(first - PREFIX.size, start)  # a head's first bytes may be zeros
            while at < end:
                # A head that starts in this piece is read whole.
                raw = self.content.read(at, min(READ_SIZE + RECORD_SIZE_MIN, self.size - at))
                for position in _places(raw, min(READ_SIZE, stop - at)):
                    head = self._head(raw, at + position, position)
                    if head is not None:
                        yield head
                at += READ_SIZE

    def _walked_to(self, begin: int, stop: int) -> int | None:
        """Walk from the segment's start: what is no record of this walk is none, whatever it looks like."""
        for run in self.runs(0, stop, lambda start, end: None):
            at = run.physical_offset - self.base
            if at + len(run.raw) > begin:
                found = next((at + start for start in run.starts if at + start >= begin), None)
                if found is not None:
                    return found
        return None


def _places(raw: bytes, end: int) -> list[int]:
    """Return where heads may start in `raw` before `end`."""
    found = []
    # Two fast searches: one regular expression for both takes three times as long.
    for magic in _MAGIC_STARTS:
        position = raw.find(magic, _MAGIC_AT, end + len(magic) + _MAGIC_AT - 1)
        while position >= 0:
            found.append(position - _MAGIC_AT)
            position = raw.find(magic, position + 1, end + len(magic) + _MAGIC_AT - 1)
    return sorted(found)
