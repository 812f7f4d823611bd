"""The registrar: it tells every NameServer of this broker at start, every 30 s, after a change, and on the way out.

Each NameServer has a task of its own, so that a dead one delays no other. A task registers, then sleeps until its period
is over, the topics changed, or its connection broke; while the NameServer cannot be reached it tries again every
`RETRY_MS`, so that one that came back knows this broker within a second. With a short lease, heartbeats renew it between
two registrations, so that a silent death is noticed in seconds.

Source: Java BrokerOuterAPI, BrokerController.registerBrokerAll.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from orbitmq.client.routing.route_queues import readable_queues
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, OrbitError
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.static_topic import QueueMapping
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.document import decode_kv_table
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.bodies.static_topics import info_document
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import BrokerHeartbeat, GetRouteInfo, RegisterBroker, RegisterBrokerResponse, UnregisterBroker

log = logging.getLogger(__name__)

RETRY_MS = 500
ANNOUNCE_TIMEOUT_MS = 1_000
"""How long a caller that waits for a change to be known waits for the slowest NameServer."""
LEAVE_TIMEOUT_MS = 1_000
PART_TOPICS_MAX = 10_000
"""Topics that one registration carries at most: some 2 MB, far from the frame limit (apache/rocketmq#5296)."""


class Identity(NamedTuple):
    """What a broker registers as."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


@dataclass(slots=True)
class _NameServer:
    address: str
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    generation: int = -1
    """Of the table that it was told last, -1 for none."""
    is_reachable: bool = True
    problem: str = ""
    """Why the last registration failed; empty when it did not."""
    task: asyncio.Task[None] | None = None
    is_ended: bool = False

    def end(self) -> None:
        """End the task. A flag says so as well: up to Python 3.11, `wait_for` loses a cancellation that comes in the
        turn in which the awaited attempt fails.
        """
        self.is_ended = True
        self.wake.set()
        if self.task is not None:
            self.task.cancel()


class Registrar:
    """Keeps this broker registered with every NameServer of a list that may change.

    Args:
        encode: returns the registration's bodies as the tables are now, one per part.
        period_ms: between two registrations when nothing happens.
        heartbeat_ms: between two heartbeats, which renew a lease of `lease_ms`; None: registrations alone do.
        timeout_ms: for one NameServer's answer.
    """

    def __init__(
        self,
        identity: Identity,
        encode: Callable[[], Sequence[bytes]],
        *,
        period_ms: int = 30_000,
        heartbeat_ms: int | None = None,
        lease_ms: int | None = None,
        timeout_ms: int = 6_000,
        pool: ConnectionPool | None = None,
    ) -> None:
        self.on_master: list[Callable[[str | None, str | None], None]] = []
        """Called with the addresses that a slave is told of its master, HA and broker."""
        self.on_ordered_topics: list[Callable[[Collection[str]], None]] = []
        """Called with the names in the NameServer's table of ordered topics, where it has some; what they raise is logged."""
        self._identity = identity
        self._encode = encode
        self._period_ms = period_ms
        self._heartbeat_ms = heartbeat_ms
        self._lease_ms = lease_ms
        self._timeout_ms = timeout_ms
        self._pool = pool or ConnectionPool(name=f"broker {identity.broker_name}")
        self._pool.on_connection_lost(self._connection_lost)
        self._name_servers: dict[str, _NameServer] = {}
        self._generation = 0
        self._told = asyncio.Condition()
        self._waiting: set[asyncio.Task[None]] = set()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The NameServers that are told."""
        return tuple(self._name_servers)

    @property
    def told(self) -> tuple[str, ...]:
        """Those of them that know this broker, by their last answers."""
        return tuple(entry.address for entry in self._entries if entry.is_reachable and entry.generation >= 0)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Those of them that did not answer the last time."""
        return tuple(entry.address for entry in self._entries if not entry.is_reachable)

    @property
    def _entries(self) -> tuple[_NameServer, ...]:
        return tuple(self._name_servers.values())

    def set_name_servers(self, addresses: Iterable[str]) -> None:
        """Change the NameServers to register with. New ones are told immediately, those that left the list are left alone."""
        wanted = tuple(addresses)
        for address in [address for address in self._name_servers if address not in wanted]:
            self._name_servers.pop(address).end()
            self._pool.close_address(address)
        for address in wanted:
            if address not in self._name_servers:
                entry = self._name_servers[address] = _NameServer(address)
                entry.task = asyncio.get_running_loop().create_task(self._keep(entry))

    def announce(self, then: Callable[[], None] | None = None) -> None:
        """Register changed topics with every NameServer immediately; `then` is called when they know, or cannot be reached."""
        self._generation += 1
        for entry in self._name_servers.values():
            entry.wake.set()
        if then is not None:
            task = asyncio.get_running_loop().create_task(self._call_when_registered(self._generation, then))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def wait_registered(self, timeout_ms: int = ANNOUNCE_TIMEOUT_MS) -> None:
        """Return when every NameServer that can be reached knows the present table, or the time is over."""
        await self._wait_registered(self._generation, timeout_ms)

    async def find_queues(self, topic: str) -> list[MessageQueue] | None:
        """Ask one NameServer after the other for a topic's readable queues; None: those that answer do not know it."""
        route = await self.find_route(topic)
        return None if route is None else list(readable_queues(topic, route))

    async def find_route(self, topic: str) -> TopicRoute | None:
        """Ask one NameServer after the other for a topic's route; None: those that answer do not know it."""
        for address in self.told or self.name_servers:
            header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
            try:
                answer = await self._pool.request(address, header, timeout_ms=self._timeout_ms)
                if answer.code == ResponseCode.SUCCESS:
                    return decode_route(answer.body)
            except OrbitError as error:
                log.warning("%s does not tell the route of %s: %s", address, topic, error)
        return None

    async def ask_master(self, address: str, header: object) -> bytes:
        """Ask another broker, and return the answer's body.

        Raises:
            ClientError: it does not answer, or refuses.
        """
        return expect(await self._pool.request(address, header, timeout_ms=self._timeout_ms), address).body

    async def leave(self) -> None:
        """Un-register everywhere, then close. NameServers that do not answer learn it from the closed connection."""
        for entry in self._name_servers.values():
            entry.end()
        tasks = [entry.task for entry in self._name_servers.values() if entry.task is not None]
        tasks += self._waiting
        await asyncio.gather(*tasks, return_exceptions=True)
        told = [entry.address for entry in self._name_servers.values() if entry.is_reachable]
        await asyncio.gather(*map(self._unregister, told))
        await self._pool.close()

    async def _keep(self, entry: _NameServer) -> None:
        while not entry.is_ended:
            entry.wake.clear()
            await self._register(entry)
            if entry.is_ended or not await self._is_woken(entry) or entry.is_ended:
                continue
            if not entry.is_reachable or entry.address not in self._pool.addresses:
                # It went away just now; a restart takes a moment.
                await asyncio.sleep(RETRY_MS / 1000)

    async def _is_woken(self, entry: _NameServer) -> bool:
        """Wait until it is time to register again; True: something has happened before that."""
        left_ms = self._period_ms if entry.is_reachable else RETRY_MS
        while left_ms > 0:
            pause_ms = min(left_ms, self._heartbeat_ms or left_ms)
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await entry.wake.wait()
            except TimeoutError:
                left_ms -= pause_ms
                if left_ms > 0 and not await self._has_heartbeat(entry):
                    return False
            else:
                return True
        return False

    async def _has_heartbeat(self, entry: _NameServer) -> bool:
        identity = self._identity
        header = BrokerHeartbeat(
            cluster_name=identity.cluster,
            broker_addr=identity.address,
            broker_name=identity.broker_name,
            broker_id=identity.broker_id,
            heartbeat_timeout_mills=self._lease_ms,
        )
        try:
            expect(await self._pool.request(entry.address, header, timeout_ms=self._timeout_ms), entry.address)
        except ClientError as error:
            log.warning("no heartbeat to NameServer %s, registering again: %s", entry.address, error)
            return False
        return True

    async def _register(self, entry: _NameServer) -> None:
        generation = self._generation
        try:
            for body in self._encode():
                await self._register_part(entry, body)
        except ClientError as error:
            if entry.problem != str(error):  # a refused connection first, a refused certificate later
                log.warning("cannot register with NameServer %s, trying again: %s", entry.address, error)
            entry.is_reachable, entry.problem = False, str(error)
        else:
            if not entry.is_reachable or entry.generation < 0:
                log.info("registered with NameServer %s", entry.address)
            entry.is_reachable, entry.problem = True, ""
            entry.generation = generation
        async with self._told:
            self._told.notify_all()

    async def _register_part(self, entry: _NameServer, body: bytes) -> None:
        identity = self._identity
        header = RegisterBroker(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            heartbeat_timeout_millis=self._lease_ms,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        answer = await self._pool.request(entry.address, header, body, timeout_ms=self._timeout_ms)
        expect(answer, entry.address)
        if identity.broker_id:
            told = decode_header(RegisterBrokerResponse, answer.ext_fields)
            for learn in self.on_master:
                learn(told.ha_server_addr, told.master_addr)
        if answer.body:
            self._learn_ordered_topics(answer.body, entry.address)

    def _learn_ordered_topics(self, body: bytes, name_server: str) -> None:
        try:
            ordered = decode_kv_table(body)
            for change in self.on_ordered_topics:
                change(ordered.keys())
        except OrbitError as error:  # the registration has counted all the same
            log.warning("the ordered topics that NameServer %s tells are left out: %s", name_server, error)

    async def _wait_registered(self, generation: int, timeout_ms: int) -> None:
        def is_registered() -> bool:
            return all(
                entry.generation >= generation or not entry.is_reachable for entry in self._name_servers.values()
            )

        try:
            async with asyncio.timeout(timeout_ms / 1000), self._told:
                await self._told.wait_for(is_registered)
        except TimeoutError:
            return

    async def _call_when_registered(self, generation: int, then: Callable[[], None]) -> None:
        try:
            await self._wait_registered(generation, ANNOUNCE_TIMEOUT_MS)
        finally:
            then()

    async def _unregister(self, address: str) -> None:
        identity = self._identity
        header = UnregisterBroker(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            broker_id=identity.broker_id,
        )
        try:
            expect(await self._pool.request(address, header, timeout_ms=LEAVE_TIMEOUT_MS), address)
        except ClientError as error:
            log.warning("cannot un-register at NameServer %s: %s", address, error)

    def _connection_lost(self, connection: Peer) -> None:
        """Look after every NameServer that has no connection now."""
        connected = self._pool.addresses
        for entry in self._name_servers.values():
            if entry.address not in connected:
                entry.wake.set()


def encode_parts(
    version: DataVersion,
    topics: Mapping[str, TopicConfig],
    part_size: int = PART_TOPICS_MAX,
    mappings: Mapping[str, QueueMapping] = MappingProxyType({}),
) -> list[bytes]:
    """Return the bodies that register a table of topics: one, or several of `part_size` topics each.

    Every part counts as a change of its own, or a NameServer would take only new topics from all parts but the first
    (Java: enableSplitRegistration).
    """
    names = list(topics)
    starts = range(0, max(len(names), 1), part_size)
    bodies = []
    for number, start in enumerate(starts):
        part = {name: topics[name] for name in names[start : start + part_size]}
        static = {name: info_document(mapping) for name, mapping in mappings.items() if name in part}
        bodies.append(
            encode_registration(version._replace(counter=version.counter + number), part, queue_mappings=static)
        )
    return bodies
