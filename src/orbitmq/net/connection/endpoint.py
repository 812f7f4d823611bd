"""The shared side of all connections of one server or one pool: limits, counters, and the timeouts' clockwork."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from orbitmq.clock import Clock, now_ms
from orbitmq.net.connection.budgets import PartialFrames, WaitingAnswers
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Dispatcher
from orbitmq.net.dispatch.fast_path import FastPath
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.limits import DEFAULT_LIMITS, Limits
from orbitmq.net.time_slices import TimeSlices
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials, sign_command

log = logging.getLogger(__name__)

CLOSE_GRACE_MS = 1000
_TICKS_PER_LIMIT = 8
"""How often connections are looked at within the shortest time limit, which ends them an eighth of it late at most."""


class OpenConnection(Peer, Protocol):
    """What an endpoint asks of the connections that it has entered."""

    def close(self) -> None:
        """Write what waits, then close."""
        ...

    def kill(self) -> None:
        """Close immediately, whatever waits to be written."""
        ...

    def tick(self, elapsed_ms: int) -> None:
        """Close when a time limit is over; called regularly."""
        ...


class Endpoint:
    """Enters connections, within the limits, and ends them.

    Args:
        dispatcher: answers what peers ask.
        name: stands in log lines.
        fast_path: answers known frames before they are decoded.
        is_listener: True for a server, False for a pool.
        credentials: sign what is asked through these connections.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        name: str,
        counters: Counters,
        limits: Limits = DEFAULT_LIMITS,
        clock: Clock = now_ms,
        fast_path: FastPath | None = None,
        is_listener: bool = True,
        credentials: Credentials | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.name = name
        self.counters = counters
        self.limits = limits
        self.clock = clock
        self.answer_fast = fast_path.answer if fast_path is not None else None
        """The fast path's answers: one bound method for all connections."""
        self.is_listener = is_listener
        self.connections: dict[int, OpenConnection] = {}
        self.partial_frames = PartialFrames(limits.partial_frames_max)
        self.waiting_answers = WaitingAnswers(limits.waiting_answers_max)
        self.turns = TimeSlices()
        self.is_awaited = False
        """True while `wait_until` has to hear of each late answer that goes out."""
        self._credentials = credentials
        self._next_id = 0
        self._count_by_ip: dict[str, int] = {}
        self._lost_callbacks: list[Callable[[Peer], None]] = []
        self._named_foreigners: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()

    def on_connection_lost(self, callback: Callable[[Peer], None]) -> None:
        """Call `callback` with every connection that ends from now on."""
        self._lost_callbacks.append(callback)

    def signed(self, command: Command) -> Command:
        """Return a request as it leaves: signed, where there are credentials."""
        return sign_command(command, self._credentials)

    def admit(self, connection: OpenConnection, ip: str) -> str | None:
        """Enter a new connection; a text says which limit forbids it."""
        limits = self.limits
        if limits.connections_max and len(self.connections) >= limits.connections_max:
            return f"{limits.connections_max} connections are open"
        count = self._count_by_ip.get(ip, 0)
        if limits.connections_per_address_max and count >= limits.connections_per_address_max:
            self.counters.connections_refused_by_address += 1
            return f"{count} connections from {ip} are open"
        self._count_by_ip[ip] = count + 1
        self.connections[connection.id] = connection
        self.counters.connections_opened += 1
        return None

    def forget(self, connection: OpenConnection, ip: str) -> None:
        """Take out a connection that was entered, and call the listener."""
        if self.connections.pop(connection.id, None) is None:
            return
        self.partial_frames.forget(connection.id)
        self.waiting_answers.forget(connection.id)
        self.counters.connections_closed += 1
        self._count_by_ip[ip] -= 1
        if not self._count_by_ip[ip]:
            del self._count_by_ip[ip]
        for callback in self._lost_callbacks:
            callback(connection)
        self.note_change()

    def next_id(self) -> int:
        """Return a connection number that was not used before."""
        self._next_id += 1
        return self._next_id

    def name_foreigner(self, kind: str, remote: str) -> None:
        """Log once per kind that a peer speaks another protocol."""
        if kind not in self._named_foreigners:
            self._named_foreigners.add(kind)
            log.warning(
                "%s: %s sent %s to a RocketMQ port and was disconnected; more of the kind are only counted",
                self.name,
                remote,
                kind,
            )

    @property
    def pending_count(self) -> int:
        """Requests whose handlers answer later and have not yet."""
        return sum(connection.pending_count for connection in self.connections.values())

    def start_timeouts(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close idle, slow and stalled connections from now on."""
        if self._timer is None:
            self._arm(loop)

    async def close_connections(self, grace_ms: int = CLOSE_GRACE_MS) -> None:
        """Close every connection; a peer that does not read what is left within `grace_ms` loses it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in tuple(self.connections.values()):
            connection.close()
        if not await self.wait_until(lambda: not self.connections, grace_ms):
            for connection in tuple(self.connections.values()):
                connection.kill()
            await self.wait_until(lambda: not self.connections)

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int | None = None) -> bool:
        """Wait until something is so; it is looked at after each late answer and each connection that ends.

        Returns:
            False when the time was over first.
        """
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            self.note_change()

        # Not `asyncio.timeout`: in the clean-up of a cancelled task it is none, up to Python 3.11.
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, end) if timeout_ms is not None else None
        self.is_awaited = True
        try:
            while not condition():
                if is_over:
                    return False
                self._changed.clear()
                await self._changed.wait()
        finally:
            self.is_awaited = False
            if timer is not None:
                timer.cancel()
        return True

    def note_change(self) -> None:
        """Let `wait_until` look again."""
        self._changed.set()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        limits = self.limits
        shortest = min((ms for ms in (limits.idle_ms, limits.frame_ms, limits.write_stall_ms) if ms), default=0)
        if shortest:
            tick_ms = max(1, shortest // _TICKS_PER_LIMIT)
            self._timer = loop.call_later(tick_ms / 1000, self._tick, loop, tick_ms)

    def _tick(self, loop: asyncio.AbstractEventLoop, tick_ms: int) -> None:
        for connection in tuple(self.connections.values()):
            connection.tick(tick_ms)
        self._arm(loop)
