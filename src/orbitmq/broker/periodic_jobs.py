"""The periodic jobs of a running broker."""

from __future__ import annotations

from orbitmq.broker.housekeeping import TURN_MS, Housekeeping, PeriodicJob
from orbitmq.broker.persistence import OffsetFile, TableNotes
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.retention import TopicRetention
from orbitmq.clock import Clock
from orbitmq.net.security.server_security import ServerSecurity

SWEEP_MS = 5_000
"""How often held pulls (Java: PullRequestHoldService), accounts and certificates are looked through."""
CLIENT_SCAN_MS = 10_000
RETENTION_MS = 10_000
"""How long messages may be shown beyond their topic's time."""


def broker_housekeeping(
    service: BrokerService,
    offset_file: OffsetFile,
    table_notes: TableNotes,
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
            PeriodicJob(save_ms, table_notes.save),
        ]
    )
