"""Fault avoidance: which brokers a producer keeps away from, and until when.

Owns one entry per broker that was slow or failed. Latencies and the time come in, a set of names goes out. Pure.

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
    place = bisect_right(LATENCY_MS, latency_ms)
    return AVOID_MS[place - 1] if place else 0


class Latencies:
    """Remembers which brokers to avoid."""

    def __init__(self) -> None:
        self._avoided_until_ms: dict[str, int] = {}

    def answered(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """Note a send that was answered: a fast one clears the broker's name, a slow one sullies it."""
        avoid_ms = avoidance_ms(latency_ms)
        if avoid_ms:
            self._avoided_until_ms[broker_name] = now_ms + avoid_ms
        elif self._avoided_until_ms:
            self._avoided_until_ms.pop(broker_name, None)

    def failed(self, broker_name: str, now_ms: int) -> None:
        """Note a send that got no usable answer."""
        self.answered(broker_name, FAILED_LATENCY_MS, now_ms)

    def avoided(self, now_ms: int) -> frozenset[str]:
        """Return the brokers to keep away from now."""
        if not self._avoided_until_ms:
            return frozenset()
        return frozenset(name for name, until_ms in self._avoided_until_ms.items() if until_ms > now_ms)

    def soonest(self, broker_names: Iterable[str]) -> str:
        """Return the broker whose avoidance ends first: the one to take when all are avoided."""
        return min(broker_names, key=lambda name: self._avoided_until_ms.get(name, 0))
