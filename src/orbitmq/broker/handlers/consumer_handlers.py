"""The handlers for what consumers ask, each family with the part of the broker that it works on."""

from __future__ import annotations

from orbitmq.broker.handlers import (
    assignments,
    clients,
    notifications,
    offsets,
    pop,
    pop_acks,
    pull,
    queries,
    queue_locks,
)
from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()


def pull_tables(broker: BrokerService) -> pull.PullTables:
    """Return what the handlers of pulls work on."""
    config, tables = broker.config, broker.tables
    return pull.PullTables(
        store=broker.store,
        pulls=broker.delivery.pulls,
        filters=broker.delivery.filters,
        topics=tables.topics,
        groups=tables.groups,
        auto_creation=tables.auto_creation,
        members=broker.clients.membership.members,
        offsets=tables.offsets,
        ip=broker.address.host.ip,
        is_readable=broker.is_readable,
        is_unsettled=broker.is_unsettled,
        suspend_ms=None if config.long_polling_enable else config.short_polling_time_mills,
    )


def _offsets(broker: BrokerService) -> offsets.OffsetTables:
    tables = broker.tables
    return offsets.OffsetTables(
        store=broker.store,
        topics=tables.topics,
        offsets=tables.offsets,
        groups=tables.groups,
        pop=broker.delivery.pop,
        broker_name=broker.config.broker_name,
    )


def pop_tables(broker: BrokerService) -> pop.PopTables:
    """Return what the handlers of POP work on."""
    tables = broker.tables
    return pop.PopTables(
        store=broker.store,
        answers=broker.sends.sending.answers,
        pop=broker.delivery.pop,
        filters=broker.delivery.filters,
        topics=tables.topics,
        groups=tables.groups,
        auto_creation=tables.auto_creation,
        broker_name=broker.config.broker_name,
        ip=broker.address.host.ip,
        is_readable=broker.is_readable,
        is_unsettled=broker.is_unsettled,
        stats=broker.monitoring.stats,
    )


def _assignments(broker: BrokerService) -> assignments.AssignmentTables:
    tables = broker.tables
    return assignments.AssignmentTables(
        modes=tables.request_modes,
        routes=broker.clients.routes,
        members=broker.clients.membership.members,
        topics=tables.topics,
        groups=tables.groups,
        broker_name=broker.config.broker_name,
    )


def _clients(broker: BrokerService) -> clients.ClientTables:
    return clients.ClientTables(
        auto_creation=broker.tables.auto_creation,
        membership=broker.clients.membership,
        filters=broker.delivery.filters,
    )


def _locks(broker: BrokerService) -> queue_locks.LockTables:
    return queue_locks.LockTables(locks=broker.clients.locks, clock=broker.context.monotonic)


def _queries(broker: BrokerService) -> queries.QueryTables:
    config = broker.config
    return queries.QueryTables(
        store=broker.store,
        members=broker.clients.membership.members,
        unique_count_max=config.default_query_max_num,
        count_max=config.max_msgs_num_batch,
    )


HANDLERS.include(pull.handlers, pull_tables)
HANDLERS.include(offsets.handlers, _offsets)
for _pops in (pop.handlers, pop_acks.handlers, notifications.handlers):
    HANDLERS.include(_pops, pop_tables)
HANDLERS.include(assignments.handlers, _assignments)
HANDLERS.include(clients.handlers, _clients)
HANDLERS.include(queue_locks.handlers, _locks)
HANDLERS.include(queries.handlers, _queries)
