"""Changes too large for one turn of the event loop, registrations most of them: done in slices, oldest first. Pure.

What concerns one broker takes effect in the order in which it came: whatever comes while an earlier change of the same
broker is unfinished waits for that. So everything happens as if each change had been made whole when it was answered, and
a client that asks meanwhile gets each topic's queues on that broker as they were before or as they are after.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.wire.slices import Slices

QUEUE_SIZE_MAX = 256 * 1024 * 1024
"""Bytes of bodies that wait; beyond, the server answers that it is busy, and brokers ask again."""
JOB_SIZE_MIN = 64 * 1024
"""The least that a change counts for: a small one that waits holds more memory than its body."""

Concerns = frozenset[Hashable]
"""What a change may touch: broker names."""
EVERYTHING: Concerns = frozenset([object()])
"""The concerns of a change that waits for all before it, and that all behind it wait for."""


class PendingChange(NamedTuple):
    """A change that waits, or is being made.

    `connection_id` is the connection that it came through, `body_size` is in bytes, and `slices` do everything that is
    left to do, the answer included.
    """

    connection_id: int
    body_size: int
    concerns: Concerns
    slices: Slices[None]

    @property
    def size(self) -> int:
        """The bytes that the job counts for."""
        return max(self.body_size, JOB_SIZE_MIN)


class RegistrationQueue:
    """The changes that are unfinished.

    `jobs` are these changes, oldest first; not to be changed by others.

    Args:
        on_begin: is called when there is work again: call `step` from then on, once per turn of the event loop, until it
            returns False.
    """

    def __init__(self, on_begin: Callable[[], None] = lambda: None, size_max: int = QUEUE_SIZE_MAX) -> None:
        self._on_begin = on_begin
        self._size_max = size_max
        self._size = 0
        self.jobs: deque[PendingChange] = deque()
        self._concerned: Counter[Hashable] = Counter()
        self._is_awake = False

    def has_before(self, concerns: Concerns) -> bool:
        """Return True if an unfinished change concerns any of these."""
        concerned = self._concerned.keys()
        if concerns is EVERYTHING:
            return bool(self.jobs)
        return not (concerned.isdisjoint(concerns) and concerned.isdisjoint(EVERYTHING))

    def concerns_from(self, connection_id: int) -> Concerns:
        """Return what the unfinished changes concern that came through a connection."""
        return frozenset().union(*(job.concerns for job in self.jobs if job.connection_id == connection_id))

    def refuse_if_full(self) -> None:
        """Called before a change that may have to wait.

        Raises:
            Rejected: too many bytes wait already.
        """
        if self._size >= self._size_max:
            raise Rejected(ResponseCode.SYSTEM_BUSY, f"{self._size} bytes of registrations wait, try again later")

    def append(self, job: PendingChange) -> None:
        """Do a job later, after those that are unfinished."""
        self.jobs.append(job)
        self._concerned.update(job.concerns)
        self._size += job.size
        if not self._is_awake:
            self._is_awake = True
            self._on_begin()

    def step(self) -> bool:
        """Do the oldest change's next slice. False: nothing is left to do until `on_begin`."""
        if self.jobs:
            self._advance()
        self._is_awake = bool(self.jobs)
        return self._is_awake

    def _advance(self) -> None:
        """Do one slice of the oldest change."""
        job = self.jobs[0]
        try:
            next(job.slices)
        except StopIteration:
            self.jobs.popleft()
            self._size -= job.size
            for concern in job.concerns:
                self._concerned[concern] -= 1
                if not self._concerned[concern]:
                    del self._concerned[concern]
