"""Housekeeping: the periodic jobs of a broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.persistence import KnownTables, OffsetFile
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.retention import TopicRetention
from orbitmq.clock import Clock
from orbitmq.net.security.server_security import ServerSecurity

log = logging.getLogger(__name__)

TURN_MS = 1_000


class PeriodicJob(NamedTuple):
    """Something to do every `period_ms`; shorter periods than a turn mean every turn."""

    period_ms: int
    run: Callable[[], Awaitable[None] | None]


class Housekeeping:
    """Runs jobs whenever their period is over. One that fails is tried again at its next time, and stops no other.

    What keeps it from being done, a full disk for hours, is logged once.
    """

    def __init__(self, jobs: Sequence[PeriodicJob]) -> None:
        text = "a job of the housekeeping failed, it is tried again"
        self._jobs = [(job, RepeatedFailure(log, text)) for job in jobs]

    async def run(self) -> None:
        """Do what is due, turn by turn. Ends when it is cancelled."""
        elapsed_ms = 0
        while True:
            await asyncio.sleep(TURN_MS / 1000)
            elapsed_ms += TURN_MS
            await self.do_due(elapsed_ms)

    async def do_due(self, elapsed_ms: int) -> None:
        """Run the jobs whose period ends in the turn that ends now.

        Args:
            elapsed_ms: since the start, a multiple of TURN_MS.
        """
        for job, failure in self._jobs:
            if elapsed_ms % job.period_ms >= TURN_MS:
                continue
            try:
                outcome = job.run()
                if outcome is not None:
                    await outcome
            except Exception as error:
                failure.note(error)
            else:
                failure.note(None)


SWEEP_MS = 5_000
"""How often held pulls (Java: PullRequestHoldService), accounts and certificates are looked through."""
CLIENT_SCAN_MS = 10_000
RETENTION_MS = 10_000
"""How long messages may be shown beyond their topic's time."""


def broker_housekeeping(
    service: BrokerService,
    offset_file: OffsetFile,
    known_tables: KnownTables,
    security: ServerSecurity,
    retention: TopicRetention,
    clock: Clock,
    monotonic: Clock,
) -> Housekeeping:
    """Return the jobs of a broker."""
    delivery, clients, stats = service.delivery, service.clients, service.monitoring.stats
    save_ms = service.config.flush_consumer_offset_interval
    return Housekeeping(
        [
            PeriodicJob(TURN_MS, lambda: stats.sample(clock())),
            PeriodicJob(TURN_MS, lambda: stats.sample_flows(monotonic())),
            PeriodicJob(TURN_MS, lambda: delivery.pulls.answer_expired(monotonic())),
            PeriodicJob(SWEEP_MS, delivery.pulls.answer_overtaken),
            PeriodicJob(SWEEP_MS, delivery.pop.wake_overtaken),
            PeriodicJob(SWEEP_MS, security.reload_if_changed),
            PeriodicJob(CLIENT_SCAN_MS, clients.membership.expire),
            PeriodicJob(RETENTION_MS, lambda: retention.hide_expired(service.tables.topics.table.all, service.store)),
            PeriodicJob(CLIENT_SCAN_MS, lambda: clients.locks.expire(monotonic())),
            PeriodicJob(save_ms, offset_file.save),
            PeriodicJob(save_ms, delivery.pop.batch_file.save),
            PeriodicJob(save_ms, known_tables.save),
        ]
    )
