"""A cluster of real processes under load: NameServers, brokers, one producer, one consumer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from cluster.clients import SEND_FAILURES, TOPIC, ClientPair
from cluster.lab import Lab
from interop.peers import JavaBroker
from orbitmq.admin import AdminClient
from orbitmq.admin.monitoring import ask_history, take_snapshot
from orbitmq.admin.route_comparison import RouteFacts
from orbitmq.errors import ClientError
from orbitmq.model.topic import TopicConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing.processes import ServerProcess

PAUSE_S = 0.02


class Server(Protocol):
    """A server's process, ours or Java's."""

    @property
    def address(self) -> str: ...
    async def stop(self) -> None: ...
    async def kill(self) -> None: ...


class World:
    """The servers by name, and what asks them."""

    def __init__(self, folder: Path, hosts: Lab | None, name_server_settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._lab = hosts
        self._name_server_settings = name_server_settings
        self.name_servers: dict[str, Server] = {}
        self.brokers: dict[str, Server] = {}
        self.pool = ConnectionPool(connect_timeout_ms=1000, name="test")

    @property
    def name_server_list(self) -> list[str]:
        return [server.address for server in self.name_servers.values()]

    @property
    def hosts(self) -> Lab:
        """The servers' hosts; the scenario asked for some."""
        assert self._lab is not None
        return self._lab

    async def start_name_server(self, name: str) -> None:
        """Start a NameServer, or start one again, empty, on the port that it had."""
        home = self.folder / name
        properties = {
            "kvConfigPath": home / "kv.json",
            "configStorePath": home / "namesrv.properties",
            **self._name_server_settings,
        }
        self.name_servers[name] = await self._start("nameserver", name, properties, self.name_servers.get(name))

    async def start_broker(self, name: str, **settings: Any) -> None:
        """Start a broker that registers with every NameServer there is, or start one again on its port."""
        properties = {
            "brokerName": name,
            "namesrvAddr": ";".join(self.name_server_list),
            "storePathRootDir": self.folder / name / "store",
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 60_000,
            **settings,
        }
        self.brokers[name] = await self._start("broker", name, properties, self.brokers.get(name))

    async def start_java_broker(self, name: str) -> None:
        """Start a Java broker that registers with every NameServer there is."""
        name_servers = ";".join(self.name_server_list)
        broker = JavaBroker(self.folder / name, name_servers, name=name, cluster="DefaultCluster")
        server = self.brokers[name] = _JavaServer(broker)
        await server.start()

    async def restart_broker(self, name: str) -> None:
        """Start a broker that has ended once more, on its port and with its store."""
        server = self.brokers[name]
        if isinstance(server, _JavaServer):
            await server.start()
        else:
            await self.start_broker(name)

    async def snapshot(self, name: str) -> RouteFacts | None:
        """Return what a NameServer says now, None while it cannot be asked."""
        try:
            return await take_snapshot(self.pool, self.name_servers[name].address, timeout_ms=1000)
        except ClientError:
            return None

    async def all_equal(self) -> str | None:
        """Return the digest that all NameServers share, None while they differ."""
        digests = set()
        for name in self.name_servers:
            snapshot = await self.snapshot(name)
            digests.add(snapshot.digest if snapshot else None)
        return digests.pop() if len(digests) == 1 else None

    async def all_equal_and_full(self) -> str | None:
        """As `all_equal`, and every broker that runs is known with its topic."""
        for name in self.name_servers:
            snapshot = await self.snapshot(name)
            if snapshot is None or not all(f"topic {TOPIC} at {broker}" in snapshot.facts for broker in self.brokers):
                return None
        return await self.all_equal()

    async def knows(self, name_server: str, broker: str) -> bool:
        snapshot = await self.snapshot(name_server)
        return snapshot is not None and f"broker {broker}" in snapshot.facts

    async def causes(self, name_server: str, broker: str) -> list[str]:
        """Return why a broker left, as a NameServer's history tells it."""
        events = await ask_history(self.pool, self.name_servers[name_server].address, broker_name=broker)
        return [event["cause"] for event in events if event["kind"] == "broker left"]

    async def until_gone(self, broker: str, *name_servers: str) -> None:
        """Return when NameServers, or all of them, have forgotten a broker."""
        await asyncio.gather(*(self._until_gone(name, broker) for name in name_servers or self.name_servers))

    async def _until_gone(self, name_server: str, broker: str) -> None:
        async def is_gone() -> bool:
            snapshot = await self.snapshot(name_server)
            assert snapshot is not None, f"{name_server} does not answer"
            is_known = f"broker {broker}" in snapshot.facts
            is_routed = f"topic {TOPIC} at {broker}" in snapshot.facts
            assert is_known or not is_routed, "an answer shows a half-done removal"
            return not is_known

        await eventually(is_gone, f"{broker} gone from {name_server}")

    async def close(self) -> None:
        try:
            await self.pool.close()
        finally:
            for server in [*self.brokers.values(), *self.name_servers.values()]:
                await server.kill()

    async def _start(self, command: str, name: str, properties: Mapping[str, Any], known: Server | None) -> Server:
        host = self.hosts.hosts[name] if self._lab is not None else None
        texts = {
            "bindAddress": host.ip if host else "127.0.0.1",
            "listenPort": known.address.rpartition(":")[2] if known is not None else 0,
            **properties,
        }
        server = ServerProcess(
            command,
            {key: str(value) for key, value in texts.items()},
            self.folder / name,
            prefix=host.command() if host else (),
        )
        await server.start()
        return server


class _JavaServer:
    """A Java broker's process behind the face of ours."""

    def __init__(self, broker: JavaBroker) -> None:
        self._broker = broker

    @property
    def address(self) -> str:
        return self._broker.address

    async def start(self) -> None:
        await asyncio.to_thread(self._broker.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self._broker.stop)

    async def kill(self) -> None:
        await asyncio.to_thread(self._broker.kill)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a broker has taken."""

    body: bytes
    broker: str
    at_s: float


class Load:
    """Sends all the time and consumes what it sent; remembers what was confirmed, received, and what failed."""

    def __init__(self, clients: ClientPair, pause_s: float, timeout_s: float) -> None:
        self.clients = clients
        self.sent: list[Sent] = []
        self.errors: list[Exception] = []
        self._pause_s = pause_s
        self._timeout_s = timeout_s
        self._sending: asyncio.Task[None] | None = None

    @property
    def bodies(self) -> set[bytes]:
        """What was confirmed."""
        return {sent.body for sent in self.sent}

    @property
    def last_brokers(self) -> set[str]:
        """Who took the last 20 messages."""
        return {sent.broker for sent in self.sent[-20:]}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        """Keep sending and consuming inside."""
        async with self.clients:
            self._sending = asyncio.create_task(self._send())
            try:
                await self.more()
                yield self
            finally:
                await self._stop_sending()

    async def more(self, count: int = 50) -> None:
        """Return when `count` more messages have been confirmed."""
        goal = len(self.sent) + count
        await eventually(lambda: _now(len(self.sent) >= goal), f"{count} more messages", self._timeout_s)

    async def settle(self) -> int:
        """Stop sending, and return when everything that was confirmed has been consumed: how many messages."""
        await self._stop_sending()
        bodies = self.bodies
        received = self.clients.received
        await eventually(lambda: _now(received() >= bodies), "every confirmed message received", self._timeout_s)
        return len(bodies)

    def longest_pause_ms(self, since: int) -> float:
        """Return the longest time between two confirmations from the `since`th on."""
        times = [sent.at_s for sent in self.sent[since:]]
        return max(later - earlier for earlier, later in pairwise(times)) * 1000

    async def _send(self) -> None:
        number = 0
        while True:
            body = str(number).encode()
            try:
                broker = await self.clients.send(body)
            except SEND_FAILURES as error:
                self.errors.append(error)
            else:
                self.sent.append(Sent(body, broker, time.monotonic()))
            number += 1
            await asyncio.sleep(self._pause_s)

    async def _stop_sending(self) -> None:
        assert self._sending is not None
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)


async def eventually(look: Callable[[], Awaitable[Any]], what: str, timeout_s: float = 300) -> Any:
    """Look again and again until the answer is true; `timeout_s` ends a wait in vain, and is not a bound."""
    try:
        async with asyncio.timeout(timeout_s):
            while not (found := await look()):
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {timeout_s:.0f} s") from None
    return found


async def create_topic(found: World, topic: str = TOPIC) -> None:
    """Create a topic on every broker that the first NameServers know."""
    async with AdminClient(found.name_server_list) as admin:
        await admin.create_topic(TopicConfig(topic=topic, read_queue_count=4, write_queue_count=4))


async def _now(value: bool) -> bool:
    return value
