"""The pace of a job that sends messages: never faster than a rate, in small portions. Pure."""

from __future__ import annotations

PORTION_MAX = 500
"""Messages that are sent at a time: enough for requests that are worth their way."""
_PORTIONS_PER_S = 10


class Pace:
    """Says when the next portion may be sent; what was late is not caught up with.

    Args:
        rate: messages in a second, at least 1.
    """

    def __init__(self, rate: int) -> None:
        self.portion = max(1, min(PORTION_MAX, rate // _PORTIONS_PER_S))
        self._rate = rate
        self._free_at_s = 0.0

    def wait_s(self, count: int, now_s: float) -> float:
        """Note that messages are sent as soon as they may be; return how long that still is, in seconds."""
        begin_s = max(now_s, self._free_at_s)
        self._free_at_s = begin_s + count / self._rate
        return begin_s - now_s
