"""The file `delivered`: of each delay level the last message that was sent on, and where its copy lies in the log.

delayOffset.json tells only of copies that are on the disk. A process that is killed leaves all that it has handed to the
operating system, so its successor finds here what became of the time since. Nothing of it is synced, and nothing is taken on
trust: a note says which record of the log proves it.

```
 0        4        8               16               24               32               40       44       64
 +--------+--------+----------------+----------------+----------------+----------------+--------+-------+
 | level  | zeros  | queue offset   | where the      | where its copy | when the copy  | CRC-32 | zeros |
 | 4      | 4      | 8              | message lies 8 | lies 8         | was stored 8   | 4      | 20    |
 +--------+--------+----------------+----------------+----------------+----------------+--------+-------+
```
Source: docs/formats/config_files.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from orbitmq.model.delay_levels import DELAY_LEVELS_MAX
from orbitmq.store.disk import Disk, DiskFile

_BODY = Struct(">IxxxxQQQQ")
_CRC = Struct(">I")
_STRIDE = 64
"""No note lies in two sectors."""
_SIZE = DELAY_LEVELS_MAX * _STRIDE


class LevelProgress(NamedTuple):
    """The last message of a level that was sent on: its offset in the level's queue, and places in the CommitLog."""

    level: int
    queue_offset: int
    waiting_at: int
    copy_at: int
    stored_at_ms: int


class DeliveryProgress:
    """The file, by its path; it is made with the first note."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: DiskFile | None = None

    def read(self) -> list[LevelProgress]:
        """Return the notes that are whole.

        Raises:
            OSError: the disk does not give the file.
        """
        return parse_delivery_notes(self._disk.read(self._path))

    def write(self, notes: Iterable[LevelProgress]) -> None:
        """Write notes over those before of their levels. They outlive the process, and a power cut only by chance.

        Raises:
            OSError: the disk takes nothing.
        """
        if self._file is None:
            self._file = self._disk.open(self._path, _SIZE, is_one_of_many=True)
        for note in notes:
            if note.level <= DELAY_LEVELS_MAX:
                self._file.write((note.level - 1) * _STRIDE, format_delivery_note(note))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def format_delivery_note(note: LevelProgress) -> bytes:
    """Encode a note, without the zeros behind it."""
    body = _BODY.pack(*note)
    return body + _CRC.pack(crc32(body))


def parse_delivery_notes(content: bytes) -> list[LevelProgress]:
    """Parse the file; a note that is torn, or lies in the place of another level, is left out."""
    found = []
    for start in range(0, len(content) - _BODY.size - _CRC.size + 1, _STRIDE):
        body = content[start : start + _BODY.size]
        if _CRC.unpack_from(content, start + _BODY.size)[0] == crc32(body):
            note = LevelProgress(*_BODY.unpack(body))
            if (note.level - 1) * _STRIDE == start:
                found.append(note)
    return found
