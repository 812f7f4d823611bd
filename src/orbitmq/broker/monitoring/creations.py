"""Histograms of the time it took to make topics and groups that administrators asked for, by how it ended.

Source: Java AdminBrokerProcessor (updateAndCreateTopic, updateAndCreateSubscriptionGroup), BrokerMetricsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orbitmq.clock import Clock
from orbitmq.process.histogram import Histograms

BOUNDS_MS = (10.0, 100.0, 1_000.0, 3_000.0, 5_000.0)
_ENDS = 2
SUCCESS, FAILURE = "success", "failure"


class CreationTimes:
    """Times of what made or changed topics, or groups: one histogram for each way to end.

    Args:
        monotonic: tells the time in ms.
    """

    def __init__(self, monotonic: Clock) -> None:
        self.times_ms: Histograms[str] = Histograms(BOUNDS_MS, _ENDS)
        """By how it ended, `success` or `failure`."""
        self._monotonic = monotonic

    @contextmanager
    def measure(self) -> Iterator[Callable[[], None]]:
        """Begin to make something; yields what is called when it is made, which may be later. An exception is a failure."""
        began_ms = self._monotonic()
        try:
            yield lambda: self._note(SUCCESS, began_ms)
        except BaseException:
            self._note(FAILURE, began_ms)
            raise

    def _note(self, end: str, began_ms: int) -> None:
        self.times_ms.observe(end, self._monotonic() - began_ms)
