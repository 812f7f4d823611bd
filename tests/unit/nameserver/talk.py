"""A running NameServer with its HTTP port, and a client of both."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from orbitmq.clock import now_ms
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver import NameServer, NameServerConfig
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire import headers
from orbitmq.wire.bodies.registration import encode_registration

BROKER = headers.RegisterBroker(broker_name="a", broker_addr="h:1", cluster_name="c", ha_server_addr="h:2", broker_id=0)
BODY = encode_registration(DataVersion(0, 1, 1), {name: TopicConfig(topic=name) for name in ("t", "u")})


class Talk:
    """A running NameServer and a client of it."""

    def __init__(self, name_server: NameServer) -> None:
        self.name_server = name_server
        self.pool = ConnectionPool()

    async def ask(self, header: object, body: bytes = b"") -> bytes:
        return expect(await self.pool.request(self.name_server.address, header, body), "").body

    async def get(self, path: str) -> tuple[int, str]:
        host, port = self.name_server.metrics_address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        head, _, text = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split()[1]), text


@asynccontextmanager
async def talking(clock=now_ms, **settings):
    """Run a NameServer, and give a client of it."""
    settings_of_tests = {"bind_address": "127.0.0.1", "listen_port": 0, "metrics_port": 0} | settings
    name_server = NameServer(NameServerConfig(**settings_of_tests), clock=clock)
    await name_server.start()
    talk = Talk(name_server)
    try:
        yield talk
    finally:
        await talk.pool.close()
        await name_server.stop()
