"""The timer of a connection's pending requests: one for all, set to the earliest deadline."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from orbitmq.net.session import Pending, Session

_NEVER_MS = sys.maxsize


class RequestTimers:
    """Takes the requests whose time is over from a session, and hands them on.

    Deadlines of answered requests stay in the timer: it then fires for nothing and is set again, which costs less than to
    set it at every answer.

    Args:
        on_expired: gets the requests that will have no answer; their waiters are its to tell.
    """

    __slots__ = ("_loop", "_on_expired", "_session", "_timer", "due_ms")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, session: Session, on_expired: Callable[[list[Pending]], None]
    ) -> None:
        self._loop = loop
        self._session = session
        self._on_expired = on_expired
        self._timer: asyncio.TimerHandle | None = None
        self.due_ms = _NEVER_MS
        """When the timer fires, by the loop's clock; later than any deadline while it is not set."""

    def arm(self, deadline_ms: int) -> None:
        """Set the timer to a deadline that is earlier than `due_ms`."""
        self.cancel()
        self.due_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1000, self._expire)

    def cancel(self) -> None:
        """Let the timer fire no more."""
        self.due_ms = _NEVER_MS
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.cancel()
        # A millisecond more: loops round their timers, and a deadline must not be looked at twice.
        expired = self._session.expire(int(self._loop.time() * 1000) + 1)
        self._on_expired(expired)
        deadline_ms = self._session.next_deadline_ms
        if deadline_ms is not None and deadline_ms < self.due_ms:  # a waiter may have sent, and armed, already
            self.arm(deadline_ms)
