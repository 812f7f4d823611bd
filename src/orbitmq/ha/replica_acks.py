"""Replica acknowledgements: the waiters that may be answered now that slaves have more, and what consumers may read. Pure.

State: waiters until enough slaves have the log up to a place. In: how far each slave is, and times. Out: waiters that may be
answered. All wait equally long, and none for less than the one before: the first is always the next.

Source: Java GroupTransferService. It counts connections, as this does: of two connections of one slave only one reports
what is new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto

from orbitmq.ha.master import ConfirmedRange


class ReplicaAckResult(Enum):
    """What came of waiting for slaves."""

    DONE = auto()
    LATE = auto()
    """They have not reported in time; they may have it all the same."""
    NO_SLAVE = auto()
    """Too few slaves follow, or they are too far behind to be waited for."""


Waiter = Callable[[ReplicaAckResult], None]


class ReplicaAcks:
    """The waiters for slaves, in the order of the log.

    Args:
        slave_count: how many slaves must have what is waited for, at least 1.
        timeout_ms: how long a waiter waits.
        gap_max: a slave that is further behind (bytes) is not waited for.
    """

    def __init__(self, slave_count: int, timeout_ms: int, gap_max: int) -> None:
        self._slave_count = slave_count
        self._timeout_ms = timeout_ms
        self._gap_max = gap_max
        self._waiting: deque[tuple[int, int, Waiter]] = deque()

    def __len__(self) -> int:
        """Count the waiters."""
        return len(self._waiting)

    def wait(
        self, end: int, confirmed: Sequence[ConfirmedRange], now_ms: int, waiter: Waiter
    ) -> ReplicaAckResult | None:
        """Queue `waiter` until enough slaves have the message that ends at `end`; None: it is called later.

        Args:
            confirmed: what each slave has.
        """
        if self._is_confirmed(end, confirmed):
            return ReplicaAckResult.DONE
        at = _reached(confirmed, self._slave_count)
        if end - at > self._gap_max or at < 0:
            return ReplicaAckResult.NO_SLAVE
        self._waiting.append((end, now_ms + self._timeout_ms, waiter))
        return None

    def advance(self, confirmed: Sequence[ConfirmedRange]) -> list[Waiter]:
        """Return the waiters for what enough slaves have now, in order."""
        at = _reached(confirmed, self._slave_count)
        ready: list[Waiter] = []
        left: list[tuple[int, int, Waiter]] = []
        while self._waiting and self._waiting[0][0] <= at:
            waiting = self._waiting.popleft()
            if self._is_confirmed(waiting[0], confirmed):
                ready.append(waiting[2])
            else:
                left.append(waiting)  # for what was stored before the slave came: until their time is over
        self._waiting.extendleft(reversed(left))
        return ready

    def expire(self, now_ms: int) -> list[Waiter]:
        """Return the waiters whose time is over, in order."""
        late = []
        while self._waiting and self._waiting[0][1] <= now_ms:
            late.append(self._waiting.popleft()[2])
        return late

    def abandon(self) -> list[Waiter]:
        """Return all waiters, in order: no slave will report any more."""
        return [self._waiting.popleft()[2] for _ in range(len(self._waiting))]

    def _is_confirmed(self, end: int, confirmed: Sequence[ConfirmedRange]) -> bool:
        return sum([known.start < end <= known.end for known in confirmed]) >= self._slave_count


class ReplicatedEnd:
    """Up to where enough slaves have the log, or are waited for no more: so far consumers may read.

    What they read earlier could be missing on the slave that is made the master next. What no slave has in time its sender was
    told (11, 12): a master without slaves goes on alone.

    Args:
        end: of the log at the start; no send waits for what a start finds.
        slave_count, timeout_ms, gap_max: as `ReplicaAcks`.
    """

    def __init__(self, end: int, slave_count: int, timeout_ms: int, gap_max: int) -> None:
        self.end = end
        self._slave_count = slave_count
        self._timeout_ms = timeout_ms
        self._gap_max = gap_max
        self._log_end = end
        self._deadlines: deque[tuple[int, int]] = deque()
        """Ends of the log, each with the time when slaves are waited for no more; an earlier end's time counts first."""

    @property
    def is_waiting(self) -> bool:
        """Say whether there is more than consumers may read."""
        return bool(self._deadlines)

    def advance(self, log_end: int, confirmed: Sequence[ConfirmedRange], now_ms: int) -> int:
        """Return up to where consumers may read, `log_end` at most.

        Args:
            confirmed: what each slave has.
        """
        if log_end > self._log_end:
            self._log_end = log_end
            reached = _reached(confirmed, self._slave_count)
            is_hopeless = reached < 0 or log_end - reached > self._gap_max
            self._deadlines.append((log_end, now_ms if is_hopeless else now_ms + self._timeout_ms))
        before = -1
        while before != self.end:
            before = self.end
            # A slave counts from where it joined: what was stored before, it may have another history of.
            self.end = max(before, _reached([known for known in confirmed if known.start <= before], self._slave_count))
            while self._deadlines and (self._deadlines[0][0] <= self.end or self._deadlines[0][1] <= now_ms):
                self.end = max(self.end, self._deadlines.popleft()[0])
        return self.end


def _reached(confirmed: Sequence[ConfirmedRange], slave_count: int) -> int:
    """Return up to where so many slaves have the log, -1 where there are too few."""
    places = sorted([known.end for known in confirmed], reverse=True)
    return places[slave_count - 1] if len(places) >= slave_count else -1
