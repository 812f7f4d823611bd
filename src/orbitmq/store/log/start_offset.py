"""The file `begin`: the CommitLog's first byte, as far as the broker itself has moved it.

Its number is on the disk before the files in front of it are removed. Where the log begins later than that, another program
has removed files, and the start says so.
"""

from __future__ import annotations

from pathlib import Path

from orbitmq.store.disk import Disk, write_whole

_DIGITS_MAX = 20
"""Python refuses to read a number of many thousand digits, which a damaged file may hold."""


class LogStartOffset:
    """The file, by its path, read when this is made."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._known = parse_start_offset(disk.read(path))

    def missing_before(self, log_min: int) -> int:
        """Return how many bytes before the log's first one are missing; 0 as well when unknown."""
        return 0 if self._known is None else max(log_min - self._known, 0)

    def note(self, log_min: int) -> None:
        """Take note that the log begins there, or is about to. Raises OSError; nothing is noted then."""
        if log_min == self._known:
            return
        write_whole(self._disk, self._path, b"%d\n" % log_min)
        self._known = log_min


def parse_start_offset(content: bytes) -> int | None:
    """Return the number; None for a file that is missing or damaged."""
    text = content.decode("latin-1").removesuffix("\n")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else None
