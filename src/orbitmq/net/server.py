"""A server: a listening port, and the connections that it accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from orbitmq.address import format_address
from orbitmq.clock import Clock, now_ms
from orbitmq.net.connection.connection import Connection
from orbitmq.net.connection.endpoint import Endpoint, OpenConnection
from orbitmq.net.connection.tls_transport import TlsTransport
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Admission, Dispatcher
from orbitmq.net.dispatch.fast_path import FastPath
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.limits import DEFAULT_LIMITS, Limits
from orbitmq.net.listening import listen
from orbitmq.net.security.tls import ServerTls, TlsMode

S = TypeVar("S")


class Server(Generic[S]):
    """Listens on one address and serves every connection with the same handlers.

    Args:
        handlers: by request code.
        service: the first argument of every handler.
        name: stands in log lines.
        fast_path: answers known frames from memory.
        admission: is asked before every handler; refuses by raising Rejected.
        tls: mode and certificates; None: TLS is not spoken.
    """

    def __init__(
        self,
        handlers: Handlers[S],
        service: S,
        *,
        name: str,
        limits: Limits = DEFAULT_LIMITS,
        clock: Clock = now_ms,
        fast_path: FastPath | None = None,
        admission: Admission | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self.counters = Counters()
        """How much was served and refused so far."""
        self._dispatcher = Dispatcher(
            handlers,
            service,
            name=name,
            counters=self.counters,
            clock=clock,
            fast_path=fast_path,
            admission=admission,
        )
        self._endpoint = Endpoint(
            self._dispatcher,
            name=name,
            counters=self.counters,
            limits=limits,
            clock=clock,
            fast_path=fast_path,
        )
        self._tls = tls if tls is not None and tls.mode is not TlsMode.DISABLED else None
        self._listeners: list[asyncio.Server] = []
        self._host = ""
        self._port = 0

    def rebind(self) -> None:
        """Take what handlers work on from the service once more: it has changed."""
        self._dispatcher.rebind()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the bound port (0 lets the system choose one).

        Raises:
            ConfigError: no name service knows `host`.
            OSError: the address cannot be bound.
        """
        self._host = host
        self._port = await self._listen(port)
        self._endpoint.start_timeouts(asyncio.get_running_loop())
        return self._port

    async def listen_also(self, port: int) -> None:
        """Listen on another port of the same address; its connections are served, and limited, as the others.

        Raises:
            OSError: the address cannot be bound.
        """
        await self._listen(port)

    @property
    def address(self) -> str:
        """Where the server listens, as host:port."""
        return format_address(self._host, self._port)

    @property
    def connections(self) -> Collection[OpenConnection]:
        """The open connections."""
        return self._endpoint.connections.values()

    @property
    def partial_frames_size(self) -> int:
        """Bytes that have arrived of frames that are not whole."""
        return self._endpoint.partial_frames.size

    @property
    def waiting_answers_size(self) -> int:
        """Bytes of answers that wait for their readers, as far as it was looked."""
        return self._endpoint.waiting_answers.size

    def on_connection_lost(self, callback: Callable[[Peer], None]) -> None:
        """Call `callback` with every connection that ends from now on."""
        self._endpoint.on_connection_lost(callback)

    def close_connection(self, connection_id: int) -> None:
        """Close one connection, if it is still open."""
        connection = self._endpoint.connections.get(connection_id)
        if connection is not None:
            connection.close()

    async def drain(self, timeout_ms: int) -> bool:
        """Accept no new connections, refuse new requests, and wait until all late answers are given.

        Returns:
            False when the time was over first.
        """
        self._stop_listening()
        self._dispatcher.drain()
        return await self._endpoint.wait_until(lambda: not self._endpoint.pending_count, timeout_ms)

    async def close(self) -> None:
        """Stop listening and close every connection, after what was written has left or been given up."""
        self._stop_listening()
        await self._endpoint.close_connections()

    async def _listen(self, port: int) -> int:
        loop = asyncio.get_running_loop()
        backlog = self._endpoint.limits.backlog
        listener = await listen(lambda: self._make_protocol(loop), "bindAddress", self._host, port, backlog=backlog)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    def _make_protocol(self, loop: asyncio.AbstractEventLoop) -> asyncio.Protocol:
        connection = Connection(self._endpoint, loop)
        if self._tls is None:
            return connection
        return TlsTransport(connection, self._tls, loop, handshake_ms=self._endpoint.limits.frame_ms)

    def _stop_listening(self) -> None:
        while self._listeners:
            self._listeners.pop().close()
