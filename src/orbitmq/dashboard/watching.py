"""The look at the whole cluster that the dashboard takes each minute: the doctor's issues, lags, rates and disks.

It is taken with the dashboard's own access key, not with that of the user who is logged in: of the cluster's users only super
users see it. Between two of them pages show the last one.
"""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.requests import Request

from orbitmq.address import parse_name_servers
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard.charts import History
from orbitmq.dashboard.list_facts import ListFacts, chart_values, list_facts
from orbitmq.doctor import Issue, Snapshot, examine, take_snapshot
from orbitmq.errors import OrbitError

log = logging.getLogger(__name__)

EVERY_S = 60.0
FOR_SUPER_USERS = "what the dashboard finds with its own access key is shown to super users of the brokers alone"
FRESH_MS = 5_000
"""A look that was asked for is not taken again so soon."""


class Watch:
    """Takes a look each minute; `look` takes one now."""

    def __init__(self, clients: ClusterClients) -> None:
        self._clients = clients
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.issues: list[Issue] = []
        self.snapshot: Snapshot | None = None
        """The last one; its large tables are those that pages show."""
        self.problem: str | None = None
        """Why the last look failed."""
        self.history = History()
        self.lists = ListFacts()

    def hidden(self) -> Watch:
        """Return a watch that has seen nothing, for users who may not see this one."""
        found = Watch(self._clients)
        found.problem = FOR_SUPER_USERS
        return found

    def start(self) -> None:
        """Take a look now, and each minute."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Take no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Take a look, unless the last one is a few seconds old."""
        async with self._lock:
            if self.snapshot is not None and _now_ms() - self.snapshot.taken_at_ms < FRESH_MS:
                return
            clients = self._clients
            try:
                snapshot = await take_snapshot(
                    parse_name_servers(clients.name_servers),
                    clients.pool,
                    timeout_ms=clients.timeout_ms,
                    tls=clients.security.tls,
                )
            except OrbitError as error:
                self.problem = str(error)
                self.history.add_unknown(_now_ms())
                return
            self.issues = await asyncio.to_thread(examine, snapshot)
            self.lists = await asyncio.to_thread(list_facts, snapshot, self.snapshot, self.lists)
            self.history.add(snapshot.taken_at_ms, chart_values(self.lists, snapshot))
            self.snapshot, self.problem = snapshot, None

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("the look at the cluster failed")
            await asyncio.sleep(EVERY_S)


def watch_of(request: Request) -> Watch:
    """Return what the user of a request may see of the last look: all of it, or a watch without one, whose problem says so."""
    watch: Watch = request.app.state.watch
    return watch if request.state.session.is_super else watch.hidden()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
