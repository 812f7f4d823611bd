"""Counters of one server or pool, as plain integers that metrics are made from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from orbitmq.process.histogram import Histogram

SERVICE_BOUNDS_S = (25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(slots=True)
class Counters:
    """Integers that only grow: counting costs an addition, and metrics are made from them at a scrape."""

    connections_opened: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    connections_refused_by_address: int = 0
    """Those of them whose address had too many open."""
    connections_encrypted: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    throttled: int = 0
    unsupported_requests: int = 0
    failed_requests: int = 0
    oversized_requests: int = 0
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
    """Return True if the `count`-th event that peers can cause at will goes to the log: the first ten, and powers of two."""
    return count <= 10 or count & (count - 1) == 0
