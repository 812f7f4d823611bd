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
from typing import NamedTuple

from orbitmq.ha.master import ConfirmedRange

_NO_END = 2**63 - 1


class ReplicaAckResult(Enum):
    """What came of waiting for slaves."""

    DONE = auto()
    LATE = auto()
    """They have not reported in time; they may have it all the same."""
    NO_SLAVE = auto()
    """Too few slaves follow, or they are too far behind to be waited for."""


Waiter = Callable[[ReplicaAckResult], None]


class SlaveCount(NamedTuple):
    """So many slaves must have a message, any of them; without them the master goes on alone."""

    slave_count: int

    @property
    def is_needed(self) -> bool:
        """Return True if nothing is acknowledged, or read, without them."""
        return False

    def end_of(self, confirmed: Sequence[ConfirmedRange]) -> int:
        """Return up to where enough slaves have the log, -1 where there are too few."""
        ends = sorted([known.end for known in confirmed], reverse=True)
        return ends[self.slave_count - 1] if len(ends) >= self.slave_count else -1


class SyncMembers(NamedTuple):
    """These slaves must have a message, each of them, and nothing is acknowledged or read without them.

    Args:
        is_enough: False: there have to be more of them first.
    """

    ids: frozenset[int]
    is_enough: bool = True

    @property
    def is_needed(self) -> bool:
        """Return True if nothing is acknowledged, or read, without them."""
        return True

    def end_of(self, confirmed: Sequence[ConfirmedRange]) -> int:
        """Return up to where all of them have the log, -1 where one does not follow; without members, without an end."""
        if not self.is_enough:
            return -1
        ends = {known.broker_id: known.end for known in sorted(confirmed, key=lambda known: known.end)}
        return min([ends.get(member, -1) for member in self.ids], default=_NO_END)


Quorum = SlaveCount | SyncMembers


class ReplicaAcks:
    """The waiters for slaves, in the order of the log.

    Args:
        quorum: the slaves that must have what is waited for.
        timeout_ms: how long a waiter waits.
        gap_max: a slave that is further behind (bytes) is not waited for, if it is not needed.
    """

    def __init__(self, quorum: Quorum, timeout_ms: int, gap_max: int) -> None:
        self.quorum = quorum
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
        at = self.quorum.end_of(confirmed)
        if not self.quorum.is_needed and (end - at > self._gap_max or at < 0):
            return ReplicaAckResult.NO_SLAVE
        self._waiting.append((end, now_ms + self._timeout_ms, waiter))
        return None

    def advance(self, confirmed: Sequence[ConfirmedRange]) -> list[Waiter]:
        """Return the waiters for what enough slaves have now, in order."""
        at = self.quorum.end_of(confirmed)
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
        return self.quorum.end_of([known for known in confirmed if known.start < end]) >= end


class ReplicatedEnd:
    """Up to where enough slaves have the log, or are waited for no more: so far consumers may read.

    What they read earlier could be missing on the slave that is made the master next. What no slave has in time its sender was
    told (11, 12): a master without slaves goes on alone.

    Args:
        end: of the log at the start; no send waits for what a start finds.
        quorum, timeout_ms, gap_max: as `ReplicaAcks`.
    """

    def __init__(self, end: int, quorum: Quorum, timeout_ms: int, gap_max: int) -> None:
        self.end = end
        self.quorum = quorum
        self._timeout_ms = timeout_ms
        self._gap_max = gap_max
        self._log_end = end
        self._deadlines: deque[tuple[int, int]] = deque()
        """Ends of the log, each with the time when slaves are waited for no more; an earlier end's time counts first."""

    @property
    def is_waiting(self) -> bool:
        """Return True if there is more than consumers may read, and time alone may change that."""
        return bool(self._deadlines)

    def advance(self, log_end: int, confirmed: Sequence[ConfirmedRange], now_ms: int) -> int:
        """Return up to where consumers may read, `log_end` at most.

        Args:
            confirmed: what each slave has.
        """
        if log_end > self._log_end and not self.quorum.is_needed:
            self._log_end = log_end
            reached = self.quorum.end_of(confirmed)
            is_hopeless = reached < 0 or log_end - reached > self._gap_max
            self._deadlines.append((log_end, now_ms if is_hopeless else now_ms + self._timeout_ms))
        before = -1
        while before != self.end:
            before = self.end
            # A slave counts from where it joined: what was stored before, it may have another history of.
            reached = self.quorum.end_of([known for known in confirmed if known.start <= before])
            self.end = max(before, min(reached, log_end))
            while self._deadlines and (self._deadlines[0][0] <= self.end or self._deadlines[0][1] <= now_ms):
                self.end = max(self.end, self._deadlines.popleft()[0])
        return self.end
