"""The budget that answers share which wait for their readers. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

CROWDED_SHARE = 0.5
"""The part of the budget from which on large answers that can wait elsewhere are to wait there."""
_LOOKS_SHARE = 8
LARGE_SIZE = 64 * 1024
"""Bytes of a large answer."""


class _Reader(NamedTuple):
    """A connection whose peer has not read everything yet, as it was when somebody looked."""

    size: int
    measure: Callable[[], int]
    abort: Callable[[str], None]


class WaitingAnswers:
    """The bytes of answers that wait in the transports of all connections of one server, within one budget.

    A peer that does not read costs what it was answered until then, and there may be any number of such peers. So all of
    them share a budget. Where it would be more, the one ends that has read nothing for the longest, small ones spared. What
    an honest client reads needs no call: it is measured again when the budget seems to be used up.

    Args:
        size_max: bytes of all of them; 0: no limit.
    """

    def __init__(self, size_max: int) -> None:
        self.size = 0
        """Bytes that wait, as far as it was looked: a part of them may have been read since."""
        self._size_max = size_max
        self._looks = 0
        # By connection number; whoever read something since the last look stands behind those who did not.
        self._readers: dict[int, _Reader] = {}

    @property
    def is_crowded(self) -> bool:
        """Tell whether large answers had better wait."""
        if not self._size_max or self.size <= self._size_max * CROWDED_SHARE:
            return False
        self._looks += 1
        # Not at every look: many ask, while many read.
        if self._looks * _LOOKS_SHARE >= len(self._readers):
            self._looks = 0
            self._measure()
        return self.size > self._size_max * CROWDED_SHARE

    def note(self, connection_id: int, measure: Callable[[], int], abort: Callable[[str], None]) -> None:
        """Count what a connection's transport has not written, after something was added to it.

        Args:
            measure: tells how much that is at any moment, in bytes.
            abort: ends the connection for a reason.
        """
        if not self._size_max:
            return
        size = measure()
        before = self._readers.get(connection_id)
        self._readers[connection_id] = _Reader(size, measure, abort)
        self.size += size - (before.size if before is not None else 0)
        if self.size > self._size_max:
            self._measure()
            while self.size > self._size_max:
                self._end_oldest()

    def forget(self, connection_id: int) -> None:
        """Give back what a connection's answers took."""
        reader = self._readers.pop(connection_id, None)
        if reader is not None:
            self.size -= reader.size

    def _measure(self) -> None:
        for connection_id, reader in list(self._readers.items()):
            size = reader.measure()
            if size < reader.size:
                self.forget(connection_id)
                if size:
                    self._readers[connection_id] = reader._replace(size=size)
                    self.size += size

    def _end_oldest(self) -> None:
        """End the one that has read nothing for the longest, of those for whom not little waits."""
        average = self.size / len(self._readers)
        oldest = next(key for key, reader in self._readers.items() if reader.size >= average / 2)
        reader = self._readers[oldest]
        self.forget(oldest)
        reader.abort("waiting answers")
