"""Limits of what peers may cost a server or pool, each with its name."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

from orbitmq.wire.frame import FRAME_SIZE_MAX

CONNECTIONS_MAX = 50_000
"""The default of `connectionsMax`, for every server."""
DESCRIPTORS_RESERVED = 512
"""File descriptors that connections of clients leave free: for files, probes, and connections of our own."""

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
        waiting_answers_max: bytes of answers that wait for their readers on all connections.
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
    waiting_answers_max: int = 0
    requests_per_second_max: int = 0
    backlog: int = 1024


DEFAULT_LIMITS = Limits()


def affordable_connections(wanted: int, descriptors: int, reserved: int = DESCRIPTORS_RESERVED) -> int:
    """Return how many connections to take, so that the process has descriptors left for its files; 0: any number.

    Where none are left, the system ends new connections before the server sees them, and nothing can be saved.

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


def tell_of_few_descriptors(wanted: int, taken: int, descriptors: int) -> list[str]:
    """Log that fewer connections are taken than the settings say.

    Returns:
        The warning, where the number was set; nothing where it is the default, or all are taken.
    """
    if taken == wanted:
        return []
    sentence = f"takes {taken} connections, not connectionsMax={wanted}: {descriptors} file descriptors"
    is_set = wanted != CONNECTIONS_MAX
    log.log(logging.WARNING if is_set else logging.INFO, "%s", sentence)
    return [sentence] if is_set else []
