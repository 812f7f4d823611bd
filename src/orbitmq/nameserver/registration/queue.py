"""Registrations too large for one turn of the event loop: worked off in slices, oldest first. Pure.

A broker's registrations take effect in the order in which they came: one that comes while another of the same broker is
unfinished waits for it. Whatever else changes the table finishes all of them first, in one go (`Registry.changing`). So
everything happens as if each registration had been taken in whole when it was answered, and a client that asks meanwhile
gets each topic's queues on that broker as they were before or as they are after.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from typing import Literal, NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import OrbitError, Rejected
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.wire.headers import RegisterBroker
from orbitmq.wire.slices import Slices

log = logging.getLogger(__name__)

UNFINISHED_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of bodies that wait; the oldest registration is finished in one go where it would be more."""
JOB_SIZE_MIN = 64 * 1024
"""Bytes that a small registration counts for which waits behind a large one."""

Concerns = frozenset[Hashable]
"""The broker process (its key) and the broker names that a registration changes something about."""


class _Job(NamedTuple):
    call: Call[RegisterBroker]
    concerns: Concerns
    slices: Slices[Reply]

    @property
    def size(self) -> int:
        return max(len(self.call.command.body), JOB_SIZE_MIN)


class Unfinished:
    """The registrations that are being taken in.

    `on_begin` is called when there is work again: call `step` from then on, once per turn, until it returns False.
    """

    def __init__(self, size_max: int = UNFINISHED_SIZE_MAX) -> None:
        self.on_begin: Callable[[], None] = lambda: None
        self._size_max = size_max
        self._size = 0
        self._jobs: deque[_Job] = deque()
        self._is_awake = False

    def __len__(self) -> int:
        return len(self._jobs)

    def is_before(self, concerns: Concerns) -> bool:
        """Tell whether a registration is unfinished that concerns one of the same."""
        return any(not concerns.isdisjoint(job.concerns) for job in self._jobs)

    def is_from(self, connection_id: int) -> bool:
        """Tell whether a registration that came through a connection is unfinished."""
        return any(job.call.connection.id == connection_id for job in self._jobs)

    def take(
        self, call: Call[RegisterBroker], concerns: Concerns, slices: Slices[Reply]
    ) -> Reply | Literal[Later.LATER]:
        """Do a registration's first slice; return its answer if that was all."""
        try:
            next(slices)
        except StopIteration as end:
            reply: Reply = end.value
            return reply
        return self.append(call, concerns, slices)

    def append(self, call: Call[RegisterBroker], concerns: Concerns, slices: Slices[Reply]) -> Literal[Later.LATER]:
        """Do a registration later, behind those that are unfinished."""
        job = _Job(call, concerns, slices)
        self._jobs.append(job)
        self._size += job.size
        while self._size > self._size_max:
            self._finish_oldest()
        if not self._is_awake:
            self._is_awake = True
            self.on_begin()
        return LATER

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
        """Do one slice of the oldest registration. True: that was its last one, and it is answered."""
        job = self._jobs[0]
        try:
            next(job.slices)
        except StopIteration as end:
            reply = end.value
        except Rejected as refusal:
            reply = Reply(refusal.code, refusal.remark)
        except OrbitError as error:
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:
            log.exception("the registration of %s failed", job.call.header.broker_name)
            reply = Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        else:
            return False
        self._jobs.popleft()
        self._size -= job.size
        job.call.answer(reply)
        return True
