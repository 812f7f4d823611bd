from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from orbitmq.address import format_address
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.audit import AuditRecord
from orbitmq.dashboard.app import DashboardOptions, make_app
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.net.security.client_security import UNSECURED, ClientSecurity
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.headers import RegisterBroker


class Kept:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def write(self, record: AuditRecord) -> None:
        self.records.append(record)


class Browser:
    """Asks the dashboard for pages, and sends its forms."""

    def __init__(self, cluster: LocalCluster, client: httpx.AsyncClient, kept: Kept, app: Starlette) -> None:
        self.cluster = cluster
        self.client = client
        self.audit = kept.records
        self.app = app

    async def secret(self) -> str:
        """Return the secret that the forms of this session hold."""
        found = re.search(r'name="csrf" value="([^"]+)"', await self.html("/topics"))
        assert found is not None
        return found[1]

    async def send(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form as a browser does; its answer is not followed."""
        return await self.client.post(path, data={"csrf": await self.secret(), **fields})

    async def change(self, path: str, **fields: Any) -> str:
        """Send a form, confirm it, and return the page that comes then."""
        question = await self.send(path, **fields)
        assert question.status_code == 200, question.text
        assert 'name="confirmed"' in question.text
        done = await self.send(path, confirmed="yes", **fields)
        assert done.status_code == 303, done.text
        return await self.html(done.headers["location"])

    async def html(self, path: str, status: int = 200, **query: Any) -> str:
        answer = await self.client.get(path, params=query)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"].startswith("text/html")
        return answer.text

    async def json(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = await self.client.get(path, params=query, headers={"accept": "application/json"})
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def browser(tmp_path: Path) -> AbstractAsyncContextManager[Browser]:
    """The dashboard over a NameServer and a broker; opened on the test's loop."""
    return _browsing(tmp_path)


@asynccontextmanager
async def _browsing(tmp_path: Path) -> AsyncIterator[Browser]:
    async with LocalCluster(data_dir=tmp_path) as cluster, browsing(cluster) as browser:
        yield browser


@asynccontextmanager
async def browsing(
    cluster: LocalCluster, security: ClientSecurity = UNSECURED, timeout_ms: int = 3_000, **options: Any
) -> AsyncIterator[Browser]:
    """Open a dashboard over a cluster; `options` are of `DashboardOptions`."""
    clients = ClusterClients(cluster.name_servers, security=security, timeout_ms=timeout_ms)
    kept = Kept()
    app = make_app(clients, DashboardOptions(audit=kept, **options))
    transport = httpx.ASGITransport(app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            yield Browser(cluster, client, kept, app)
    finally:
        for session in app.state.sessions.all():
            if session.clients is not clients:
                await session.clients.close()
        await clients.close()


@pytest.fixture
def half_silent(tmp_path: Path) -> AbstractAsyncContextManager[Browser]:
    """The dashboard over a broker that answers, and `broker-silent`, which takes connections and says nothing."""
    return _half_silent(tmp_path)


async def _say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def _half_silent(tmp_path: Path) -> AsyncIterator[Browser]:
    async with LocalCluster(data_dir=tmp_path) as cluster, silent_broker(cluster, "broker-silent"):
        async with browsing(cluster, timeout_ms=300) as browser:
            yield browser


@asynccontextmanager
async def silent_broker(cluster: LocalCluster, name: str) -> AsyncIterator[None]:
    """Register a broker that takes connections and says nothing."""
    async with AsyncExitStack() as stack:
        silent = await asyncio.start_server(_say_nothing, "127.0.0.1", 0)
        stack.callback(silent.close)
        pool = ConnectionPool()
        stack.push_async_callback(pool.close)
        topics = {name: TopicConfig(topic=name) for name in ("orders", "payments")}
        body = encode_registration(DataVersion(0, 0, 1), topics)
        header = RegisterBroker(
            broker_name=name,
            broker_addr=format_address(*silent.sockets[0].getsockname()),
            cluster_name="DefaultCluster",
            ha_server_addr="127.0.0.1:1",
            broker_id=0,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        expect(await pool.request(cluster.name_servers, header, body), cluster.name_servers)
        yield
