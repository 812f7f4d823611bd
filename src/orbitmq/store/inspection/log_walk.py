"""A walk through the CommitLog's files, or through bytes that were cut off it: records, and what lies between them.

Records are read by copies, a few MiB at a time. Behind a damaged place the walk goes on at the next whole record: each
says where it lies, so that bytes in a body that look like a record are told from one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import CorruptRecord
from orbitmq.store.inspection.reading import ReadOnlyFile
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

_MAGIC_START = MAGIC_V1.to_bytes(4, "big")[:3]  # of both magics
_MAGIC_AT = 4
_OWN_OFFSET = slice(28, 36)
_SEARCH_SIZE = 4 << 20


class LogFile(NamedTuple):
    """A file of the log: where it begins in the log, how many bytes belong to it, where it is."""

    base: int
    size: int
    path: Path
    zeros_behind: int = 0
    """Bytes of `size` that are zeros and not in the file."""

    @property
    def end(self) -> int:
        """Where the next file begins."""
        return self.base + self.size


class Damage(NamedTuple):
    """Bytes of the log that are not records, offsets in bytes of the log."""

    start: int
    end: int
    reason: str
    is_tail: bool = False
    """No record follows."""


class LogWalk:
    """One walk through files of a log.

    Args:
        check_record_crc: compare the checksums that `enabledAppendPropCRC` adds.
        on_read: told how many bytes of the log have been passed, now and then.
    """

    def __init__(
        self,
        files: Sequence[LogFile],
        *,
        check_record_crc: bool = False,
        on_read: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._files = files
        self._check_record_crc = check_record_crc
        self._on_read = on_read
        self.end = files[0].base if files else 0
        """Where the last whole record or filler ends."""
        self._broken: tuple[int, str] | None = None
        """Where damage begins whose end is not known yet, and what it is."""
        self._data_end = 0

    def run(self, start: int = 0) -> Iterator[Record | Damage]:
        """Yield what lies in the log from `start` on; a start inside a record finds the next one."""
        expected = None
        for file in self._files:
            if file.end <= start:
                continue
            if expected is not None and file.base != expected:
                self._break(expected, "the file is missing")
            expected = file.end
            try:
                with ReadOnlyFile(file.path, file.zeros_behind) as open_file:
                    yield from self._walk(file, open_file, max(start, file.base))
            except OSError as error:
                self._break(file.base, str(error.strerror or error))
                self._data_end = file.end
        if self._broken is not None and self._data_end > self._broken[0]:
            yield Damage(self._broken[0], self._data_end, self._broken[1], is_tail=True)

    def _walk(self, file: LogFile, content: ReadOnlyFile, start: int) -> Iterator[Record | Damage]:
        at, end = start - file.base, file.size
        while at < end:
            try:
                found = self._parse(content, at, end, file.base)
            except CorruptRecord as damage:
                self._break(file.base + at, damage.reason)
                following = self._find(content, at + 1, end, file.base)
                self._on_read((end if following is None else following) - at)
                if following is None:
                    data_end = content.data_end(at)
                    if data_end > at:  # else it may just be the end of what was written
                        self._data_end = file.base + data_end
                    return
                at = following
                continue
            if self._broken is not None:
                yield Damage(self._broken[0], file.base + at, self._broken[1])
                self._broken = None
            self._on_read(found.size)
            at += found.size
            self.end = file.base + at
            if isinstance(found, Record):
                yield found

    def _break(self, offset: int, reason: str) -> None:
        if self._broken is None:
            self._broken = (offset, reason)

    def _parse(self, content: ReadOnlyFile, at: int, end: int, base: int) -> Record | Blank:
        """Parse what lies at `at`; once more with fresh bytes when it is none, for the broker may just be writing it."""
        try:
            return self._parse_once(content, at, end, base)
        except CorruptRecord:
            content.forget()
            return self._parse_once(content, at, end, base)

    def _parse_once(self, content: ReadOnlyFile, at: int, end: int, base: int) -> Record | Blank:
        view = content.view(at, min(RECORD_SIZE_MIN, end - at), end)
        if at + len(view) >= content.size and len(view) < min(RECORD_SIZE_MIN, end - at):
            raise CorruptRecord(base + at, f"the file ends after {content.size} of {end} bytes")
        size, magic = PREFIX.unpack_from(view) if len(view) >= PREFIX.size else (0, 0)
        if magic == MAGIC_BLANK:
            if size != end - at:
                raise CorruptRecord(base + at, f"filler of {size} bytes ends inside the segment")
            return Blank(size)
        if not size and not magic:
            raise CorruptRecord(base + at, "nothing was written here")
        # A damaged size must not make us read a gigabyte: the place is looked at first.
        if magic in (MAGIC_V1, MAGIC_V2) and int.from_bytes(view[_OWN_OFFSET], "big") == base + at:
            if content.size - at < size <= end - at:
                raise CorruptRecord(base + at, f"the file ends after {content.size} of {end} bytes")
            view = content.view(at, min(size, end - at), end)
        return parse_record(view, base + at, check_record_crc=self._check_record_crc)

    def _find(self, content: ReadOnlyFile, at: int, end: int, base: int) -> int | None:
        """Return where the next whole record begins, None when there is none in this file."""
        for first, stop in content.data_ranges(at, end):
            start = max(first, at)
            while start < stop:
                piece = content.read(start, min(_SEARCH_SIZE + 2 * _MAGIC_AT, end - start))
                for place in _places(piece, start):
                    with suppress(CorruptRecord):
                        if place >= at and isinstance(self._parse_once(content, place, end, base), Record):
                            return place
                start += _SEARCH_SIZE
        return None


def _places(piece: bytes, start: int) -> Iterator[int]:
    """Yield where records may begin in bytes that were read from `start` on."""
    found = piece.find(_MAGIC_START, _MAGIC_AT)
    while found >= 0:
        yield start + found - _MAGIC_AT
        found = piece.find(_MAGIC_START, found + 1)
