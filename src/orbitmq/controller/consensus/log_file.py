"""The disk of one node of Raft: its term and vote, its entries, its snapshot.

Files `log-<n>`: each begins with everything that the node knows (the base), and goes on with one record for each step:

```
| size 4 | CRC-32 4 | saved (`codec`) |   0 where the file was not written
```
The file `begun` is there once the first of them is on the disk. A record is whole or not there: what a power cut leaves behind the last whole one is overwritten. A new file is begun when the old
one is full or a snapshot shortens the log; the old one is removed when the disk has the new one's base.

Source: docs/formats/controller_log.md; hashicorp/raft-wal for the shape.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from struct import Struct
from zlib import crc32

from orbitmq.controller.consensus.codec import decode_saved, encode_saved
from orbitmq.errors import FrameError, LogDiverged
from orbitmq.raft import Entry, HardState, Saved, Snapshot
from orbitmq.store.disk import Disk, DiskFile

_HEAD = Struct(">II")
_FILE_SIZE = 1024 * 1024
_NAME = "log-"
_BEGUN = "begun"


class RaftLogFile:
    """What one node has on its disk.

    Args:
        directory: of this node alone; made with the first record.
        file_size: bytes of each file; one whose base is larger has twice the base's.
    """

    def __init__(self, disk: Disk, directory: Path, file_size: int = _FILE_SIZE) -> None:
        self._disk = disk
        self._directory = directory
        self._file_size = file_size
        self._number = 0
        self._file: DiskFile | None = None
        self._size = 0
        self._at = 0
        self._state = HardState()
        self._snapshot: Snapshot | None = None
        self._entries: list[Entry] = []

    @property
    def entry_count(self) -> int:
        """How many entries the log has behind its snapshot."""
        return len(self._entries)

    def load(self) -> Saved:
        """Return what the disk has; nothing at the first start. Call it first.

        Raises:
            LogDiverged: a damaged record stands before whole ones: what it said may have been promised to others.
            OSError: the disk does not give it.
        """
        for number in sorted(self._numbers(), reverse=True):
            content = self._disk.read(self._path(number))
            records, end, is_torn = _records(content)
            if not records:
                # The file was being begun when the power went; the one before it is there still.
                continue
            if is_torn and _has_record_behind(content, end):
                raise LogDiverged(f"{self._path(number)} is damaged at {end}, and whole records follow")
            self._number = number
            for record in records:
                self._take(record)
            break
        else:
            if self._disk.exists(self._directory / _BEGUN):
                raise LogDiverged(f"none of the files in {self._directory} begins with a whole record")
        # A new file: what a torn record has left is not written over, but left behind.
        return Saved(self._state, self._snapshot, tuple(self._entries))

    def save(self, state: HardState | None, entries: tuple[Entry, ...], snapshot: Snapshot | None = None) -> None:
        """Return when the disk has it. May run on another thread, one call at a time.

        Args:
            state: None: as before.
            entries: those of the same or higher indexes are replaced.
            snapshot: a leader's, in place of the whole log; entries follow it.

        Raises:
            OSError: the disk does not take it; nothing may be promised then, and what follows is to begin with another `load`.
        """
        news = Saved(state or self._state, snapshot, entries)
        self._take(news)
        if snapshot is None and self._file is not None:
            record = _record(encode_saved(news))
            if self._at + len(record) + _HEAD.size <= self._size:
                self._append(record)
                return
        self._begin_file()

    def compact(self, snapshot: Snapshot, keep_behind: int) -> None:
        """Put a snapshot of the application in place of the entries up to `keep_behind`. Raises OSError."""
        self._snapshot = snapshot
        self._entries = [entry for entry in self._entries if entry.index > keep_behind]
        self._begin_file()

    def rewrite(self) -> None:
        """Return when a new file has everything there is: what was read may be in the system's memory alone. Raises OSError."""
        self._begin_file()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _take(self, news: Saved) -> None:
        self._state = news.hard_state
        if news.snapshot is not None:
            self._snapshot = news.snapshot
            self._entries = []
        if news.entries:
            first = news.entries[0].index
            self._entries = [entry for entry in self._entries if entry.index < first]
            self._entries += news.entries

    def _begin_file(self) -> None:
        """Begin a file with everything there is, and remove those before it."""
        base = _record(encode_saved(Saved(self._state, self._snapshot, tuple(self._entries))))
        before = self._numbers()
        number = max(before, default=0) + 1
        size = max(self._file_size, 2 * len(base))
        self.close()
        try:
            file = self._disk.open(self._path(number), size, is_one_of_many=True)
            self._file, self._number, self._size, self._at = file, number, size, 0
            self._append(base)
        except OSError:
            # The one before counts still. A full disk is tried again and again, and must not be filled with such files.
            self.close()
            with suppress(OSError):
                self._disk.remove(self._path(number))
            raise
        if not self._disk.exists(self._directory / _BEGUN):
            # From now on a file without a whole record is damage, and not a first start that a crash has ended.
            self._disk.write(self._directory / _BEGUN, b"1")
        for old in before:
            self._disk.remove(self._path(old))

    def _append(self, record: bytes) -> None:
        assert self._file is not None
        self._file.write(self._at, record)
        self._file.sync()
        self._at += len(record)

    def _numbers(self) -> list[int]:
        names = self._disk.names(self._directory)
        return [int(name[len(_NAME) :]) for name in names if name.startswith(_NAME) and name[len(_NAME) :].isdigit()]

    def _path(self, number: int) -> Path:
        return self._directory / f"{_NAME}{number}"


def _record(payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def _record_at(content: bytes, at: int) -> bytes | None:
    """Return the payload of the record that begins there, None without a whole one."""
    if at + _HEAD.size > len(content):
        return None
    size, checksum = _HEAD.unpack_from(content, at)
    payload = content[at + _HEAD.size : at + _HEAD.size + size]
    return payload if size and len(payload) == size and crc32(payload) == checksum else None


def _records(content: bytes) -> tuple[list[Saved], int, bool]:
    """Return the whole records at the front, where they end, and whether anything but zeros follows."""
    found, at = [], 0
    while (payload := _record_at(content, at)) is not None:
        try:
            found.append(decode_saved(payload))
        except FrameError as error:
            raise LogDiverged(f"a record at {at} is of another version: {error}") from error
        at += _HEAD.size + len(payload)
    return found, at, bool(content[at:].strip(b"\0"))


def _has_record_behind(content: bytes, at: int) -> bool:
    """Return True if a whole record follows the one that is damaged, by the size that it says it has."""
    if at + _HEAD.size > len(content):
        return False
    size, _ = _HEAD.unpack_from(content, at)
    return size > 0 and _record_at(content, at + _HEAD.size + size) is not None
