"""Group commit: the waiters that may be answered now. Pure."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

Waiter = Callable[[bool | None], None]
"""Told True when the bytes are durable, False when they will not be, None when unknown: the time-out came first."""


class Durability:
    """How much of the CommitLog is on the disk, and the waiters for more."""

    def __init__(self, durable: int = 0) -> None:
        self.durable = durable
        """Everything before this position (bytes) survives a power cut."""
        self.is_fenced = False
        """A sync failed: nothing becomes durable any more."""
        self._waiting: list[tuple[int, int, Waiter]] = []
        self._arrival = count()

    def __len__(self) -> int:
        """Count the waiters."""
        return len(self._waiting)

    def wait(self, position: int, waiter: Waiter) -> bool:
        """Queue `waiter` until `position` (bytes) is durable. True: it already is."""
        assert not self.is_fenced, "no sync comes back to answer"
        if position <= self.durable:
            return True
        heappush(self._waiting, (position, next(self._arrival), waiter))
        return False

    def advance(self, position: int) -> list[Waiter]:
        """Take note that the disk is safe up to `position`; return the waiters that may be answered now, in order."""
        assert position >= self.durable, "durability never goes back"
        assert not self.is_fenced, "after a failed sync, a later success proves nothing"
        self.durable = position
        ready = []
        while self._waiting and self._waiting[0][0] <= position:
            ready.append(heappop(self._waiting)[2])
        return ready

    @property
    def arrived_count(self) -> int:
        """A number that is larger for every check after a new waiter."""
        return next(self._arrival)

    def expire(self, arrived_before: int) -> list[Waiter]:
        """Return the waiters from before then, by an earlier `arrived_count`, that still wait."""
        late = sorted(entry for entry in self._waiting if entry[1] < arrived_before)
        if late:
            self._waiting = [entry for entry in self._waiting if entry[1] >= arrived_before]
            heapify(self._waiting)
        return [waiter for _, _, waiter in late]

    def abandon(self) -> list[Waiter]:
        """Return all waiters, in order: no sync is going to happen for them."""
        return [heappop(self._waiting)[2] for _ in range(len(self._waiting))]

    def fail(self) -> list[Waiter]:
        """Take note that a sync failed; return the waiters that waited for nothing.

        Linux reports a lost write once and forgets: a later sync that succeeds is not trusted (apache/rocketmq#2706).
        """
        self.is_fenced = True
        return self.abandon()
