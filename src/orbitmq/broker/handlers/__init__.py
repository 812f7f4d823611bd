"""The broker's handlers, one module per family of requests; HANDLERS holds them all."""

from orbitmq.broker.handlers import (
    admin,
    all_clients,
    assignments,
    cleaning,
    clients,
    consumer_queries,
    groups,
    not_supported,
    notifications,
    offsets,
    pop,
    pop_acks,
    pull,
    queries,
    queue_locks,
    recall,
    replication,
    replies,
    resets,
    rules,
    send,
    send_back,
    settings,
    static_topics,
    stats,
    timers,
    topics,
    transactions,
    users,
)
from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()

for _family in (
    admin,
    all_clients,
    assignments,
    cleaning,
    clients,
    consumer_queries,
    groups,
    not_supported,
    offsets,
    queries,
    queue_locks,
    recall,
    replication,
    replies,
    resets,
    send_back,
    static_topics,
    stats,
    topics,
    transactions,
):
    HANDLERS.include(_family.handlers)
HANDLERS.include(send.handlers, lambda broker: broker.sends.sending)
HANDLERS.include(pull.handlers, pull.PullTables.of)
for _of_pop in (pop, pop_acks, notifications):
    HANDLERS.include(_of_pop.handlers, pop.PopTables.of)
HANDLERS.include(timers.handlers, lambda broker: broker.sends.timers)
HANDLERS.include(settings.handlers, lambda broker: broker.settings)
for _of_access in (users, rules):
    HANDLERS.include(_of_access.handlers, lambda broker: broker.access)
