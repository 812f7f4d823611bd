"""The file of a table that is written by the event loop and by a thread: an older content never replaces a newer one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from threading import Lock

from orbitmq.files import replace_file


class TableFile:
    """A small file that is replaced whole, by the holder of the latest ticket for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = Lock()
        self.written = 0
        """The number of the ticket whose content the file has; 0: an earlier run's."""
        self._numbers = count(1)

    def ticket(self, content: Callable[[], bytes | Iterable[bytes]]) -> Ticket:
        """Return the right to write this content, unless a later one is written first. To be called on the loop.

        Args:
            content: encodes it part by part, on the thread that writes it.
        """
        return Ticket(self, next(self._numbers), content)


class Ticket:
    """A content on its way to its file."""

    def __init__(self, file: TableFile, number: int, content: Callable[[], bytes | Iterable[bytes]]) -> None:
        self._file = file
        self._number = number
        self._content = content

    @property
    def is_in_file(self) -> bool:
        """Return True if the file has this content, and no later one."""
        return self._file.written == self._number

    def write(self) -> None:
        """Write the content durably, on any thread; nothing when the file has a later one. Raises OSError."""
        file = self._file
        with file.lock:
            if file.written < self._number:
                replace_file(file.path, self._content())
                file.written = self._number
