"""The index files of a store, oldest first: which of them agree with the log, and how the next one is begun.

A file that cannot be what was written is removed, together with those after it, and the index is built again from the log
from there on. After a stop that was not orderly those full files are trusted that the checkpoint covers.

Source: Java IndexService; docs/formats/index_file.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import localtime, strftime

from orbitmq.clock import Clock
from orbitmq.store.disk import Disk
from orbitmq.store.index.index_file import IndexFile, IndexSizes, IndexWriter, flaw_of

log = logging.getLogger(__name__)

_NAME_LENGTH = 17
_UNFINISHED = "it was not finished when the last run ended"


def index_name(now_ms: int) -> str:
    """Return the name of a file that is begun now: local time, as Java writes it."""
    return f"{strftime('%Y%m%d%H%M%S', localtime(now_ms / 1000))}{now_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """Return True if a file of the directory is an index file."""
    return len(name) == _NAME_LENGTH and name.isascii() and name.isdecimal()


class IndexFiles:
    """The files of one directory.

    Args:
        record_end: tells of the record that starts at a place of the log (bytes) where it ends; 0 where none does.
    """

    def __init__(
        self, disk: Disk, directory: Path, sizes: IndexSizes, clock: Clock, record_end: Callable[[int], int]
    ) -> None:
        self.files: list[IndexFile] = []
        self._disk = disk
        self._directory = directory
        self._sizes = sizes
        self._clock = clock
        self._record_end = record_end
        self._newest_name = ""
        """Of all files that there have been: names rise, also when the clock does not."""

    @property
    def last(self) -> IndexFile | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def load(self, *, is_clean: bool, full_ms: int, log_min: int, log_end: int) -> int:
        """Find the files, and decide which are trusted.

        Args:
            is_clean: the broker's last stop was orderly, ours or Java's.
            full_ms: full files that end at this time or before are on the disk, says the checkpoint.

        Returns:
            Where the index goes on, in bytes of the log.
        """
        names = [name for name in self._disk.names(self._directory) if is_index_name(name)]
        self.files = [IndexFile(self._disk, self._directory / name, self._sizes) for name in names]
        self._newest_name = max(names, default="")
        after = 0
        for file in self.files:
            flaw = self._flaw(file, is_clean, full_ms) or flaw_of(file.header, self._sizes, after, log_end)
            if flaw is not None:
                self.remove_from(file.path.name, flaw)
                break
            after = file.header.end_offset
        return self.behind_last(log_min)

    def _flaw(self, file: IndexFile, is_clean: bool, full_ms: int) -> str | None:
        """Read a file's header; return why it is not covered, None when it is."""
        if not file.has_size:
            return f"it has not the configured {self._sizes.file_size} bytes"
        file.load_header()
        return None if is_clean or (file.is_full and file.header.end_ms <= full_ms) else _UNFINISHED

    def behind_last(self, log_min: int) -> int:
        """Return the place behind the last message that has entries; files whose last message is not in the log go."""
        while (last := self.last) is not None and last.header.end_offset >= log_min:
            end = self._record_end(last.header.end_offset)
            if end:
                # The rest of its keys may have been in a file that is not there any more: twice does no harm.
                return last.header.end_offset if last.is_full else end
            self.remove_from(last.path.name, "its last message is not in the log")
        return log_min

    def writer(self) -> IndexWriter:
        """Return the file that is being filled; the next one where the last is full. Raises OSError."""
        last = self.last
        if last is not None and not last.is_full:
            if not isinstance(last, IndexWriter):  # as an orderly stop has left it
                last = self.files[-1] = IndexWriter(self._disk, last.path, self._sizes, last.header)
            return last
        name = index_name(self._clock())
        if name <= self._newest_name:
            name = f"{int(self._newest_name) + 1:0{_NAME_LENGTH}d}"
        since_ms = 0 if last is None else last.header.end_ms
        writer = IndexWriter(self._disk, self._directory / name, self._sizes, since_ms=since_ms)
        self._newest_name = name
        self.files.append(writer)
        return writer

    def seal(self, writer: IndexWriter) -> None:
        """Put a full file that is on the disk in the place of its writer."""
        self.files[self.files.index(writer)] = IndexFile(self._disk, writer.path, self._sizes, writer.header)
        writer.close()

    def remove_from(self, name: str, why: str) -> None:
        """Remove a file and those after it, the last one first: no gap comes to be. May run on another thread.

        Raises:
            OSError: the disk does not let it; once more, and those that are left follow.
        """
        while self.files and self.files[-1].path.name >= name:
            file = self.files[-1]
            self._disk.remove(file.path)
            self.files.pop()
            file.close()
            level = logging.INFO if why == _UNFINISHED else logging.WARNING
            log.log(level, "the index file %s is rebuilt from the log: %s", file.path, why)

    def expired(self, log_min: int) -> IndexFile | None:
        """Take out the oldest file, when all of its messages are gone; the last one stays. Its file is the caller's."""
        if len(self.files) < 2 or self.files[0].header.end_offset >= log_min:
            return None
        return None if isinstance(self.files[0], IndexWriter) else self.files.pop(0)

    def close(self) -> None:
        """Close every file."""
        for file in self.files:
            file.close()
