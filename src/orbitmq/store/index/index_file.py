"""An index file: a hash table from keys to places in the CommitLog, filled in the order of the log (Java: IndexFile).

While a file is filled its slots are in memory: on the disk they never lead to an entry that is not written. `commit`
writes what has changed of them.
"""

from __future__ import annotations

import errno
import mmap
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from orbitmq.errors import FileCut, IndexDamaged
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

_PAGE_SLOTS = 1024
_PIECE_SIZE = 1 << 20
_FEW_SLOTS = 4096
"""As long as so few slots have changed, only their pages are written; then all of them."""
_COUNTED_SIZE = 64 * 1024
"""So much is counted in one pass: the loop does not wait long for the interpreter meanwhile."""


class IndexFile:
    """One file, read through its descriptor: a damaged one, or one that is cut, costs an answer, no process."""

    def __init__(self, disk: Disk, path: Path, sizes: IndexSizes, header: IndexHeader = NO_ENTRIES) -> None:
        self.path = path
        self.sizes = sizes
        self.header = header
        self.is_ours = False
        """Begun in this run."""
        self.are_slots_counted = False
        """As many slots are in use as the header says; those of a file that this run has begun are not counted."""
        self._disk = disk
        self._file: DiskFile | None = None

    @property
    def file(self) -> DiskFile:
        """The open file. Raises FileNotFoundError: it was deleted."""
        if self._file is None:
            if not self._disk.exists(self.path):
                raise FileNotFoundError(errno.ENOENT, "there is no such index file", str(self.path))
            self.make()
        assert self._file is not None
        return self._file

    def check_whole(self) -> None:
        """Make sure that the file has its size: in place of what was cut there would be zeros, and no entries.

        Raises:
            FileCut: it was cut from outside.
            FileNotFoundError: it was deleted.
        """
        if self._file is None and self._disk.exists(self.path):
            is_whole = self._disk.size(self.path) == self.sizes.file_size
        else:
            is_whole = self.file.is_whole()
        if not is_whole:
            raise FileCut(f"{self.path} was cut short from outside; a restart rebuilds it")

    def make(self) -> None:
        """Open the file, and make it if need be. Raises OSError."""
        self._file = self._disk.open(self.path, self.sizes.file_size, is_one_of_many=True)

    @property
    def is_full(self) -> bool:
        """Say whether no entry fits any more."""
        return self.header.next_number >= self.sizes.entries

    def load_header(self) -> None:
        """Read the header."""
        self.header = parse_header(self.file.read(0, HEADER.size))

    def slots_check(self) -> Callable[[], None]:
        """Return what counts the slots as they are now, on another thread, and raises IndexDamaged where some are missing.

        Zeros in place of slots would end searches as if nothing had been there.
        """
        return partial(_check_slots, self.path, self._slot_pieces(), self.header.used_slots)

    def _slot_pieces(self) -> Iterable[bytes]:
        size = self.sizes.slots * SLOT_SIZE
        if not self._disk.exists(self.path):
            raise FileNotFoundError(errno.ENOENT, "there is no such index file", str(self.path))
        # A descriptor of its own: searches take and return the other one meanwhile.
        file = self._disk.open(self.path, self.sizes.file_size, is_one_of_many=True)
        try:
            for at in range(0, size, _COUNTED_SIZE):
                yield file.read(HEADER.size + at, min(_COUNTED_SIZE, size - at))
        finally:
            file.close()

    def head(self, slot: int) -> int:
        """Return the number of a slot's newest entry, 0 without one. Raises IndexDamaged: it leads to none."""
        return self._checked_head(slot, self.file.read(HEADER.size + slot * SLOT_SIZE, SLOT_SIZE))

    def _checked_head(self, slot: int, content: bytes) -> int:
        found = int.from_bytes(content, "big", signed=True)
        if 0 <= found < self.header.next_number:
            return found
        raise IndexDamaged(f"{self.path} is damaged at its slot {slot}, which leads to no entry")

    def entry(self, number: int) -> IndexEntry:
        """Return an entry."""
        return IndexEntry(*ENTRY.unpack(self.file.read(self.sizes.entries_at + number * ENTRY.size, ENTRY.size)))

    def entries(self, first: int, count: int) -> array[int]:
        """Return entries as words of 32 bits, five each."""
        words = array("I", self.file.read(self.sizes.entries_at + first * ENTRY.size, count * ENTRY.size))
        _turn(words)
        return words

    def rest(self) -> None:
        """Give the descriptor back after a search."""
        self.close()

    def close(self) -> None:
        """Give the descriptor back; using the file opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


class IndexWriter(IndexFile):
    """The file that is being filled.

    Args:
        since_ms: of a new file, the end time of the full one before it: the first entry's seconds count from there.
    """

    def __init__(
        self, disk: Disk, path: Path, sizes: IndexSizes, header: IndexHeader = NO_ENTRIES, since_ms: int = 0
    ) -> None:
        super().__init__(disk, path, sizes, header)
        # Private memory, which costs nothing until it is touched. The numbers in it are as in the file, big-endian.
        self._memory = mmap.mmap(-1, sizes.slots * SLOT_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._slots = memoryview(self._memory).cast("I")
        self._since_ms = since_ms
        self._changed: list[list[int]] = []
        self._changed_count = 0

    def load_slots(self) -> None:
        """Read the slots."""
        size = self.sizes.slots * SLOT_SIZE
        nothing = bytes(_PIECE_SIZE)
        for at in range(0, size, _PIECE_SIZE):
            piece = self.file.read(HEADER.size + at, min(_PIECE_SIZE, size - at))
            if piece != nothing[: len(piece)]:
                self._memory[at : at + len(piece)] = piece

    def head(self, slot: int) -> int:
        """Return the number of a slot's newest entry, 0 without one."""
        if self._memory.closed:
            return super().head(slot)
        return self._checked_head(slot, self._memory[slot * SLOT_SIZE : slot * SLOT_SIZE + SLOT_SIZE])

    def _slot_pieces(self) -> Iterable[bytes]:
        if self._memory.closed:
            return super()._slot_pieces()
        slots = self._memory[:]
        return (slots[at : at + _COUNTED_SIZE] for at in range(0, len(slots), _COUNTED_SIZE))

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
            # Entries are written now, the slots that lead to them with the next commit: a crash leaves entries without a slot.
            words = self._words(hashes, offsets, self._seconds(first, times_ms), previous)
            self.file.write(self.sizes.entries_at + first * ENTRY.size, words)
        except BaseException:
            # Backwards, so that a slot that changed twice gets its first value back.
            for slot, before in zip(reversed(changed), reversed(previous), strict=True):
                slots[slot] = before
            raise
        # With few changed slots the commit writes these alone; beyond, the whole table is cheaper.
        if self._changed_count <= _FEW_SLOTS:
            self._changed.append(changed)
            self._changed_count += count
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

    def has_changes(self) -> bool:
        """Say whether the disk lacks slots."""
        return self._changed_count > 0

    def take_changes(self) -> list[int] | None:
        """Return the pages of slots that have changed since this was last asked; None: all of them may have."""
        changed, self._changed = self._changed, []
        count, self._changed_count = self._changed_count, 0
        if count > _FEW_SLOTS:
            return None
        return sorted({slot // _PAGE_SLOTS for slots in changed for slot in slots})

    def give_back(self, pages: list[int] | None) -> None:
        """Take changes back that could not be written."""
        if pages is None:
            self._changed_count = _FEW_SLOTS + 1
        elif pages:
            self._changed.append([page * _PAGE_SLOTS for page in pages])
            self._changed_count += len(pages)

    def commit(self, pages: list[int] | None, header: IndexHeader) -> None:
        """Write slots and the header, and return when the file is on the disk. May run on another thread.

        Slots may be newer than the header: `cut` copes with what that leaves after a crash.

        Raises:
            OSError: the disk does not take it.
        """
        self._write_slots(pages)
        self.file.write(0, HEADER.pack(*header))
        self.file.sync()

    def _write_slots(self, pages: list[int] | None) -> None:
        size = self.sizes.slots * SLOT_SIZE
        if pages is None:
            nothing = bytes(_PIECE_SIZE)
            for at in range(0, size, _PIECE_SIZE):
                piece = self._memory[at : at + _PIECE_SIZE]
                if piece != nothing[: len(piece)]:
                    self.file.write(HEADER.size + at, piece)
        else:
            page_size = _PAGE_SLOTS * SLOT_SIZE
            for page in pages:
                self.file.write(HEADER.size + page * page_size, self._memory[page * page_size : (page + 1) * page_size])

    def cut(self, header: IndexHeader) -> bool:
        """Drop every entry from `header.next_number` on, whatever a crash has left of them.

        Returns:
            False: a slot led to one of those, and to which it led before is unknown.
        """
        self.header = header
        slot_count, count = self.sizes.slots, header.next_number
        slots = array("I", self._memory[:])
        _turn(slots)
        # A slot behind the end leads back by the entries that were written before it.
        astray = _above(slots, count - 1)
        for slot in astray:
            number = slots[slot]
            while number >= count:
                if number >= self.sizes.entries:
                    return False
                entry = self.entry(number)
                key_hash, previous = entry.key_hash, entry.previous
                if key_hash % slot_count != slot or not 0 <= previous < number or not any(entry) or key_hash < 0:
                    return False
                number = previous
            self._memory[slot * SLOT_SIZE : slot * SLOT_SIZE + SLOT_SIZE] = number.to_bytes(SLOT_SIZE, "big")
        if astray:
            self._write_slots(sorted({slot // _PAGE_SLOTS for slot in astray}))
            self.file.sync()
        # Nothing leads there any more; what is left must not be taken for an entry after the next crash.
        self.file.zero_from(self.sizes.entries_at + count * ENTRY.size)
        self.file.sync()
        return True

    def rest(self) -> None:
        """Keep the descriptor while the next entries are coming."""
        if self._memory.closed:
            self.close()

    def release(self) -> None:
        """Give the memory back, and the descriptor."""
        self._slots.release()
        self._memory.close()
        self.close()


def _check_slots(path: Path, pieces: Iterable[bytes], used_count: int) -> None:
    nothing = bytes(_COUNTED_SIZE)
    found = 0
    for piece in pieces:
        if piece != nothing:
            words = array("I", piece)
            found += len(words) - words.count(0)
    # Java counts a slot when it is used first, and so do we. What is too much leads to entries that are not the slot's.
    if found < used_count:
        raise IndexDamaged(f"{path} is damaged: {used_count} of its slots were in use, {found} are left")


def _above(numbers: array[int], largest: int) -> list[int]:
    """Return where a number is larger."""
    found = []
    for at in range(0, len(numbers), _PAGE_SLOTS):
        piece = numbers[at : at + _PAGE_SLOTS]
        if max(piece) > largest:
            found += [at + place for place, number in enumerate(piece) if number > largest]
    return found


def _turned(code: str, numbers: Sequence[int]) -> array[int]:
    words = array(code, numbers)
    _turn(words)
    return words


def _turn(words: array[int]) -> None:
    """Turn between the machine's order of bytes and the file's."""
    if sys.byteorder == "little":
        words.byteswap()
