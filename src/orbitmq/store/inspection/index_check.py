"""The check of index files: each entry, in order, must be of the next key of the log, and each slot must lead to its newest one."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

from orbitmq.store.index.hashes import key_hash
from orbitmq.store.index.index_files import is_index_name
from orbitmq.store.index.layout import (
    ENTRY,
    HEADER,
    SLOT_SIZE,
    IndexNote,
    IndexSizes,
    flaw_of,
    parse_header,
    parse_note,
)
from orbitmq.store.inspection.issues import Issue, Severity, note
from orbitmq.store.inspection.layout import list_names
from orbitmq.store.inspection.reading import ReadOnlyFile, read_small
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

REBUILD_INDEX = (
    "run `orbitmq store rebuild`, or remove the file and those behind it: the next start indexes the log again"
)
_PIECE_ENTRIES = 4096
_ROLLBACK = 0xC
_NOTE_SIZE_MAX = 4096


class IndexCheck:
    """Compares the index files of a store with the log, whose records come one after another.

    Args:
        root: the store's directory.
        sizes: of its files; None: it is not known whether they have Java's usual ones.
        is_settled: the last stop was orderly, and no broker runs: files and slots are written to their end. Otherwise they
            are as far as the file `indexed` says.
    """

    def __init__(self, root: Path, sizes: IndexSizes | None, *, is_settled: bool) -> None:
        self._root = root
        self._sizes = sizes or IndexSizes()
        self._are_sizes_known = sizes is not None
        self._is_settled = is_settled
        self._covered = None if is_settled else _read_note(root / "indexed")
        self._found: list[Issue] = []
        self._file = ""
        self._entries = self._walk()
        self._next = next(self._entries, None)
        self._is_wrong = False
        self._missing = 0

    def pass_over(self, start: int, end: int) -> None:
        """Expect entries of messages that were there: the log is damaged from one place to another, or begins behind it."""
        while self._next is not None and start <= self._next[1] < end:
            self._next = next(self._entries, None)

    def take(self, record: Record) -> None:
        """Compare the next record's keys with the next entries."""
        if record.sys_flag & _ROLLBACK == _ROLLBACK or self._is_wrong:
            return
        for key in _keys_of(record):
            if self._next is None or self._next[1] > record.physical_offset:
                self._missing += 1
            elif self._next != (key_hash(record.topic, key), record.physical_offset):
                self._is_wrong = True
                if not any(found.severity is Severity.WRONG for found in self._found):
                    what = f"an entry leads to {self._next[1]}, and the message at {record.physical_offset} has none"
                    self._found.append(Issue(self._file, None, what, REBUILD_INDEX))
                return
            else:
                self._next = next(self._entries, None)

    def issues(self) -> Iterator[Issue]:
        """Yield what is wrong, when all records have come."""
        for _ in self._entries:
            pass  # the rest, whose messages are gone: its slots are still to be looked at
        yield from {found.path: found for found in reversed(self._found)}.values()  # one cause, one finding
        is_valid = not any(found.severity is Severity.WRONG for found in self._found)
        if self._missing and is_valid and self._is_settled and list_names(self._root / "index"):
            yield note("index", f"{self._missing} keys of the log have no entry", "the next start indexes them")

    def _walk(self) -> Iterator[tuple[int, int]]:
        """Yield the hash and the place of each entry, file after file."""
        names = list_names(self._root / "index")
        if self._covered is not None and self._covered.file not in names:
            self._covered = None
        for name in names:
            if not is_index_name(name):
                self._found.append(note(f"index/{name}", "is no index file, and not checked"))
                continue
            if self._covered is not None and name > self._covered.file:
                continue  # begun shortly before the broker's end: the next start writes it again
            self._file = f"index/{name}"
            try:
                with ReadOnlyFile(self._root / "index" / name) as file:
                    yield from self._walk_file(file)
            except OSError as error:
                self._found.append(Issue(self._file, None, f"cannot be read: {error.strerror}", REBUILD_INDEX))

    def _walk_file(self, file: ReadOnlyFile) -> Iterator[tuple[int, int]]:
        sizes = self._sizes
        if file.size != sizes.file_size:
            what = f"has {file.size} bytes, not {sizes.file_size}"
            if self._are_sizes_known:
                self._found.append(Issue(self._file, None, what, REBUILD_INDEX))
            else:
                self._found.append(
                    note(self._file, f"{what}, and is not checked", "name the broker's settings with -c")
                )
            return
        header = parse_header(file.read(0, HEADER.size))
        flaw = flaw_of(header, sizes)
        confirmed: int | None = None
        if self._covered is not None and self._file == f"index/{self._covered.file}":
            header = self._covered.header
            flaw, confirmed = flaw or flaw_of(header, sizes), header.next_number
        if flaw is not None:
            self._found.append(Issue(self._file, 0, flaw, REBUILD_INDEX))
            return
        last_place = header.begin_offset
        heads = array("I", bytes(sizes.slots * SLOT_SIZE))
        for first in range(1, header.next_number, _PIECE_ENTRIES):
            count = min(_PIECE_ENTRIES, header.next_number - first)
            piece = file.read(sizes.entries_at + first * ENTRY.size, count * ENTRY.size)
            for number, (found, place, _seconds, previous) in enumerate(ENTRY.iter_unpack(piece), start=first):
                slot = found % sizes.slots
                if found < 0 or previous != heads[slot] or not last_place <= place <= header.end_offset:
                    what = f"entry {number} does not follow the one before it"
                    self._found.append(Issue(self._file, sizes.entries_at + number * ENTRY.size, what, REBUILD_INDEX))
                    return
                heads[slot], last_place = number, place
                yield found, place
        if self._is_settled or self._covered is not None:
            self._check_slots(file, heads, confirmed)

    def _check_slots(self, file: ReadOnlyFile, heads: array[int], confirmed: int | None) -> None:
        """Compare the slots with the newest entries.

        Args:
            confirmed: the number of the first entry that may be missing: slots may lead there, too.
        """
        size = len(heads) * SLOT_SIZE
        stored = array("I", file.read(HEADER.size, size).ljust(size, b"\0"))
        if sys.byteorder == "little":
            stored.byteswap()
        if stored == heads:
            return
        wrong = [
            slot
            for slot, (found, head) in enumerate(zip(stored, heads, strict=True))
            if found != head and (confirmed is None or found < confirmed)
        ]
        if wrong:
            what = f"{len(wrong)} slots do not lead to their newest entries"
            self._found.append(Issue(self._file, HEADER.size + wrong[0] * SLOT_SIZE, what, REBUILD_INDEX))


def _read_note(path: Path) -> IndexNote | None:
    try:
        return parse_note(read_small(path, _NOTE_SIZE_MAX) or b"")
    except OSError:
        return None


def _keys_of(record: Record) -> list[str]:
    properties = bytes(record.properties)
    unique_key = find_property(properties, b"UNIQ_KEY")
    found = [] if unique_key is None else [unique_key]
    found += [key for key in (find_property(properties, b"KEYS") or b"").split(b" ") if key]
    return [key.decode("utf-8", "replace") for key in found]
