"""Budgets of memory that a server's connections share: for unfinished frames, and for answers not yet read. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

COUNTED_SIZE_MIN = 4 * 1024
"""Bytes from which on an unfinished frame counts: most are the rest of one read."""
_ADDRESS_SHARE = 0.75


class PartialFrames:
    """The bytes of all unfinished frames of one server, within one budget.

    A frame may have 16 MiB, and its sender 30 s: a hundred connections that never finish theirs would hold gigabytes. So
    all of them share a budget, of which one address has only a part. Where it would be more, the frame that began first
    ends with its connection: an honest one is whole within a second.

    Args:
        size_max: bytes of all of them; 0: no limit.
    """

    def __init__(self, size_max: int) -> None:
        self.size = 0
        self._size_max = size_max
        # By connection number, in the order in which the frames began.
        self._frames: dict[int, tuple[int, str, Callable[[str], None]]] = {}
        self._size_by_ip: dict[str, int] = {}

    def note(self, connection_id: int, ip: str, size: int, abort: Callable[[str], None]) -> bool:
        """Count what has arrived of a connection's unfinished frame; 0 when there is none any more.

        Args:
            abort: ends the connection for a reason.

        Returns:
            True when the frame counts, and the end of it has to be told.
        """
        if not self._size_max:
            return False
        before, *_ = self._frames.get(connection_id, (0,))
        if size < COUNTED_SIZE_MIN:
            self.forget(connection_id)
            return False
        self._frames[connection_id] = size, ip, abort
        self.size += size - before
        self._size_by_ip[ip] = self._size_by_ip.get(ip, 0) + size - before
        while self._size_by_ip.get(ip, 0) > self._size_max * _ADDRESS_SHARE:
            self._end_oldest(ip)
        while self.size > self._size_max:
            self._end_oldest(None)
        return connection_id in self._frames

    def forget(self, connection_id: int) -> None:
        """Give back what a connection's frame took."""
        size, ip, _ = self._frames.pop(connection_id, (0, "", None))
        self.size -= size
        left = self._size_by_ip.pop(ip, 0) - size
        if left > 0:
            self._size_by_ip[ip] = left

    def _end_oldest(self, ip: str | None) -> None:
        """End the frame that began first of those that are not small, of one address or of all."""
        frames = self._frames.items()
        found = [(key, size) for key, (size, whose, _) in frames if ip is None or whose == ip]
        average = sum(size for _, size in found) / len(found)
        oldest = next(key for key, size in found if size >= average / 2)
        *_, abort = self._frames[oldest]
        self.forget(oldest)
        abort("partial frames")


OVER_BUDGET_SHARE = 0.5
"""The part of the budget from which on large answers that can wait elsewhere are to wait there."""
_LOOKS_SHARE = 8
LARGE_SIZE = 64 * 1024
"""Bytes of a large answer."""


class _Reader(NamedTuple):
    """A connection whose peer has not read everything yet, as it was at the last check."""

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
        # By connection number; peers that read something since the last check stand behind those that did not.
        self._readers: dict[int, _Reader] = {}

    @property
    def is_over_budget(self) -> bool:
        """Return True if large answers had better wait."""
        if not self._size_max or self.size <= self._size_max * OVER_BUDGET_SHARE:
            return False
        self._looks += 1
        # Not at every look: many ask, while many read.
        if self._looks * _LOOKS_SHARE >= len(self._readers):
            self._looks = 0
            self._measure()
        return self.size > self._size_max * OVER_BUDGET_SHARE

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
        """End the one that has read nothing for the longest, of those with much to read."""
        average = self.size / len(self._readers)
        oldest = next(key for key, reader in self._readers.items() if reader.size >= average / 2)
        reader = self._readers[oldest]
        self.forget(oldest)
        reader.abort("waiting answers")
