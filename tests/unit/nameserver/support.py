"""Builders for the NameServer's tests: registrations, triggers, and a server to ask."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.routing.events import Cause, Trigger
from orbitmq.nameserver.routing.values import BrokerKey, Registration
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.bodies.topics import decode_topic_list
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetRouteInfo, RegisterBroker

CLUSTER = "c"


def queue(broker_name: str, *, perm: int = 6, count: int = 8, flag: int = 0) -> QueueData:
    return QueueData(
        broker_name=broker_name, read_queue_count=count, write_queue_count=count, perm=perm, topic_sys_flag=flag
    )


def broker(
    name: str,
    *topics: str,
    broker_id: int = 0,
    version: int = 1,
    state: int = 0,
    address: str | None = None,
    perm: int = 6,
    count: int = 8,
    cluster: str = CLUSTER,
    **options: Any,
) -> Registration:
    """Build a registration; its address follows from the name and the id, its HA address from the address."""
    address = address or address_of(name, broker_id)
    return Registration(
        key=BrokerKey(cluster, name, address),
        broker_id=broker_id,
        ha_address=f"ha-{address}",
        data_version=DataVersion(state, 0, version),
        queues={topic: queue(name, perm=perm, count=count) for topic in topics},
        **options,
    )


def address_of(name: str, broker_id: int = 0) -> str:
    return f"{name}-{broker_id}:10911"


def at(now_ms: int = 0, cause: Cause = Cause.REGISTRATION) -> Trigger:
    return Trigger(cause, now_ms, "test:1")


TIMEOUT_MS = 60_000
"""A million topics are refused in seconds; on a busy machine in many."""


class Asker:
    """A NameServer, and clients that ask it."""

    def __init__(self, server: NameServer, clock: FakeClock) -> None:
        self.server = server
        self.clock = clock
        self.pool = ConnectionPool()

    async def ask(self, header: object, body: bytes = b"", *, pool: ConnectionPool | None = None) -> Command:
        return await (pool or self.pool).request(self.server.address, header, body, timeout_ms=TIMEOUT_MS)

    async def register(
        self, name: str = "a", *topics: str, pool: ConnectionPool | None = None, **options: Any
    ) -> Command:
        header, body = registration(name, *(topics or ("T1", "T2")), **options)
        return await self.ask(header, body, pool=pool)


def registration(
    name: str,
    *topics: str,
    version: int = 1,
    configs: Mapping[str, TopicConfig] | None = None,
    filter_servers: tuple[str, ...] = (),
    **options: Any,
) -> tuple[RegisterBroker, bytes]:
    """Build header and body of a registration; `options` are header fields."""
    table = configs if configs is not None else {topic: TopicConfig(topic=topic) for topic in topics}
    body = encode_registration(DataVersion(0, 0, version), table, filter_servers)
    broker_id = options.pop("broker_id", 0)
    fields: dict[str, Any] = {
        "broker_name": name,
        "broker_addr": address_of(name, broker_id),
        "cluster_name": CLUSTER,
        "ha_server_addr": f"ha-{address_of(name, broker_id)}",
        "broker_id": broker_id,
        "body_crc32": zlib.crc32(body) & 0x7FFFFFFF,
    }
    return RegisterBroker(**{**fields, **options}), body


BROKER: Mapping[str, Any] = {
    "broker_name": "a",
    "broker_addr": address_of("a"),
    "cluster_name": CLUSTER,
    "broker_id": 0,
}
"""Fields of requests about the broker that `registration("a")` registers."""


async def route_of(asker: Asker, topic: str = "T1") -> TopicRoute | None:
    answer = await asker.ask(GetRouteInfo(topic=topic))
    return decode_route(answer.body) if answer.code == 0 else None


async def topics_of(asker: Asker, header: object) -> tuple[str, ...]:
    return decode_topic_list((await asker.ask(header)).body).topics


@asynccontextmanager
async def asking(folder: Path, **settings: Any) -> AsyncIterator[Asker]:
    clock = FakeClock()
    config = NameServerConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=folder / "kvConfig.json",
        config_store_path=folder / "namesrv.properties",
        **settings,
    )
    server = NameServer(config, clock=clock, lease_clock=clock)
    await server.start()
    asker = Asker(server, clock)
    try:
        yield asker
    finally:
        await asker.pool.close()
        await server.stop()
