"""Limits of what peers may cost a server or pool, each with its name, and the budget that unfinished frames share."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.wire.frame import FRAME_SIZE_MAX

COUNTED_SIZE_MIN = 4 * 1024
"""Bytes from which on an unfinished frame counts: most are the rest of one read."""
CONNECTIONS_MAX = 50_000
"""The default of `connectionsMax`, for every server."""
DESCRIPTORS_RESERVED = 512
"""File descriptors that connections of clients leave free: for files, probes, and connections of our own."""
_ADDRESS_SHARE = 0.75

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that a server or pool sets to each peer. 0 means: no limit.

    Args:
        frame_size_max: bytes of one frame without its length prefix.
        frame_ms: a frame that began to arrive must be whole after this long.
        idle_ms: a connection without a byte either way is closed after this long, at most an eighth later.
        write_pause_size: bytes waiting for a slow reader from which on nothing is read from it any more.
        write_buffer_max: bytes waiting for a slow reader from which on it is disconnected.
        write_stall_ms: a peer that keeps us from writing for this long is disconnected.
        connections_max: open connections.
        connections_per_address_max: open connections from one IP address.
        partial_frames_max: bytes of the unfinished frames of all connections.
        requests_per_second_max: requests per second on one connection, with a burst of one second.
        backlog: connections that the kernel accepts ahead of us.
    """

    frame_size_max: int = FRAME_SIZE_MAX
    frame_ms: int = 30_000
    idle_ms: int = 120_000
    write_pause_size: int = 1024 * 1024
    write_buffer_max: int = 64 * 1024 * 1024
    write_stall_ms: int = 60_000
    connections_max: int = 0
    connections_per_address_max: int = 0
    partial_frames_max: int = 0
    requests_per_second_max: int = 0
    backlog: int = 1024


DEFAULT_LIMITS = Limits()


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


def affordable_connections(wanted: int, descriptors: int, reserved: int = DESCRIPTORS_RESERVED) -> int:
    """Return how many connections to take, so that the process has descriptors left for its files; 0: any number.

    Where none are left, the system ends new connections before anybody sees them, and nothing can be saved.

    Args:
        descriptors: how many files and connections the process may have open; 0: any number.
        reserved: how many of them are kept for other uses; half at most.
    """
    if not descriptors:
        return wanted
    affordable = max(descriptors - reserved, descriptors // 2)
    return min(wanted, affordable) if wanted else affordable


def descriptor_limit() -> int:
    """Return how many files and connections this process may have open; 0: any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


def tell_of_few_descriptors(wanted: int, taken: int, descriptors: int) -> None:
    """Log that fewer connections are taken than the settings say; a warning where somebody has set the number."""
    if taken != wanted:
        level = logging.INFO if wanted == CONNECTIONS_MAX else logging.WARNING
        log.log(level, "takes %d connections, not connectionsMax=%d: %d file descriptors", taken, wanted, descriptors)
