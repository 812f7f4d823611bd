"""Counters of the broker's work, and the rates that administrators ask for.

Hot paths add to plain integers; `sample` is called once a second and remembers enough to tell the rates of the last
ten seconds, minute and ten minutes. Pure: time is an argument.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOWS_MS = (10_000, 60_000, 600_000)
_SAMPLES_MAX = 601
_DAY_MS = 86_400_000


class Totals(NamedTuple):
    """What happened since the start."""

    put_count: int
    put_size: int
    get_count: int
    get_size: int
    found_count: int
    miss_count: int


class BrokerStats:
    """What the broker did so far."""

    __slots__ = (
        "_day",
        "_morning",
        "_samples",
        "_yesterday",
        "fast_failure_count",
        "found_count",
        "get_count",
        "get_size",
        "miss_count",
        "put_count",
        "put_size",
        "started_at_ms",
    )

    def __init__(self, now_ms: int) -> None:
        self.started_at_ms = now_ms
        self.put_count = 0
        """Messages stored."""
        self.put_size = 0
        """Bytes of their records."""
        self.get_count = 0
        """Messages given to consumers."""
        self.get_size = 0
        self.found_count = 0
        """Pulls that found something."""
        self.miss_count = 0
        self.fast_failure_count = 0
        """Sends that were refused because they had waited too long for their turn."""
        self._samples: deque[tuple[int, Totals]] = deque(maxlen=_SAMPLES_MAX)
        self._day = now_ms // _DAY_MS
        self._morning = self._yesterday = self.totals
        self.sample(now_ms)

    @property
    def totals(self) -> Totals:
        """The counters now."""
        return Totals(self.put_count, self.put_size, self.get_count, self.get_size, self.found_count, self.miss_count)

    @property
    def this_morning(self) -> Totals:
        """The counters when this day (UTC) began, or at the start."""
        return self._morning

    @property
    def yesterday_morning(self) -> Totals:
        """The counters when the day before began, or at the start."""
        return self._yesterday

    def sample(self, now_ms: int) -> None:
        """Remember the counters; called once a second."""
        if now_ms // _DAY_MS != self._day:
            self._day = now_ms // _DAY_MS
            self._yesterday, self._morning = self._morning, self.totals
        self._samples.append((now_ms, self.totals))

    def rates(self, field: str, now_ms: int) -> tuple[float, ...]:
        """Return the change per second of one counter over each of WINDOWS_MS."""
        return tuple(self._rate(field, window_ms, now_ms) for window_ms in WINDOWS_MS)

    def _rate(self, field: str, window_ms: int, now_ms: int) -> float:
        taken_at_ms, totals = next(
            (sample for sample in self._samples if sample[0] >= now_ms - window_ms), self._samples[-1]
        )
        elapsed_ms = now_ms - taken_at_ms
        grown: int = getattr(self.totals, field) - getattr(totals, field)
        return grown * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0
