"""A rate limit of requests, as a token bucket. Pure: time comes in as an argument."""

from __future__ import annotations


class RateLimit:
    """Fills by `rate` requests per second, up to one second's worth: that is the burst that it lets pass.

    It goes below zero, because a read is served whole: the debt is paid by a pause before the next read.
    """

    __slots__ = ("_filled_at", "_left", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._left = float(rate)
        self._filled_at = 0.0

    def spend(self, count: int, now: float) -> float:
        """Count `count` requests at `now` (seconds); return the pause in seconds before the next read, 0 for none."""
        self._left = min(float(self._rate), self._left + (now - self._filled_at) * self._rate) - count
        self._filled_at = now
        return max(0.0, -self._left / self._rate)
