"""What a producer and a consumer have in common: connections, routes, a name, and heartbeats to every broker.

Source: Java MQClientInstance.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from orbitmq.client.client_id import client_id, local_ip
from orbitmq.client.routing.routes import Routes
from orbitmq.errors import ClientError, ConnectionFailed, OrbitError, RequestTimeout
from orbitmq.model.group import Heartbeat
from orbitmq.model.route import MASTER_ID, TopicRoute
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.command import Command
from orbitmq.wire.headers import HeartbeatRequest, UnregisterClient
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_MS = 30_000
REQUEST_TIMEOUT_MS = 3_000
CLOSE_TIMEOUT_MS = 1_000


class ClientSession:
    """One client's connections, routes and heartbeats.

    Args:
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        instance: the second half of the client id.
        describe: what heartbeats say; None for a client that sends none.
        handlers: answers to what brokers ask.
        service: the first argument of every handler.
        heartbeat_interval_ms: between two heartbeats to the same broker.
        poll_interval_ms: between two refreshes of the routes.
        credentials: sign every request with them.
        tls: connect with TLS.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        instance: str,
        describe: Callable[[str], Heartbeat] | None = None,
        handlers: Handlers[Any] | None = None,
        service: Any = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        poll_interval_ms: int = 30_000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.pool = ConnectionPool(handlers, service, credentials=credentials, tls=tls)
        self.routes = Routes(name_servers, self.pool, poll_interval_ms=poll_interval_ms)
        self.routes.on_change.append(self._route_changed)
        self.ip = "127.0.0.1"
        self.is_open = False
        self._was_opened = False
        self._instance = instance
        self._describe = describe
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._announced: set[str] = set()
        self._missed: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def id(self) -> str:
        """The client id, `ip@instance`; final once the session is open."""
        return client_id(self.ip, self._instance)

    def open(self) -> None:
        """Begin: refresh routes and send heartbeats from now on.

        Raises:
            ClientError: the session was opened before.
        """
        if self._was_opened:
            raise ClientError("a client is opened once: make a new one")
        self.is_open = self._was_opened = True
        self.ip = local_ip(*self.routes.name_servers)
        self.routes.start()
        if self._describe is not None:
            self.spawn(self._beat(), "heartbeats")

    async def close(self, groups: Iterable[UnregisterClient] = ()) -> None:
        """Say good-bye to every broker and close the connections.

        Args:
            groups: what to unregister; see `farewell`.
        """
        self.is_open = False
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        farewells = [
            self.pool.request(address, header, timeout_ms=CLOSE_TIMEOUT_MS)
            for address in self._announced.intersection(self.pool.addresses)
            for header in groups
        ]
        await asyncio.gather(*farewells, return_exceptions=True)
        await self.routes.close()
        await self.pool.close()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` beside everything else until the session closes; an error that nobody expects is logged."""
        task = asyncio.create_task(work, name=f"orbitmq {name}")
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def call(
        self,
        broker_name: str,
        header: object,
        body: bytes = b"",
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        broker_id: int = MASTER_ID,
        only_this: bool = False,
    ) -> Command:
        """Ask one member of a broker group; return its answer, whatever its code.

        Raises:
            RouteNotFound: no known route names the group.
            ConnectionFailed, RequestTimeout: say the address, where it was learnt and what to try.
        """
        address = self.routes.address(broker_name, broker_id, only_this=only_this)
        try:
            return await self.pool.request(address, header, body, timeout_ms=timeout_ms)
        except (ConnectionFailed, RequestTimeout) as error:
            self._announced.discard(address)
            raise self.explain(error, broker_name, address) from error

    def explain(self, error: ClientError, broker_name: str, address: str) -> ClientError:
        """Return the same error with the address, where it was learnt and what to try."""
        text = (
            f"{error} (broker {broker_name} at {address}, an address learnt from {self.routes.teacher(broker_name)})."
        )
        if isinstance(error, ConnectionFailed):
            text += " Is the broker up? If it runs behind NAT or in a container, set brokerIP1 to an address"
            text += " that clients can reach"
        else:
            text += " The broker is overloaded or cut off; a longer timeout_ms may help"
        return type(error)(text)

    def complain(self, broker_name: str, error: ClientError) -> None:
        """Warn that a broker does not answer: once, however many queues wait for it."""
        is_news = broker_name not in self._missed
        self._missed.add(broker_name)
        log.log(logging.WARNING if is_news else logging.DEBUG, "%s", error)

    def announced(self, broker_name: str, broker_id: int = MASTER_ID) -> None:
        """A broker has answered; make sure that it knows us: after a restart it waits for a heartbeat."""
        if broker_name in self._missed:
            self._missed.discard(broker_name)
            log.info("broker %s answers again", broker_name)
        if self._describe is None or not self.is_open:
            return
        address = self.routes.address(broker_name, broker_id)
        if address not in self._announced:
            self._announced.add(address)
            self.spawn(self._send_heartbeat(address), "heartbeat")

    async def send_heartbeats(self) -> None:
        """Send a heartbeat to every broker now; those that do not answer are logged and asked again next time."""
        await asyncio.gather(*(self._send_heartbeat(address) for address in self._heartbeat_addresses()))

    # Below: how.

    async def _beat(self) -> None:
        while True:
            await self.send_heartbeats()
            await asyncio.sleep(self._heartbeat_interval_ms / 1000)

    def _heartbeat_addresses(self) -> list[str]:
        """All members for a consumer, which may read from slaves; masters alone for a producer."""
        assert self._describe is not None
        with_slaves = bool(self._describe(self.id).consumers)
        return [
            address
            for broker in self.routes.brokers
            for broker_id, address in broker.addresses.items()
            if with_slaves or broker_id == MASTER_ID
        ]

    async def _send_heartbeat(self, address: str) -> None:
        assert self._describe is not None
        body = encode_heartbeat(self._describe(self.id))
        try:
            expect(await self.pool.request(address, HeartbeatRequest(), body), address)
            self._announced.add(address)
        except OrbitError as error:
            if address in self._announced:
                log.warning("heartbeat to %s: %s", address, error)
            self._announced.discard(address)

    def _route_changed(self, topic: str, route: TopicRoute) -> None:
        if self._describe is None or not self.is_open:
            return
        for address in set(self._heartbeat_addresses()) - self._announced:
            self.spawn(self._send_heartbeat(address), "heartbeat")

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s ended with an error", task.get_name(), exc_info=task.exception())
