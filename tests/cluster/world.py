"""A cluster of real processes under load: three NameServers, two brokers, one producer, one consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cluster.lab import Host
from orbitmq import ConsumeFrom, Message, Producer, PushConsumer
from orbitmq.admin.drift import Snapshot
from orbitmq.admin.insight import ask_history, take_snapshot
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing.processes import ServerProcess

TOPIC = "orders"
PATIENCE_S = 60
"""How long anything may take before a test gives up; no test asserts a speed with it."""
PAUSE_S = 0.02


class World:
    """The servers by name, and what asks them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name_servers: dict[str, ServerProcess] = {}
        self.brokers: dict[str, ServerProcess] = {}
        self.pool = ConnectionPool(connect_timeout_ms=1000, name="test")

    @property
    def name_server_list(self) -> list[str]:
        """The NameServers' addresses."""
        return [server.address for server in self.name_servers.values()]

    async def start_name_server(self, name: str, *, host: Host | None = None, port: int = 0, **settings: Any) -> None:
        """Start a NameServer, or start one again on the port that it had."""
        known = self.name_servers.get(name)
        if known is not None and not port:
            port = int(known.address.rpartition(":")[2])
        home = self.folder / name
        properties = {
            "bindAddress": host.ip if host else "127.0.0.1",
            "listenPort": port,
            "kvConfigPath": home / "kv.json",
            "configStorePath": home / "namesrv.properties",
            **settings,
        }
        self.name_servers[name] = await self._start("nameserver", properties, home, host)

    async def start_broker(self, name: str, *, host: Host | None = None, **settings: Any) -> None:
        """Start a broker that registers with every NameServer there is."""
        known = self.brokers.get(name)
        home = self.folder / name
        properties = {
            "brokerName": name,
            "bindAddress": host.ip if host else "127.0.0.1",
            "listenPort": int(known.address.rpartition(":")[2]) if known is not None else 0,
            "namesrvAddr": ";".join(self.name_server_list),
            "storePathRootDir": home / "store",
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 60_000,
            **settings,
        }
        self.brokers[name] = await self._start("broker", properties, home, host)

    async def snapshot(self, name: str) -> Snapshot | None:
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
        """Tell whether a NameServer knows a broker."""
        snapshot = await self.snapshot(name_server)
        return snapshot is not None and f"broker {broker}" in snapshot.facts

    async def causes(self, name_server: str, broker: str) -> list[str]:
        """Return why a broker left, as a NameServer's history tells it."""
        events = await ask_history(self.pool, self.name_servers[name_server].address, broker_name=broker)
        return [event["cause"] for event in events if event["kind"] == "broker left"]

    async def close(self) -> None:
        """End everything."""
        await self.pool.close()
        for server in [*self.brokers.values(), *self.name_servers.values()]:
            await server.kill()

    async def _start(self, command: str, properties: Mapping[str, Any], home: Path, host: Host | None) -> ServerProcess:
        texts = {key: str(value) for key, value in properties.items()}
        server = ServerProcess(command, texts, home, prefix=host.command() if host else ())
        await server.start()
        return server


class Load:
    """Sends all the time and consumes what it sent; remembers what was confirmed, received, and what failed."""

    def __init__(self, name_servers: Sequence[str]) -> None:
        self.confirmed: list[int] = []
        self.received: set[int] = set()
        self.errors: list[BaseException] = []
        self.brokers: list[str] = []
        self._producer = Producer("makers", name_servers)
        self._consumer = PushConsumer("takers", name_servers, consume_from=ConsumeFrom.FIRST)
        self._consumer.subscribe(TOPIC)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_sending = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        """Keep sending and consuming inside."""
        async with self._producer, self._consumer:
            self._tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._consume())]
            try:
                await self.more()
                yield self
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def more(self, count: int = 50) -> None:
        """Return when `count` more messages have been confirmed."""
        goal = len(self.confirmed) + count
        await eventually(lambda: _now(len(self.confirmed) >= goal), f"{count} more messages")

    async def settle(self) -> None:
        """Stop sending, and return when everything that was confirmed has been consumed."""
        self._is_sending = False
        self._tasks[0].cancel()
        await asyncio.gather(self._tasks[0], return_exceptions=True)
        await eventually(lambda: _now(self.received >= set(self.confirmed)), "every confirmed message at the consumer")

    async def _send(self) -> None:
        number = 0
        while self._is_sending:
            try:
                result = await self._producer.send(Message(TOPIC, str(number).encode()))
            except ClientError as error:
                self.errors.append(error)
            else:
                self.confirmed.append(number)
                self.brokers.append(result.queue.broker_name)
            number += 1
            await asyncio.sleep(0.001)

    async def _consume(self) -> None:
        async for batch in self._consumer:
            self.received.update(int(message.body) for message in batch)
            batch.commit()


async def eventually(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Look again and again until the answer is true."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await look()):
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {PATIENCE_S} s") from None
    return found


@asynccontextmanager
async def world(
    folder: Path,
    *,
    name_servers: Sequence[str] = ("ns1", "ns2", "ns3"),
    brokers: Sequence[str] = ("broker-a", "broker-b"),
) -> AsyncIterator[World]:
    """Start a cluster on loopback, with the topic on every broker; end it afterwards."""
    found = World(folder)
    try:
        for name in name_servers:
            await found.start_name_server(name)
        for name in brokers:
            await found.start_broker(name)
        await create_topic(found)
        yield found
    finally:
        await found.close()


async def create_topic(found: World, topic: str = TOPIC) -> None:
    """Create a topic on every broker that the first NameServers know."""
    from orbitmq.admin import AdminClient
    from orbitmq.model.topic import TopicConfig

    async with AdminClient(found.name_server_list) as admin:
        await admin.create_topic(TopicConfig(topic=topic, read_queue_count=4, write_queue_count=4))


async def _now(value: bool) -> bool:
    return value
