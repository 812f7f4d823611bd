"""Fault tolerance: which brokers a producer avoids, and until when.

State: one entry per broker that was slow or failed. Latencies and the time come in, a set of names goes out. Pure.

Source: Java LatencyFaultToleranceImpl and MQFaultStrategy; the table is theirs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

LATENCY_MS = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
AVOID_MS = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
"""A send that took LATENCY_MS[i] or longer keeps its broker out for AVOID_MS[i]."""
FAILED_LATENCY_MS = 10_000
"""What a send counts for that got no usable answer."""


def avoidance_ms(latency_ms: int) -> int:
    """Return for how long a broker is avoided after a send that took `latency_ms`."""
    reached = bisect_right(LATENCY_MS, latency_ms)
    return AVOID_MS[reached - 1] if reached else 0


class FaultTolerance:
    """The brokers that are avoided now. Times are in ms of any one clock."""

    def __init__(self) -> None:
        self._avoided_until_ms: dict[str, int] = {}

    def record_answer(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """Take an answered send into account: a fast one ends the avoidance of its broker, a slow one begins it."""
        avoid_ms = avoidance_ms(latency_ms)
        if avoid_ms:
            self._avoided_until_ms[broker_name] = now_ms + avoid_ms
        elif self._avoided_until_ms:
            self._avoided_until_ms.pop(broker_name, None)

    def record_failure(self, broker_name: str, now_ms: int) -> None:
        """Take a send without usable answer into account."""
        self.record_answer(broker_name, FAILED_LATENCY_MS, now_ms)

    def avoided(self, now_ms: int) -> frozenset[str]:
        """Return the brokers to avoid now."""
        if not self._avoided_until_ms:
            return frozenset()
        return frozenset(name for name, until_ms in self._avoided_until_ms.items() if until_ms > now_ms)

    def soonest(self, broker_names: Iterable[str]) -> str:
        """Return the broker whose avoidance ends first: the one to choose when all are avoided."""
        return min(broker_names, key=lambda name: self._avoided_until_ms.get(name, 0))
