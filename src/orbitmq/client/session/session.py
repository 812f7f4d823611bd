"""The session of a producer or consumer: its id, connections and routes, and heartbeats to every broker.

Source: Java MQClientInstance.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from orbitmq.client.routing.nameserver_client import NameServerClient
from orbitmq.client.routing.routes import POLL_INTERVAL_MS, Routes
from orbitmq.client.session.client_id import client_id, local_ip, unique_instance
from orbitmq.client.session.heartbeats import HEARTBEAT_INTERVAL_MS, Heartbeats
from orbitmq.client.session.owning_loop import BackgroundTasks, OwningLoop
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, RequestTimeout
from orbitmq.model.group import Heartbeat
from orbitmq.model.route import MASTER_ID, MessageQueue, TopicRoute
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS = 3_000
OTHERS_MS = 500
"""For the answers of the other brokers, once the first one has answered."""


class ClientSession:
    """One client's connections, routes and heartbeats.

    Args:
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        instance: the second half of the client id; one that no other client has when left out.
        describe: returns what heartbeats say, by client id; None for a client that sends none.
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
        instance: str | None = None,
        describe: Callable[[str], Heartbeat] | None = None,
        handlers: Handlers[Any] | None = None,
        service: Any = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        poll_interval_ms: int = POLL_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.pool = ConnectionPool(handlers, service, credentials=credentials, tls=tls)
        self.name_servers = NameServerClient(name_servers, self.pool)
        self.routes = Routes(self.name_servers, poll_interval_ms=poll_interval_ms)
        self.tasks = BackgroundTasks()
        """Background tasks, until the session closes."""
        self.ip = "127.0.0.1"
        self.owning_loop = OwningLoop("client")
        self.is_open = False
        self._was_opened = False
        self._is_closed = False
        self._closing = asyncio.Lock()
        self._instance = instance or unique_instance()
        self._unreachable: set[str] = set()
        self._masters: dict[str, str] = {}
        self.routes.add_listener(self._route_changed)
        self._heartbeats = (
            None
            if describe is None
            else Heartbeats(self.pool, self.routes, self.tasks, lambda: describe(self.id), heartbeat_interval_ms)
        )

    @property
    def id(self) -> str:
        """The client id, `ip@instance`; final once the session is open."""
        return client_id(self.ip, self._instance)

    @property
    def is_over(self) -> bool:
        """True once the session was open and is not any more: it never is again."""
        return self._was_opened and not self.is_open

    def open(self) -> None:
        """Begin: refresh routes and send heartbeats from now on.

        Raises:
            ClientError: the session was opened before.
        """
        if self._was_opened:
            raise ClientError("a client is opened once: make a new one")
        self.owning_loop.settle()
        self.is_open = self._was_opened = True
        self.ip = local_ip(*self.name_servers.configured)
        self.routes.start()
        if self._heartbeats is not None:
            self._heartbeats.start()

    async def close(self) -> None:
        """Take leave of every broker and close the connections. A second call returns when that is done."""
        self.is_open = False
        async with self._closing:
            if not self._is_closed:
                await self._leave()
            self._is_closed = True
            self.owning_loop.leave()

    def _route_changed(self, _topic: str, route: TopicRoute) -> None:
        """Give up what waits for a broker that is not a master any more: it may stand still, and then it answers never."""
        for broker in route.brokers:
            master = broker.addresses.get(MASTER_ID)
            if master is None:
                continue
            before = self._masters.get(broker.broker_name, master)
            self._masters[broker.broker_name] = master
            if before != master:
                log.info("broker %s has another master: %s, no more %s", broker.broker_name, master, before)
                self.pool.close_address(before)

    async def _leave(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.stop()
        await self.tasks.close()
        if self._heartbeats is not None:
            await self._heartbeats.unregister()
        await self.routes.close()
        await self.name_servers.close()
        await self.pool.close()

    async def closed(self) -> None:
        """Return when a closing that is under way is done."""
        async with self._closing:
            pass

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
            if self._heartbeats is not None:
                self._heartbeats.mark_unreachable(address)
            raise self.explain(error, broker_name, address) from error

    async def connection(self, broker_name: str) -> int:
        """Return the number of the connection to a broker: another one than before where the broker may have restarted.

        Raises:
            RouteNotFound: no known route names the group.
            ConnectionFailed, RequestTimeout: there is none.
        """
        return (await self.pool.connect(self.routes.address(broker_name), timeout_ms=REQUEST_TIMEOUT_MS)).id

    async def call_queue(
        self,
        queue: MessageQueue,
        header: object,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        broker_id: int = MASTER_ID,
        only_this: bool = False,
    ) -> Command:
        """Ask the broker that has a queue, as `call` does; once more the next one, where a logical queue has moved."""
        leader = self.routes.broker_of(queue)
        answer = await self.call(leader, header, timeout_ms=timeout_ms, broker_id=broker_id, only_this=only_this)
        if answer.code != ResponseCode.NOT_LEADER_FOR_QUEUE:
            return answer
        await self.routes.refresh(queue.topic)
        following = self.routes.broker_of(queue)
        if following == leader:
            return answer
        return await self.call(following, header, timeout_ms=timeout_ms, broker_id=broker_id, only_this=only_this)

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

    def note_failure(self, broker_name: str, error: ClientError) -> None:
        """Warn that a broker does not answer: once, however many queues wait for it."""
        log.log(logging.WARNING if self.note_silence(broker_name) else logging.DEBUG, "%s", error)

    def note_silence(self, broker_name: str) -> bool:
        """Remember that a broker does not answer; return True if that is news, which one warning says."""
        is_news = broker_name not in self._unreachable
        self._unreachable.add(broker_name)
        return is_news

    def note_return(self, broker_name: str) -> None:
        """Remember that a broker answers."""
        if broker_name in self._unreachable:
            self._unreachable.discard(broker_name)
            log.info("broker %s answers again", broker_name)

    def note_answer(self, broker_name: str, broker_id: int = MASTER_ID) -> None:
        """Make sure that a broker that has answered knows this client: after a restart it waits for a heartbeat."""
        self.note_return(broker_name)
        if self._heartbeats is None or not self.is_open:
            return
        address = self.routes.address(broker_name, broker_id)
        if address not in self._heartbeats.announced:
            self._heartbeats.announce(address)

    async def announce(self, broker_name: str, *, timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        """Make sure that a broker's master can push to this client.

        Raises:
            RouteNotFound: no known route names the master.
            ConnectionFailed, RequestTimeout, RemoteRefused: it has not taken a heartbeat.
        """
        if self._heartbeats is None:
            return
        address = self.routes.address(broker_name, only_this=True)
        try:
            await self._heartbeats.ensure(address, timeout_ms)
        except (ConnectionFailed, RequestTimeout) as error:
            raise self.explain(error, broker_name, address) from error

    async def check_broker(self, broker_name: str, *, timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        """Make sure that a broker's master answers on the connection that is open now.

        Raises:
            RouteNotFound: no known route names the master.
            ConnectionFailed: the address cannot be reached, or does not answer.
        """
        if self._heartbeats is None:
            return
        address = self.routes.address(broker_name, only_this=True)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._heartbeats.send_heartbeat(address, timeout_ms)
        except (ConnectionFailed, RequestTimeout, TimeoutError) as error:
            text = str(error) or f"{address} does not answer a heartbeat"
            raise self.explain(ConnectionFailed(text), broker_name, address) from error

    async def announce_again(self) -> bool:
        """Announce this client to the brokers that `announce` named, where the connection broke; True: all know it now."""
        return self._heartbeats is None or await self._heartbeats.ensure_again(REQUEST_TIMEOUT_MS)

    async def send_heartbeats(self) -> None:
        """Send a heartbeat to every broker now, so that the group knows this client before it is asked for members.

        A broker that stands still keeps no other one waiting for longer than `OTHERS_MS`.
        """
        if self._heartbeats is not None:
            await self._heartbeats.send_to_most(OTHERS_MS)
