"""Limits of a connection with their names, and the counters that say how often they were met."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from orbitmq.process_stats import Histogram
from orbitmq.wire.frame import FRAME_SIZE_MAX

SERVICE_BOUNDS_S = (25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a peer may ask of a server or pool. A limit of 0 means: none.

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


@dataclass(slots=True)
class Counters:
    """Plain integers that only ever grow; whoever exports metrics reads them at scrape time."""

    connections_opened: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    connections_encrypted: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    throttled: int = 0
    unsupported_requests: int = 0
    failed_requests: int = 0
    unmatched_answers: int = 0
    requests: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Requests by request code; codes without a handler are in `unsupported_requests` instead."""
    refusals: defaultdict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """Answers other than SUCCESS, by request code and response code."""
    service_s: Histogram = field(default_factory=lambda: Histogram(SERVICE_BOUNDS_S))
    """Seconds from the arrival of bytes until their answers were written; one read in sixteen is timed."""
    closed_by_us: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Connections that we ended, by reason: idle, frame deadline, write stall, bad frame, a foreign protocol ..."""


def is_worth_a_line(count: int) -> bool:
    """Tell whether the `count`-th event that peers can cause at will goes to the log: the first ten, and powers of two."""
    return count <= 10 or count & (count - 1) == 0
