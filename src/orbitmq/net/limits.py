"""Limits of what one peer may cost a server or pool, each with its name."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.wire.frame import FRAME_SIZE_MAX


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
    requests_per_second_max: int = 0
    backlog: int = 1024


DEFAULT_LIMITS = Limits()
