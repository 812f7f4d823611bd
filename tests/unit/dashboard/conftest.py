from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from orbitmq import PullConsumer
from orbitmq.admin import AdminClient
from orbitmq.dashboard.app import make_app
from orbitmq.testing import LocalCluster


class Browser:
    """Asks the dashboard for pages."""

    def __init__(self, cluster: LocalCluster, client: httpx.AsyncClient) -> None:
        self.cluster = cluster
        self.client = client

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
    async with LocalCluster(data_dir=tmp_path) as cluster, AdminClient(cluster.name_servers) as admin:
        app = make_app(cluster.name_servers, admin, partial(PullConsumer, name_servers=cluster.name_servers))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            yield Browser(cluster, client)
