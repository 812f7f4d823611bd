"""A producer and a consumer of the topic, ours or Java's, behind one face."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol, Self

from interop.peers import JavaClients, PeerError, message
from orbitmq import ConsumeFrom, Message, Producer, PushConsumer
from orbitmq.admin import AdminClient
from orbitmq.errors import ClientError

TOPIC = "orders"
SEND_FAILURES = (ClientError, PeerError)


class ClientPair(Protocol):
    """What the load needs of clients; a context manager starts and stops them."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

    async def send(self, body: bytes) -> str:
        """Send to the topic and return the name of the broker that took it; raises one of SEND_FAILURES."""
        ...

    def received(self) -> set[bytes]:
        """Return the bodies that the consumer got so far."""
        ...

    async def brokers_of_route(self, name_server: str) -> set[str]:
        """Return on which brokers the topic is, as the clients' own tools read the route of one NameServer."""
        ...


class OurClientPair:
    """Ours."""

    def __init__(self, folder: Path, name_servers: Sequence[str], poll_ms: int) -> None:
        self._producer = Producer("makers", name_servers, poll_interval_ms=poll_ms)
        self._consumer = PushConsumer("takers", name_servers, consume_from=ConsumeFrom.FIRST, poll_interval_ms=poll_ms)
        self._consumer.subscribe(TOPIC)
        self._received: set[bytes] = set()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._producer)
        await self._open.enter_async_context(self._consumer)
        consuming = asyncio.create_task(self._consume())
        self._open.callback(consuming.cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def send(self, body: bytes) -> str:
        result = await self._producer.send(Message(TOPIC, body))
        return result.queue.broker_name

    def received(self) -> set[bytes]:
        return self._received

    async def brokers_of_route(self, name_server: str) -> set[str]:
        async with AdminClient([name_server]) as admin:
            return {queue.broker_name for queue in (await admin.topic_route(TOPIC)).queues}

    async def _consume(self) -> None:
        async for batch in self._consumer:
            self._received.update(bytes(message.body) for message in batch)
            batch.commit()


class JavaClientPair:
    """Java's, in a JVM of their own."""

    def __init__(self, folder: Path, name_servers: Sequence[str], poll_ms: int) -> None:
        self._folder = folder
        self._name_servers = ";".join(name_servers)
        self._poll_ms = poll_ms

    async def __aenter__(self) -> Self:
        self._clients = await asyncio.to_thread(JavaClients, self._folder)
        await asyncio.to_thread(self._start)
        return self

    def _start(self) -> None:
        settings = {"poll_ms": self._poll_ms}
        self._producer = self._clients.producer("makers", self._name_servers, **settings)
        self._consumer = self._clients.consumer("takers", self._name_servers, TOPIC, **settings)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._clients.close)

    async def send(self, body: bytes) -> str:
        [result] = await asyncio.to_thread(self._producer.send, message(TOPIC, body))
        return str(result["broker"])

    def received(self) -> set[bytes]:
        return {event["body"] for event in self._consumer.received}

    async def brokers_of_route(self, name_server: str) -> set[str]:
        printed = await asyncio.to_thread(self._clients.mqadmin, "topicRoute", "-n", name_server, "-t", TOPIC)
        return set(re.findall(r'"brokerName": ?"([^"]+)"', printed))
