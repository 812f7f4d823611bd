from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.assistants.tools import Toolbox
from orbitmq.audit import AuditRecord
from orbitmq.testing import LocalCluster


class Records:
    """An audit log in memory; `error` is raised instead of keeping a record."""

    def __init__(self) -> None:
        self.kept: list[AuditRecord] = []
        self.error: OSError | None = None

    def write(self, record: AuditRecord) -> None:
        if self.error is not None:
            raise self.error
        self.kept.append(record)


class Assistant:
    """Calls tools over a cluster."""

    def __init__(self, cluster: LocalCluster, clients: ClusterClients) -> None:
        self.cluster = cluster
        self.clients = clients
        self.admin = clients.admin
        self.audit = Records()
        self._toolbox = Toolbox(clients, self.audit)

    async def ask(self, tool: str, **arguments: Any) -> Any:
        result = await self._toolbox.call(tool, arguments, "ann, by a test")
        assert not result.is_error, result.text
        return json.loads(result.text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self._toolbox.call(tool, arguments, "ann, by a test")
        assert result.is_error, result.text
        if not result.text.startswith("{"):  # a call that was not begun
            return result.text
        content = json.loads(result.text)["content"]
        assert content["is_untrusted"] is True
        return str(content["error"])


@pytest.fixture
def assistant(tmp_path: Path) -> AbstractAsyncContextManager[Assistant]:
    """The tools over a NameServer and a broker; opened on the test's loop."""
    return _assisting(tmp_path)


@asynccontextmanager
async def _assisting(tmp_path: Path) -> AsyncIterator[Assistant]:
    async with LocalCluster(data_dir=tmp_path) as cluster:
        clients = ClusterClients(cluster.name_servers)
        try:
            yield Assistant(cluster, clients)
        finally:
            await clients.close()
