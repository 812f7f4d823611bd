from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.audit import AuditRecord
from orbitmq.dashboard.app import DashboardOptions, make_app
from orbitmq.net.security.client_security import UNSECURED, ClientSecurity
from orbitmq.testing import LocalCluster


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
    cluster: LocalCluster, security: ClientSecurity = UNSECURED, **options: Any
) -> AsyncIterator[Browser]:
    """Open a dashboard over a cluster; `options` are of `DashboardOptions`."""
    clients = ClusterClients(cluster.name_servers, security=security)
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
