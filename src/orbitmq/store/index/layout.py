"""The bytes of the index's files, and of the file `indexed` that says how much of them is on the disk. Pure.

```
| begin time 8 | end time 8 | begin offset 8 | end offset 8 | used slots 4 | next entry 4 | slots 4 each | entries 20 each |
| entry: key hash 4 | physical offset 8 | seconds since begin time 4 | the slot's entry before it 4 |
```
A slot holds the number of its newest entry; entries count from 1. Source: docs/formats/index_file.md.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import NamedTuple

HEADER = Struct(">qqqqii")
ENTRY = Struct(">iqii")
SLOT_SIZE = 4
NUMBER_MAX = (1 << 31) - 1
_NOTE_SIZE = 384


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


class IndexNote(NamedTuple):
    """What the file `indexed` says: what was on the disk.

    It is written after the index file itself, in one sector. After a stop that was not orderly, nothing else covers
    an index file that is not full.

    Args:
        file: the newest index file's name, empty without one.
        header: the part of it that is covered.
        position: everything before this place in the log has its entries there, or in the files before.
        is_whole: nothing is written behind that: it was the last word of an orderly stop.
    """

    file: str
    header: IndexHeader
    position: int
    is_whole: bool


def parse_note(content: bytes) -> IndexNote | None:
    """Parse the file; None: it is missing or damaged, and covers nothing."""
    try:
        document = json.loads(content)
        numbers = [*document["header"], document["position"]]
        if len(numbers) != len(IndexHeader._fields) + 1 or not all(type(number) is int for number in numbers):
            return None
        return IndexNote(str(document["file"]), IndexHeader(*numbers[:-1]), numbers[-1], document["whole"] is True)
    except (ValueError, KeyError, TypeError):
        return None


def format_note(note: IndexNote) -> bytes:
    """Encode the file: always of one size, so that it is replaced in place."""
    document = {"file": note.file, "header": note.header, "position": note.position, "whole": note.is_whole}
    return json.dumps(document).encode().ljust(_NOTE_SIZE - 1) + b"\n"
