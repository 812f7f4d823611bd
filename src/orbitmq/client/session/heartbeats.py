"""The heartbeats of one client: they tell every broker which groups the client belongs to.

A broker forgets a client whose heartbeats stop, and knows none when it starts. So there are three reasons for a
heartbeat: time has passed, a route names a new broker, and a broker answers that was away.

Source: Java MQClientInstance.sendHeartbeatToAllBrokerWithLock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from orbitmq.client.routing.routes import Routes
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.errors import OrbitError
from orbitmq.model.group import Heartbeat
from orbitmq.model.route import MASTER_ID, TopicRoute
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.headers.groups import HeartbeatRequest, UnregisterClient

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_MS = 30_000
UNREGISTER_TIMEOUT_MS = 1_000


class Heartbeats:
    """Sends heartbeats to the brokers that the known routes name.

    Args:
        pool: the connections that carry them.
        routes: name the brokers.
        tasks: where background heartbeats run.
        describe: returns what a heartbeat says.
        interval_ms: between two heartbeats to the same broker.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        routes: Routes,
        tasks: BackgroundTasks,
        describe: Callable[[], Heartbeat],
        interval_ms: int,
    ) -> None:
        self.announced: set[str] = set()
        """Addresses of the brokers that took a heartbeat and have answered since; to be read, not changed."""
        self._pool = pool
        self._routes = routes
        self._tasks = tasks
        self._describe = describe
        self._interval_ms = interval_ms
        self._is_running = False
        self._heard_on: dict[str, int] = {}
        """The connection on which each broker that pushes to this client took a heartbeat, by address."""
        self._answered_on: dict[str, int] = {}
        """The connection on which each broker that was greeted has answered, by address."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        routes.add_listener(self._route_changed)

    def start(self) -> None:
        """Send heartbeats from now on."""
        self._is_running = True
        self._tasks.spawn(self._beat(), "heartbeats")

    def stop(self) -> None:
        """Begin no more heartbeats; those under way end with the background tasks."""
        self._is_running = False

    async def send_to_all(self) -> None:
        """Send a heartbeat to every broker now; those that do not answer are logged and asked again next time."""
        await asyncio.gather(*(self._send(address) for address in self._addresses()))

    async def send_to_most(self, others_ms: int) -> None:
        """Send a heartbeat to every broker now, and wait until all have ended, but not long for those that stand still.

        Args:
            others_ms: for the other brokers, once the first one has taken it; theirs go on in the background.
        """
        pending = {self._tasks.spawn(self._send(address), "heartbeat") for address in self._addresses()}
        loop = asyncio.get_running_loop()
        until_s = None
        while pending:
            limit_s = None if until_s is None else max(0.0, until_s - loop.time())
            done, pending = await asyncio.wait(pending, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return
            if until_s is None and any(not task.cancelled() and task.result() for task in done):
                until_s = loop.time() + others_ms / 1000

    def announce(self, address: str) -> None:
        """Send a heartbeat to one broker in the background."""
        self.announced.add(address)
        self._tasks.spawn(self._send(address), "heartbeat")

    async def ensure(self, address: str, timeout_ms: int) -> None:
        """Make sure that a broker has had a heartbeat on the connection that is open now: there it can push to this client.

        Raises:
            ConnectionFailed, RequestTimeout, RemoteRefused: it has had none.
        """
        connection = await self._pool.connect(address, timeout_ms=timeout_ms)
        if self._heard_on.get(address) == connection.id:
            return
        async with self._locks[address]:  # many may ask at the same time: one heartbeat is enough for all
            if self._heard_on.get(address) == connection.id:
                return
            body = encode_heartbeat(self._describe())
            expect(await self._pool.request(address, HeartbeatRequest(), body, timeout_ms=timeout_ms), address)
            self.announced.add(address)
            self._heard_on[address] = connection.id

    async def send_heartbeat(self, address: str, timeout_ms: int) -> None:
        """Return when a broker has answered a heartbeat, whatever it says, on the connection that is open now.

        Raises:
            ConnectionFailed, RequestTimeout: the broker does not answer.
        """
        connection = await self._pool.connect(address, timeout_ms=timeout_ms)
        async with self._locks[address]:  # many may ask at the same time: one heartbeat is enough for all
            if self._answered_on.get(address) == connection.id:
                return
            body = encode_heartbeat(self._describe())
            await self._pool.request(address, HeartbeatRequest(), body, timeout_ms=timeout_ms)
            self._answered_on[address] = connection.id

    async def ensure_again(self, timeout_ms: int) -> bool:
        """Do what `ensure` does for every broker that it was called for; True when all of them have had a heartbeat."""
        ensured = [self.ensure(address, timeout_ms) for address in self._heard_on]
        found = await asyncio.gather(*ensured, return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException) and not isinstance(error, OrbitError):
                raise error
        return not any(found)

    def mark_unreachable(self, address: str) -> None:
        """Send a heartbeat with the broker's next answer: it may have been restarted in between."""
        self.announced.discard(address)

    async def unregister(self) -> None:
        """End the client's groups at every connected broker; those that do not answer in time find out by themselves."""
        client = self._describe()
        ends = [
            *(UnregisterClient(client_id=client.client_id, producer_group=group) for group in client.producer_groups),
            *(UnregisterClient(client_id=client.client_id, consumer_group=member.group) for member in client.consumers),
        ]
        requests = [
            self._pool.request(address, end, timeout_ms=UNREGISTER_TIMEOUT_MS)
            for address in self.announced.intersection(self._pool.addresses)
            for end in ends
        ]
        await asyncio.gather(*requests, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            await self.send_to_all()
            await asyncio.sleep(self._interval_ms / 1000)

    def _addresses(self) -> list[str]:
        """All members for a consumer, which may read from slaves; masters alone for a producer."""
        with_slaves = bool(self._describe().consumers)
        return [
            address
            for broker in self._routes.known.brokers.values()
            for broker_id, address in broker.addresses.items()
            if with_slaves or broker_id == MASTER_ID
        ]

    async def _send(self, address: str) -> bool:
        """Send a heartbeat; return True if the broker has taken it."""
        body = encode_heartbeat(self._describe())
        try:
            expect(await self._pool.request(address, HeartbeatRequest(), body), address)
            self.announced.add(address)
        except OrbitError as error:
            if address in self.announced:
                log.warning("heartbeat to %s: %s", address, error)
            self.announced.discard(address)
            return False
        return True

    def _route_changed(self, _topic: str, _route: TopicRoute) -> None:
        if not self._is_running:
            return
        for address in set(self._addresses()) - self.announced:
            self._tasks.spawn(self._send(address), "heartbeat")
