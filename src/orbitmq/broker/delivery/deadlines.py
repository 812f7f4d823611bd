"""Deadlines of delayed messages, counted on a monotonic clock. Pure.

State: per level, up to which message the queue had grown at which moment. In: the queue's end, the monotonic clock. Out:
whether a message has waited long enough. Times of the wall clock are asked only for what an earlier run left behind: within a run
the wall clock may be set ahead and back, and no message waits longer or shorter for it.
"""

from __future__ import annotations

from collections import deque

GRAIN_PARTS = 3_600
"""Arrivals are told apart by this part of their level's delay, two hours by two seconds: what is remembered is bounded."""


class Deadlines:
    """When the messages of one level are due.

    Args:
        delay_ms: the level's.
        left_end: the queue offset up to which an earlier run left messages.
        now_ms: the monotonic clock at the start.
    """

    def __init__(self, delay_ms: int, left_end: int, *, now_ms: int) -> None:
        self._delay_ms = delay_ms
        self._left_end = left_end
        # What was left waits no longer than a new message would, however far ahead its time is.
        self._arrivals = deque([(left_end, now_ms)])
        self._noted_end = left_end
        self._noted_ms = now_ms - delay_ms
        self._due_end = 0

    def note(self, end: int, now_ms: int) -> None:
        """Note that the queue ends at `end` now."""
        if end > self._noted_end and now_ms >= self._noted_ms + self._delay_ms // GRAIN_PARTS:
            self._arrivals.append((end, now_ms))
            self._noted_end, self._noted_ms = end, now_ms

    def may_be_due(self, queue_offset: int, now_ms: int) -> bool:
        """Tell before the message is read whether it can have waited long enough."""
        return self.was_left(queue_offset) or self.has_waited(queue_offset, now_ms)

    def was_left(self, queue_offset: int) -> bool:
        """Return True if an earlier run left a message: then it may be due before it `has_waited` in this one."""
        return queue_offset < self._left_end

    def has_waited(self, queue_offset: int, now_ms: int) -> bool:
        """Return True if a message has waited for its level's delay in this run."""
        return queue_offset < self._due_until(now_ms)

    def _due_until(self, now_ms: int) -> int:
        arrivals = self._arrivals
        while arrivals and arrivals[0][1] + self._delay_ms <= now_ms:
            self._due_end = arrivals.popleft()[0]
        return self._due_end
