"""The exporter: collections in the background, and the page that shows the last one. A scrape never waits for the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from prometheus_client.core import Metric

from orbitmq.address import format_address
from orbitmq.admin import AdminClient
from orbitmq.clock import Clock, now_ms
from orbitmq.errors import OrbitError
from orbitmq.exporter.collecting import QUESTIONS, Collector
from orbitmq.exporter.collection import Collection
from orbitmq.exporter.families import families
from orbitmq.monitoring.families import Families
from orbitmq.monitoring.pages import server_pages
from orbitmq.net.http import HttpServer
from orbitmq.net.security.client_security import ClientSecurity

log = logging.getLogger(__name__)

DEFAULT_PORT = 5557
"""Of rocketmq-exporter."""
DEFAULT_INTERVAL_S = 15.0
INTERVALS_KEPT = 4
"""Values are shown for so many intervals, a minute at least: older ones say nothing of the cluster."""
_KEPT_S_MIN = 60.0


class Exporter:
    """The server: `await start()`, then it collects and shows metrics at `address` until `await stop()`.

    Args:
        name_servers: `"host:port;host:port"`.
        port: 0 lets the system choose one.
        interval_s: from the start of one collection to the start of the next; one that takes longer delays the next.
        timeout_ms: for each request to the cluster.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        interval_s: float = DEFAULT_INTERVAL_S,
        timeout_ms: int = 3_000,
        security: ClientSecurity | None = None,
        clock: Clock = now_ms,
    ) -> None:
        given: dict[str, Any] = {} if security is None else security._asdict()
        self._admin = AdminClient(name_servers, timeout_ms=timeout_ms, **given)
        self.collector = Collector(self._admin, clock=clock)
        self.last: Collection | None = None
        """The last complete collection."""
        self._error = "no collection is complete yet"
        self._attempts = 0
        self._host, self._port = host, port
        self._interval_s = interval_s
        self._kept_ms = int(max(_KEPT_S_MIN, INTERVALS_KEPT * interval_s) * 1000)
        self._clock = clock
        self._own = Families("orbitmq_exporter")
        self._rocketmq = Families("rocketmq")
        self._http = HttpServer(server_pages(self.metrics, self.health, "no collection is complete yet"))
        self._task: asyncio.Task[None] | None = None
        self.address = ""

    async def start(self) -> None:
        """Listen, and begin to collect.

        Raises:
            OSError: the port cannot be bound.
        """
        self.address = format_address(self._host, await self._http.start(self._host, self._port))
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Listen no more, and leave a collection that is under way."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._http.close()
        await self._admin.close()

    async def collect(self) -> None:
        """Collect once; where that fails the collection before stays."""
        self._attempts += 1
        before = self._error
        try:
            self.last = await self.collector.collect()
            self._error = ""
        except OrbitError as error:
            self._error = str(error)
        if self._error and self._error != before:
            log.warning("the cluster cannot be asked: %s", self._error)
        elif before and not self._error:
            log.info("%d brokers answer", len(self.last.brokers) if self.last else 0)

    def health(self) -> dict[str, Any]:
        """Return the health document: ready with values to show, healthy when the last collection has reached the cluster."""
        found = self._shown()
        reasons = [] if found is not None else [self._error or "the last collection is too old"]
        document: dict[str, Any] = {"healthy": not self._error, "ready": found is not None, "notReady": reasons}
        if self.last is not None:
            document |= {"collectedAt": self.last.at_ms, "brokers": len(self.last.brokers)}
        return document

    def metrics(self) -> Iterator[Metric]:
        """Yield what the last collection found, and how collecting goes."""
        found = self._shown()
        yield from self._of_exporter()
        if found is None:
            return
        for family in families(found):
            yield from self._rocketmq.gauges(family.name, family.text, family.labels, family.series)

    def _of_exporter(self) -> Iterator[Metric]:
        make, last = self._own, self.last
        text = "Questions to the cluster that were not answered, by what was asked"
        # Prometheus sees no increase of a series that begins with 1.
        counts = {("cluster", ""): 0} | {
            (what, key.broker): 0 for key in (last.known if last else ()) for what in QUESTIONS
        }
        errors = [(labels, float(count)) for labels, count in sorted({**counts, **self.collector.errors}.items())]
        yield from make.counters("errors", text, ("what", "broker"), errors)
        yield make.counter("collections", "Collections that were begun", self._attempts)
        yield make.gauge("up", "1 when the last collection has reached a NameServer", not self._error)
        text = "When the last complete collection ended, in seconds since 1970; 0: none has"
        yield make.gauge("last_collection_timestamp_seconds", text, last.at_ms / 1000 if last else 0)
        yield make.gauge("last_collection_seconds", "How long it took", last.seconds if last else 0)

    def _shown(self) -> Collection | None:
        if self.last is None or self._clock() - self.last.at_ms > self._kept_ms:
            return None
        return self.last

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + self._interval_s
            await self.collect()
            await asyncio.sleep(due_s - loop.time())
