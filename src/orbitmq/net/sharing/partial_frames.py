"""The budget that the unfinished frames of a server share. Pure."""

from __future__ import annotations

from collections.abc import Callable

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
