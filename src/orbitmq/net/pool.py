"""A pool: one connection to each address, opened when first needed and shared by all callers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from orbitmq.clock import Clock, now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, RemoteRefused, RequestTimeout
from orbitmq.net.address_map import reachable
from orbitmq.net.connection.connection import Connection
from orbitmq.net.connection.endpoint import Endpoint
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Dispatcher
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.limits import DEFAULT_LIMITS, Limits
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials

CONNECT_TIMEOUT_MS = 3000
REQUEST_TIMEOUT_MS = 3000


def expect(command: Command, address: str) -> Command:
    """Return the answer when it is a success.

    Raises:
        RemoteRefused: any other code.
    """
    if command.code != ResponseCode.SUCCESS:
        raise RemoteRefused(command.code, command.remark, address)
    return command


class ConnectionPool:
    """The client side: callers name addresses, and the pool keeps the connections.

    Args:
        handlers: for what servers ask their clients; None: everything is answered "not supported".
        service: the first argument of every handler.
        connect_timeout_ms: for one attempt to connect.
        credentials: sign every request with them.
        tls: connect with TLS (`tls.client_context`).
    """

    def __init__(
        self,
        handlers: Handlers[Any] | None = None,
        service: Any = None,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        limits: Limits = DEFAULT_LIMITS,
        clock: Clock = now_ms,
        name: str = "client",
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.counters = Counters()
        """How much was sent and received so far."""
        self._endpoint = Endpoint(
            Dispatcher(handlers, service, name=name, counters=self.counters, clock=clock),
            name=name,
            counters=self.counters,
            limits=limits,
            clock=clock,
            is_listener=False,
            credentials=credentials,
        )
        self._tls = tls
        self._connect_timeout_ms = connect_timeout_ms
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False
        self._listeners: list[Callable[[str], None]] = []

    def on_connection_lost(self, callback: Callable[[Peer], None]) -> None:
        """Call `callback` with every connection that ends from now on."""
        self._endpoint.on_connection_lost(callback)

    def on_connected(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the address of every connection that is opened from now on."""
        self._listeners.append(callback)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where connections are open now."""
        return tuple(address for address, connection in self._open.items() if not connection.is_closed)

    async def request(
        self,
        address: str,
        header: object,
        body: bytes = b"",
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        code: int | None = None,
    ) -> Command:
        """Send a request and return its answer, whatever its code. The time-out covers connecting, too.

        A server that drains sends requests away; they are sent once more, through a new connection.

        Raises:
            ConnectionFailed: no connection, or it broke before the answer came.
            RequestTimeout: no answer within `timeout_ms`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        answer = await self._request(address, header, body, timeout_ms, code)
        if answer.code == ResponseCode.GO_AWAY:
            self.close_address(address)
            left_ms = int((deadline - loop.time()) * 1000)
            if left_ms > 0:
                answer = await self._request(address, header, body, left_ms, code)
        return answer

    async def _request(self, address: str, header: object, body: bytes, timeout_ms: int, code: int | None) -> Command:
        connection = self._open.get(address)
        if connection is None or connection.is_closed:
            loop = asyncio.get_running_loop()
            started = loop.time()
            connection = await self.connect(address, timeout_ms=timeout_ms)
            timeout_ms -= int((loop.time() - started) * 1000)
            if timeout_ms <= 0:
                raise RequestTimeout(f"{address} took all the time to connect")
        return await connection.request(header, body, timeout_ms=timeout_ms, code=code)

    async def oneway(self, address: str, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        """Send a one-way request.

        Raises:
            ConnectionFailed: no connection.
        """
        (await self.connect(address)).send_oneway(header, body, code=code)

    async def connect(self, address: str, *, timeout_ms: int | None = None) -> Connection:
        """Return the connection to `address`; further callers wait for the same attempt.

        Raises:
            ConnectionFailed: refused, unreachable, or not within the time-out.
        """
        connection = self._open.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        if self._is_closed:
            raise ConnectionFailed(f"cannot connect to {address}: the pool is closed")
        task = self._opening.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._opening[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        limit_ms = self._connect_timeout_ms if timeout_ms is None else min(timeout_ms, self._connect_timeout_ms)
        # It leaves the task alone: one impatient caller must not take the connection away from the others. `wait_for`
        # loses a cancellation that comes when the task ends, and `timeout` is none in the clean-up of a cancelled task
        # (up to Python 3.11).
        done, _ = await asyncio.wait([task], timeout=limit_ms / 1000)
        if not done:
            raise ConnectionFailed(f"cannot connect to {address}: no answer within {limit_ms} ms")
        if self._is_closed and task.cancelled():
            raise ConnectionFailed(f"cannot connect to {address}: the pool was closed")
        return task.result()

    def close_address(self, address: str) -> None:
        """Close the connection to `address`, if there is one; the next request opens a new one."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Close everything; requests that still wait fail with ConnectionFailed."""
        self._is_closed = True
        opening = tuple(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await self._endpoint.close_connections()

    async def _connect(self, address: str) -> Connection:
        host, port = reachable(address)
        loop = asyncio.get_running_loop()
        connection, is_open = Connection(self._endpoint, loop), False
        try:
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port, ssl=self._tls)
            is_open = True
        except TimeoutError:
            raise ConnectionFailed(
                f"cannot connect to {address}: no answer within {self._connect_timeout_ms} ms"
            ) from None
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {address}: {error}") from error
        finally:
            if not is_open:
                # uvloop does not tell it when the attempt ends in the turn in which it connects; twice does no harm.
                connection.connection_lost(None)
        self._endpoint.start_timeouts(loop)
        return connection

    def _connected(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._opening.pop(address, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._open[address] = task.result()
        for listener in self._listeners:
            listener(address)
