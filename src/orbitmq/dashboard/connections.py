"""Connections of browsers, within limits of time and number: uvicorn's protocol has none for heads, bodies and slow readers.

Of one address, or of all, too many connections end the oldest that has no request under way; without such a one the new connection ends.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from orbitmq.net.limits import descriptor_limit

HEAD_S = 10.0
"""The head of a request must be whole so long after the connection, or after the last answer."""
BODY_S = 30.0
"""The body must be whole so long after the head."""
IDLE_S = 5
"""A connection without a request is closed so long after its last answer."""
WRITE_STALL_S = 30.0
"""A client that reads nothing of an answer for so long is disconnected."""
CONNECTIONS_MAX = 256
_DESCRIPTORS_SHARE = 4
"""They take this part of the process's file descriptors at most: the others belong to connections to the cluster."""


def connections_max() -> int:
    """Return how many connections may be open; half as many from one address."""
    descriptors = descriptor_limit()
    return min(CONNECTIONS_MAX, max(2, descriptors // _DESCRIPTORS_SHARE)) if descriptors else CONNECTIONS_MAX


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 on one connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._phase: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._began_s = self.loop.time()

    @property
    def is_answering(self) -> bool:
        """True while a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or end one."""
        super().connection_made(transport)
        self._watch()
        count_max = connections_max()
        all_of_them = [other for other in self.connections if isinstance(other, LimitedProtocol)]
        same = [other for other in all_of_them if (other.client or "?")[0] == (self.client or "?")[0]]
        for found, limit in ((same, count_max // 2), (all_of_them, count_max)):
            if len(found) > limit:
                idle = [other for other in found if other is not self and not other.is_answering]
                min(idle, key=lambda other: other._began_s, default=self)._drop()
                return

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Begin the time that a slow reader has."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(WRITE_STALL_S, self._drop)

    def resume_writing(self) -> None:
        """End the time that a slow reader has."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End all timers."""
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Set the deadline of what the client has to send next."""
        state = self.conn.their_state
        if state is self._phase:
            return
        self._phase = state
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_S if state is h11.IDLE else BODY_S, self._drop)

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()
