"""Registrations too large for one turn of the event loop: worked off in slices, oldest first. Pure.

A broker's registrations take effect in the order in which they came: one that comes while another of the same broker is
unfinished waits for it. Whatever else changes the table finishes all of them first, in one go. So everything happens as if
each registration had been entered whole when it was answered, and a client that asks meanwhile gets each topic's queues on
that broker as they were before or as they are after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from orbitmq.wire.slices import Slices

QUEUE_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of bodies that wait; the oldest registration is finished in one go where it would be more."""
JOB_SIZE_MIN = 64 * 1024
"""The least that a registration counts for: a small one that waits holds more memory than its body."""

Concerns = frozenset[Hashable]
"""What a registration may change: its broker name."""


class Job(NamedTuple):
    """A registration that waits, or is being worked off.

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
    """The registrations that are unfinished, oldest first.

    Args:
        on_begin: is called when there is work again: call `step` from then on, once per turn of the event loop, until it
            returns False.
    """

    def __init__(self, on_begin: Callable[[], None] = lambda: None, size_max: int = QUEUE_SIZE_MAX) -> None:
        self._on_begin = on_begin
        self._size_max = size_max
        self._size = 0
        self._jobs: deque[Job] = deque()
        self._is_awake = False

    def __len__(self) -> int:
        return len(self._jobs)

    def has_before(self, concerns: Concerns) -> bool:
        """Tell whether an unfinished registration concerns any of these."""
        return any(not concerns.isdisjoint(job.concerns) for job in self._jobs)

    def has_from(self, connection_id: int) -> bool:
        """Tell whether an unfinished registration came through a connection."""
        return any(job.connection_id == connection_id for job in self._jobs)

    def append(self, job: Job) -> None:
        """Do a job later, after those that are unfinished."""
        self._jobs.append(job)
        self._size += job.size
        while self._size > self._size_max:
            self._finish_oldest()
        if not self._is_awake:
            self._is_awake = True
            self._on_begin()

    def step(self) -> bool:
        """Do the oldest registration's next slice. False: nothing is left to do until `on_begin`."""
        if self._jobs:
            self._advance()
        self._is_awake = bool(self._jobs)
        return self._is_awake

    def finish(self) -> None:
        """Do all that is left in one go."""
        while self._jobs:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        while not self._advance():
            pass

    def _advance(self) -> bool:
        """Do one slice of the oldest registration. True: that was its last one."""
        job = self._jobs[0]
        try:
            next(job.slices)
        except StopIteration:
            self._jobs.popleft()
            self._size -= job.size
            return True
        return False
