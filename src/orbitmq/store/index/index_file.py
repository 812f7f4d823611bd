"""An index file: a hash table from keys to places in the CommitLog, filled in the order of the log (Java: IndexFile).

While a file is filled its slots are in memory alone, made from its entries; `finish` writes them.
"""

from __future__ import annotations

import errno
import mmap
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

from orbitmq.errors import IndexDamaged
from orbitmq.store.disk import Disk, DiskFile
from orbitmq.store.index.layout import (
    ENTRY,
    HEADER,
    NO_ENTRIES,
    NUMBER_MAX,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    IndexSizes,
    parse_header,
)

_PIECE_SIZE = 1 << 20
_NOTHING = bytes(ENTRY.size)
_LOADED_ENTRIES = 4096
"""Entries that are read in one step: some milliseconds."""


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
        """Give the descriptor back after a search."""
        self.close()

    def close(self) -> None:
        """Give the descriptor back; using the file opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


class IndexWriter(IndexFile):
    """The file that is being filled; one that has entries is loaded first.

    Args:
        since_ms: of a new file, the end time of the full one before it: the first entry's seconds count from there.
        has_slots: they are in the file, as an orderly stop leaves them; otherwise they are made of its entries.
    """

    def __init__(
        self,
        disk: Disk,
        path: Path,
        sizes: IndexSizes,
        header: IndexHeader = NO_ENTRIES,
        since_ms: int = 0,
        *,
        has_slots: bool = False,
    ) -> None:
        super().__init__(disk, path, sizes, header if has_slots else header._replace(used_slots=0))
        # Private memory, which costs nothing until it is touched. The numbers in it are as in the file, big-endian.
        self._memory = mmap.mmap(-1, sizes.slots * SLOT_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._slots = memoryview(self._memory).cast("I")
        self._since_ms = since_ms
        self._is_sound = has_slots or header.next_number <= 1
        self._has_slots = has_slots
        self._loaded_number = 1

    @property
    def is_loaded(self) -> bool:
        """Return True if every entry has its slot."""
        return self._loaded_number >= self.header.next_number

    def load(self) -> None:
        """Read the slots, or make those of some entries. Raises IndexDamaged: they do not follow one another; OSError."""
        if self._has_slots:
            for at in range(0, len(self._memory), _PIECE_SIZE):
                piece = self.file.read(HEADER.size + at, min(_PIECE_SIZE, len(self._memory) - at))
                if piece.count(0) < len(piece):
                    self._memory[at : at + len(piece)] = piece
            self._loaded_number = self.header.next_number
            return
        first, slot_count, slots = self._loaded_number, self.sizes.slots, self._slots
        count = min(_LOADED_ENTRIES, self.header.next_number - first)
        content = self.file.read(self.sizes.entries_at + first * ENTRY.size, count * ENTRY.size)
        words = array("I", content)
        hashes = words[0::5]
        _turn(hashes)
        numbers = array("I", range(first, first + count))
        _turn(numbers)
        previous = words[4::5]
        damage = IndexDamaged(f"{self.path} is damaged between its entries {first} and {first + count}")
        if 0 in hashes[first == 1 :] and _NOTHING in (
            content[at : at + ENTRY.size] for at in range(0, len(content), ENTRY.size)
        ):
            raise damage
        for key_hash, number, before in zip(hashes, numbers, previous, strict=True):
            slot = key_hash % slot_count
            if slots[slot] != before:
                raise damage
            slots[slot] = number
        self.header = self.header._replace(used_slots=self.header.used_slots + previous.count(0))
        self._loaded_number = first + count

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
        self._loaded_number = first + count
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

    def finish(self, header: IndexHeader) -> None:
        """Write slots and header, and return when the file is on the disk. May run on another thread. Raises OSError."""
        for at in range(0, len(self._memory), _PIECE_SIZE):
            piece = self._memory[at : at + _PIECE_SIZE]
            # Holes stay holes, but after a crash: the file may have slots of entries that are gone.
            if not self._is_sound or piece.count(0) < len(piece):
                self.file.write(HEADER.size + at, piece)
        self.file.write(0, HEADER.pack(*header))
        self.file.sync()

    def rest(self) -> None:
        """Keep the descriptor while the next entries are coming."""
        if self._memory.closed:
            self.close()

    def release(self) -> None:
        """Give the memory back, and the descriptor."""
        self._slots.release()
        self._memory.close()
        self.close()


def _turned(code: str, numbers: Sequence[int]) -> array[int]:
    words = array(code, numbers)
    _turn(words)
    return words


def _turn(words: array[int]) -> None:
    """Turn between the machine's order of bytes and the file's."""
    if sys.byteorder == "little":
        words.byteswap()
