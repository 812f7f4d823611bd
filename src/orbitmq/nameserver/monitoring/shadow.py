"""Shadow mode: another NameServer's routes compared with our own, for operators who try us next to Java's.

Brokers register with both; this side asks the other one for its routes from time to time and compares. Brokers reach
the two at different moments, so a difference counts as drift only when two comparisons in a row have seen it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from orbitmq.admin.monitoring import take_snapshot
from orbitmq.admin.route_comparison import Difference, RouteFacts, differences, snapshot_of
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.net.pool import ConnectionPool

log = logging.getLogger(__name__)

SUBJECTS_IN_LOG_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the two sides compared last; `drift` are the differences that lasted."""

    at_ms: int = 0
    is_up: bool = False
    own_digest: str = ""
    other_digest: str = ""
    differences: tuple[Difference, ...] = ()
    drift: tuple[Difference, ...] = ()
    error: str | None = None


class Shadow:
    """The comparison of our tables with another NameServer's answers, again and again.

    Args:
        other: host:port.
        interval_ms: between the end of one comparison and the start of the next.
        pool: what the other one is asked through; closed by `stop`.
    """

    def __init__(self, tables: Tables, other: str, *, interval_ms: int, clock: Clock, pool: ConnectionPool) -> None:
        self.other = other
        self.last = Comparison()
        self._tables = tables
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._pool = pool
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to compare."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End what `start` began."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._pool.close()

    async def compare(self) -> Comparison:
        """Compare once."""
        before = self.last
        try:
            theirs = await take_snapshot(self._pool, self.other)
        except OrbitError as error:
            self.last = Comparison(at_ms=self._clock(), error=str(error), drift=before.drift)
        else:
            self.last = compare(before, own_snapshot(self._tables), theirs, self.other, self._clock())
        self._log(before)
        return self.last

    def document(self) -> dict[str, Any]:
        """Return the last comparison as a JSON document."""
        last = self.last
        return {
            "other": self.other,
            "at": last.at_ms,
            "up": last.is_up,
            "error": last.error,
            "ownDigest": last.own_digest,
            "otherDigest": last.other_digest,
            "differences": len(last.differences),
            "drift": [{"subject": subject, "facts": dict(facts)} for subject, facts in last.drift[:100]],
        }

    async def _run(self) -> None:
        while True:
            await self.compare()
            await asyncio.sleep(self._interval_s)

    def _log(self, before: Comparison) -> None:
        last = self.last
        if last.error is not None:
            if before.error is None:
                log.warning("shadow: %s cannot be compared with: %s", self.other, last.error)
        elif last.drift and last.drift != before.drift:
            subjects = ", ".join(difference.subject for difference in last.drift[:SUBJECTS_IN_LOG_MAX])
            log.warning("shadow: %d differences from %s last: %s", len(last.drift), self.other, subjects)
        elif before.drift and not last.drift:
            log.info("shadow: no difference from %s any more", self.other)


def own_snapshot(tables: Tables) -> RouteFacts:
    """Return our own routes as a snapshot."""
    routes = {topic: route for topic in tables.topics() if (route := tables.lookup(topic)) is not None}
    return snapshot_of(tables.cluster_info(), routes)


def compare(before: Comparison, ours: RouteFacts, theirs: RouteFacts, other: str, now_ms: int) -> Comparison:
    """Return how two snapshots compare. Pure."""
    found = tuple(differences({"here": ours, other: theirs}))
    lasting = {difference.subject for difference in before.differences}
    return Comparison(
        at_ms=now_ms,
        is_up=True,
        own_digest=ours.digest,
        other_digest=theirs.digest,
        differences=found,
        drift=tuple(difference for difference in found if difference.subject in lasting),
    )
