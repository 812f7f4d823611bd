"""What all connections of one server or one pool share: handlers, limits, counters, and the watch over the idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from orbitmq.clock import Clock, now_ms
from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import OrbitError, Rejected
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.limits import DEFAULT_LIMITS, Counters, Limits, is_worth_a_line
from orbitmq.net.security.tls import ServerTls, TlsMode
from orbitmq.wire.command import Command
from orbitmq.wire.frame import Frame
from orbitmq.wire.header import decode_header
from orbitmq.wire.signature import Credentials, sign_command

if TYPE_CHECKING:
    from orbitmq.net.connection.connection import Connection

log = logging.getLogger(__name__)

_TICKS_PER_LIMIT = 8


class Shortcut(Protocol):
    """Answers whole frames without decoding them into commands."""

    def answer(self, data: bytes, answers: list[bytes], connection: Connection) -> int:
        """Append the answers of the known frames at the start of `data`; return how many bytes those frames take.

        Answers that are not known yet go out later through `connection.answer_held`.
        """
        ...

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """See how a request was answered the long way."""
        ...


Admission = Callable[[Call[Any]], None]
"""Looks at a call before its handler does, and refuses it by raising Rejected."""


class Endpoint:
    """The shared side of many connections.

    Args:
        handlers: by request code; None where peers may ask nothing.
        service: what the handlers work on; each gets it, or its part of it, as the first argument.
        name: stands in log lines.
        shortcut: answers known frames from memory.
        admission: is asked before every handler.
        is_listener: True for a server, False for a pool.
        tls: for a server that speaks TLS with those who begin it.
        credentials: sign what is asked through these connections.
    """

    def __init__(
        self,
        handlers: Handlers[Any] | None,
        service: Any,
        *,
        name: str,
        limits: Limits = DEFAULT_LIMITS,
        clock: Clock = now_ms,
        shortcut: Shortcut | None = None,
        admission: Admission | None = None,
        is_listener: bool = True,
        tls: ServerTls | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.name = name
        self.is_listener = is_listener
        self.limits = limits
        self.clock = clock
        self.shortcut = shortcut
        self.admission = admission
        self.tls = tls if tls is not None and tls.mode is not TlsMode.DISABLED else None
        is_unguarded = self.tls is None and not limits.requests_per_second_max
        self.quick = shortcut.answer if shortcut is not None and is_unguarded else None
        """The shortcut's answers where nothing stands before them: one bound method for all connections."""
        self.counters = Counters()
        self.connections: dict[int, Connection] = {}
        self.on_connection_lost: list[Callable[[Connection], None]] = []
        self.on_quiet: Callable[[], None] | None = None
        """Is called when a late answer has gone out while the endpoint drains."""
        self.is_draining = False
        self._handlers = {} if handlers is None else handlers.bind(service)
        self._credentials = credentials
        self._next_id = 0
        self._addresses: dict[str, int] = {}
        self._named_foreigners: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def answer(self, command: Command, connection: Connection) -> Reply | Literal[Later.LATER]:
        """Let the handler of a request answer it; whatever goes wrong becomes an answer, too."""
        entry = self._handlers.get(command.code)
        if entry is None:
            self.counters.unsupported_requests += 1
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")
        self.counters.requests[command.code] += 1
        if self.is_draining and command.version > Version.V5_3_1:
            return Reply(ResponseCode.GO_AWAY, "please go away")
        header_type, handler, part = entry
        try:
            call: Call[Any] = Call(decode_header(header_type, command.ext_fields), command, connection, self.clock())
            if self.admission is not None:
                self.admission(call)
            reply = handler(part, call)
        except Rejected as refusal:
            reply = Reply(refusal.code, refusal.remark)
        except OrbitError as error:  # bad input that a deeper room has found
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:
            self.counters.failed_requests += 1
            if is_worth_a_line(self.counters.failed_requests):
                log.exception("%s: request %d from %s failed", self.name, command.code, connection.remote)
            reply = Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if reply is LATER:
            if not call.is_answered:
                call.is_parked = True
                connection.parked_count += 1
        elif reply.code:
            self.counters.refusals[command.code, reply.code] += 1
        return reply

    def signed(self, command: Command) -> Command:
        """Return a request as it leaves: signed, where there are credentials."""
        return sign_command(command, self._credentials)

    def admit(self, connection: Connection, ip: str) -> str | None:
        """Enter a new connection; a text says which limit forbids it."""
        limits = self.limits
        if limits.connections_max and len(self.connections) >= limits.connections_max:
            return f"{limits.connections_max} connections are open"
        count = self._addresses.get(ip, 0)
        if limits.connections_per_address_max and count >= limits.connections_per_address_max:
            return f"{count} connections from {ip} are open"
        self._addresses[ip] = count + 1
        self.connections[connection.id] = connection
        self.counters.connections_opened += 1
        return None

    def forget(self, connection: Connection, ip: str) -> None:
        """Take out a connection that was entered, and tell whoever wants to know."""
        if self.connections.pop(connection.id, None) is None:
            return
        self.counters.connections_closed += 1
        self._addresses[ip] -= 1
        if not self._addresses[ip]:
            del self._addresses[ip]
        for callback in self.on_connection_lost:
            callback(connection)
        if self.on_quiet is not None:
            self.on_quiet()

    def next_id(self) -> int:
        """Return a connection number that was not used before."""
        self._next_id += 1
        return self._next_id

    def name_foreigner(self, kind: str, remote: str) -> None:
        """Say once per kind that somebody speaks another protocol to us."""
        if kind not in self._named_foreigners:
            self._named_foreigners.add(kind)
            log.warning(
                "%s: %s sent %s to a RocketMQ port and was disconnected; more of the kind are only counted",
                self.name,
                remote,
                kind,
            )

    @property
    def parked_count(self) -> int:
        """Requests whose handlers answer later and have not yet."""
        return sum(connection.parked_count for connection in self.connections.values())

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look after idle, slow and stalled connections from now on."""
        if self._timer is None:
            self._arm(loop)

    def stop_watching(self) -> None:
        """End what `watch` began."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close_connections(self, grace_ms: int = 1000) -> None:
        """Close every connection; a peer that does not read what is left within `grace_ms` loses it."""
        self.stop_watching()
        for connection in tuple(self.connections.values()):
            connection.close()
        try:
            async with asyncio.timeout(grace_ms / 1000):
                await self._all_lost()
        except TimeoutError:
            for connection in tuple(self.connections.values()):
                connection.kill()
            await self._all_lost()

    async def _all_lost(self) -> None:
        while self.connections:
            lost = asyncio.Event()
            self.on_quiet = lost.set
            await lost.wait()
        self.on_quiet = None

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
