"""An index file: a hash table from keys to places in the CommitLog, filled in the order of the log (Java: IndexFile).

```
| begin time 8 | end time 8 | begin offset 8 | end offset 8 | used slots 4 | next entry 4 | slots 4 each | entries 20 each |
| entry: key hash 4 | physical offset 8 | seconds since begin time 4 | the slot's entry before it 4 |
```
A slot holds the number of its newest entry; entries count from 1. While a file is filled its slots are in memory alone;
`finish` writes them, and the header last: a file that has entries in its header is whole up to there.

Source: docs/formats/index_file.md.
"""

from __future__ import annotations

import errno
import mmap
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from orbitmq.errors import IndexDamaged
from orbitmq.store.disk import Disk, DiskFile

HEADER = Struct(">qqqqii")
ENTRY = Struct(">iqii")
SLOT_SIZE = 4
NUMBER_MAX = (1 << 31) - 1
_PIECE_SIZE = 1 << 20


class IndexHeader(NamedTuple):
    """The first 40 bytes. Offsets are those of the first and the last message that have entries, in bytes of the log."""

    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    next_number: int = 1
    """The number of the next entry."""


NO_ENTRIES = IndexHeader()


class IndexEntry(NamedTuple):
    """One key of one message."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


class IndexSizes(NamedTuple):
    """How many slots (maxHashSlotNum) and entries (maxIndexNum) a file has; the first entry is never used."""

    slots: int = 5_000_000
    entries: int = 20_000_000

    @property
    def entries_at(self) -> int:
        """Where the entries begin."""
        return HEADER.size + self.slots * SLOT_SIZE

    @property
    def file_size(self) -> int:
        """Bytes of a file."""
        return self.entries_at + self.entries * ENTRY.size


def parse_header(content: bytes) -> IndexHeader:
    """Parse a header; a file that has no entries yet may hold zeros."""
    header = IndexHeader(*HEADER.unpack_from(content))
    return header._replace(next_number=max(header.next_number, 1))


def flaw_of(header: IndexHeader, sizes: IndexSizes, after: int, log_end: int) -> str | None:
    """Return why a header does not agree with the log, None when nothing speaks against it.

    Args:
        after: the last message, in bytes of the log, that has entries in the file before.
    """
    count = header.next_number - 1
    if not 0 < count < sizes.entries or not 0 <= header.used_slots <= min(count, sizes.slots):
        return f"its header counts {count} entries and {header.used_slots} used slots"
    if not after <= header.begin_offset <= header.end_offset < log_end:
        return f"it is of messages from {header.begin_offset} to {header.end_offset}, which cannot be"
    return None


class IndexFile:
    """One file, read through its descriptor: a damaged one, or one that is cut, costs an answer, no process."""

    def __init__(self, disk: Disk, path: Path, sizes: IndexSizes, header: IndexHeader = NO_ENTRIES) -> None:
        self.path = path
        self.sizes = sizes
        self.header = header
        self._disk = disk
        self._file: DiskFile | None = None

    @property
    def file(self) -> DiskFile:
        """The open file. Raises FileNotFoundError: it was deleted."""
        if self._file is None:
            self._check_exists()
            self.make()
        assert self._file is not None
        return self._file

    @property
    def has_size(self) -> bool:
        """Return True if the file has its size: in place of what was cut there would be zeros. Raises FileNotFoundError."""
        self._check_exists()
        return self._disk.size(self.path) == self.sizes.file_size

    def _check_exists(self) -> None:
        if not self._disk.exists(self.path):
            raise FileNotFoundError(errno.ENOENT, "there is no such index file", str(self.path))

    def make(self) -> None:
        """Open the file, and make it if need be. Raises OSError."""
        self._file = self._disk.open(self.path, self.sizes.file_size, is_one_of_many=True)

    @property
    def is_full(self) -> bool:
        """Return True if no entry fits any more."""
        return self.header.next_number >= self.sizes.entries

    def load_header(self) -> None:
        """Read the header."""
        self.header = parse_header(self.file.read(0, HEADER.size))
        self.close()

    def head(self, slot: int) -> int:
        """Return the number of a slot's newest entry, 0 without one. Raises IndexDamaged: it leads to none."""
        found = int.from_bytes(self._slot(slot), "big", signed=True)
        if 0 <= found < self.header.next_number:
            return found
        raise IndexDamaged(f"{self.path} is damaged at its slot {slot}")

    def _slot(self, slot: int) -> bytes:
        return self.file.read(HEADER.size + slot * SLOT_SIZE, SLOT_SIZE)

    def entry(self, number: int) -> IndexEntry:
        """Return an entry."""
        return IndexEntry(*ENTRY.unpack(self.file.read(self.sizes.entries_at + number * ENTRY.size, ENTRY.size)))

    def rest(self) -> None:
        """Give the descriptor back after a search; using the file opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Give back what the file takes."""
        self.rest()


class IndexWriter(IndexFile):
    """The file that is being filled; the slots of one that has entries are read first.

    Args:
        since_ms: of a new file, the end time of the full one before it: the first entry's seconds count from there.

    Raises:
        OSError: the file cannot be opened or read.
    """

    def __init__(
        self, disk: Disk, path: Path, sizes: IndexSizes, header: IndexHeader = NO_ENTRIES, since_ms: int = 0
    ) -> None:
        super().__init__(disk, path, sizes, header)
        # Private memory, which costs nothing until it is touched. The numbers in it are as in the file, big-endian.
        self._memory = mmap.mmap(-1, sizes.slots * SLOT_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._slots = memoryview(self._memory).cast("I")
        self._since_ms = since_ms
        try:
            self.make()
            if header != NO_ENTRIES:
                self._read_slots()
        except OSError:
            self.close()
            raise

    def _read_slots(self) -> None:
        for at in range(0, len(self._memory), _PIECE_SIZE):
            piece = self.file.read(HEADER.size + at, min(_PIECE_SIZE, len(self._memory) - at))
            if piece.count(0) < len(piece):
                self._memory[at : at + len(piece)] = piece

    def _slot(self, slot: int) -> bytes:
        if self._memory.closed:
            return super()._slot(slot)
        return self._memory[slot * SLOT_SIZE : slot * SLOT_SIZE + SLOT_SIZE]

    def put(self, hashes: Sequence[int], offsets: Sequence[int], times_ms: Sequence[int]) -> int:
        """Add entries, as many as fit; return how many.

        Raises:
            NotWritten: the disk does not take them; nothing was added.
        """
        header = self.header
        first, count = header.next_number, min(len(hashes), self.sizes.entries - header.next_number)
        if count < len(hashes):
            hashes, offsets, times_ms = hashes[:count], offsets[:count], times_ms[:count]
        if not count:
            return 0
        slot_count, slots = self.sizes.slots, self._slots
        # A slot holds the number of its newest entry, and each entry that of the one before: a chain from new to old.
        changed = [key_hash % slot_count for key_hash in hashes]
        numbers = array("I", range(first, first + count))
        # The file is big-endian, and so are the numbers in the mapped slots.
        _turn(numbers)
        previous: list[int] = []
        took = previous.append
        for slot, number in zip(changed, numbers, strict=True):
            # In order: two keys of one slot in this batch follow one another in its chain.
            took(slots[slot])
            slots[slot] = number
        try:
            # Entries are written now, the slots that lead to them when the file is full or closed.
            words = self._words(hashes, offsets, self._seconds(first, times_ms), previous)
            self.file.write(self.sizes.entries_at + first * ENTRY.size, words)
        except BaseException:
            # Backwards, so that a slot that changed twice gets its first value back.
            for slot, before in zip(reversed(changed), reversed(previous), strict=True):
                slots[slot] = before
            raise
        self.header = IndexHeader(
            begin_ms=times_ms[0] if first <= 1 else header.begin_ms,
            end_ms=times_ms[-1],
            begin_offset=offsets[0] if first <= 1 else header.begin_offset,
            end_offset=offsets[-1],
            used_slots=header.used_slots + previous.count(0),
            next_number=first + count,
        )
        return count

    def _seconds(self, first: int, times_ms: Sequence[int]) -> list[int]:
        begin_ms = self.header.begin_ms
        earliest_ms, latest_ms = min(times_ms), max(times_ms)
        if first > 1 and (second := (earliest_ms - begin_ms) // 1000) == (latest_ms - begin_ms) // 1000:
            seconds = [second] * len(times_ms)
        elif first > 1:
            seconds = [(time_ms - begin_ms) // 1000 for time_ms in times_ms]
        else:
            # Java's first entry counts from the end of the file before, the others from the first one.
            seconds = [(time_ms - times_ms[0]) // 1000 for time_ms in times_ms]
            seconds[0] = (times_ms[0] - self._since_ms) // 1000 if self._since_ms > 0 else 0
        if min(seconds) < 0 or max(seconds) > NUMBER_MAX:
            return [min(max(second, 0), NUMBER_MAX) for second in seconds]
        return seconds

    def _words(
        self, hashes: Sequence[int], offsets: Sequence[int], seconds: Sequence[int], previous: Sequence[int]
    ) -> bytes:
        """Return the entries' bytes, put together by column."""
        words = array("I", bytes(len(hashes) * ENTRY.size))
        words[0::5] = _turned("I", hashes)
        places = array("I", _turned("q", offsets).tobytes())
        words[1::5] = places[0::2]
        words[2::5] = places[1::2]
        words[3::5] = _turned("I", seconds)
        words[4::5] = array("I", previous)
        return words.tobytes()

    def finish(self) -> None:
        """Write slots, then the header, and return when the file is on the disk. May run on another thread. Raises OSError."""
        # A crash in between leaves a file without entries, which is rebuilt.
        self.file.write(0, bytes(HEADER.size))
        self.file.sync()
        for at in range(0, len(self._memory), _PIECE_SIZE):
            piece = self._memory[at : at + _PIECE_SIZE]
            if piece.count(0) < len(piece):  # holes stay holes
                self.file.write(HEADER.size + at, piece)
        self.file.sync()
        self.file.write(0, HEADER.pack(*self.header))
        self.file.sync()

    def rest(self) -> None:
        """Keep the descriptor while the next entries are coming."""
        if self._memory.closed:
            super().rest()

    def close(self) -> None:
        """Give back the memory as well."""
        self._slots.release()
        self._memory.close()
        super().close()


def _turned(code: str, numbers: Sequence[int]) -> array[int]:
    words = array(code, numbers)
    _turn(words)
    return words


def _turn(words: array[int]) -> None:
    """Turn between the machine's order of bytes and the file's."""
    if sys.byteorder == "little":
        words.byteswap()
