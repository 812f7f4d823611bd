"""The broker's handlers, one module per family of requests. HANDLERS holds them all, each with the tables that it uses."""

from orbitmq.broker.handlers import (
    admin,
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
from orbitmq.broker.handlers import all_clients as all_clients
from orbitmq.broker.handlers.pop import PopTables
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.system_topics import system_topic_names
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()


def _send_back_tables(broker: BrokerService) -> send_back.SendBackTables:
    return send_back.SendBackTables(
        broker.store,
        broker.sending.answers,
        broker.topics,
        broker.groups,
        broker.delays,
        broker.address.host.ip,
        broker.is_writable,
        broker.random,
        broker.stats,
    )


def _pull_tables(broker: BrokerService) -> pull.PullTables:
    config = broker.config
    return pull.PullTables(
        broker.store,
        broker.pulls,
        broker.filters,
        broker.topics,
        broker.groups,
        broker.admissions,
        broker.membership.members,
        broker.offsets,
        broker.address.host.ip,
        broker.is_readable,
        None if config.long_polling_enable else config.short_polling_time_mills,
    )


def pop_tables(broker: BrokerService) -> PopTables:
    """Return what the handlers of POP work on."""
    return PopTables(
        broker.store,
        broker.sending.answers,
        broker.pop,
        broker.filters,
        broker.topics,
        broker.groups,
        broker.admissions,
        broker.config.broker_name,
        broker.address.host.ip,
        broker.is_readable,
        broker.stats,
    )


def _assignment_tables(broker: BrokerService) -> assignments.AssignmentTables:
    return assignments.AssignmentTables(
        broker.request_modes,
        broker.routes,
        broker.membership.members,
        broker.topics,
        broker.groups,
        broker.config.broker_name,
    )


def _reply_tables(broker: BrokerService) -> replies.ReplyTables:
    config = broker.config
    return replies.ReplyTables(
        broker.sending,
        broker.reply_pushes,
        config.store_reply_message_enable,
        config.region_id,
        config.trace_on,
    )


def _recall_tables(broker: BrokerService) -> recall.RecallTables:
    config = broker.config
    return recall.RecallTables(
        broker.sending,
        broker.timers,
        config.broker_name,
        config.region_id,
        config.recall_message_enable,
        config.allow_recall_when_broker_not_writeable,
    )


def _query_tables(broker: BrokerService) -> queries.QueryTables:
    config = broker.config
    return queries.QueryTables(
        broker.store, broker.membership.members, config.default_query_max_num, config.max_msgs_num_batch
    )


def _reset_tables(broker: BrokerService) -> resets.ResetTables:
    return resets.ResetTables(
        broker.store,
        broker.topics,
        broker.groups,
        broker.offsets,
        broker.membership.members,
        broker.pulls,
        broker.pop,
        broker.config.broker_name,
        broker.config.use_server_side_reset_offset,
    )


def _consumer_query_tables(broker: BrokerService) -> consumer_queries.ConsumerQueryTables:
    return consumer_queries.ConsumerQueryTables(
        broker.consumer_queries, broker.store, broker.topics, broker.groups, broker.config.broker_name
    )


def _topic_tables(broker: BrokerService) -> topics.TopicTables:
    return topics.TopicTables(
        broker.topics,
        broker.store,
        broker.pulls,
        broker.pop,
        broker.timers,
        broker.membership.members,
        broker.offsets,
        broker.config.broker_name,
        system_topic_names(broker.config),
        broker.stats,
        broker.config.enable_mixed_message_type,
        broker.config.clear_retry_topic_when_delete_topic,
        broker.topic_creations,
    )


def _stats_tables(broker: BrokerService) -> stats.StatsTables:
    return stats.StatsTables(
        broker.stats,
        broker.store,
        broker.topics,
        broker.groups,
        broker.membership.members,
        broker.offsets,
        broker.config.broker_name,
        broker.config.broker_cluster_name,
        broker.address.announced,
    )


def _all_clients(broker: BrokerService) -> all_clients.ClientInsight:
    return all_clients.ClientInsight(
        broker.membership.members, broker.offsets, broker.address.announced, broker.monotonic
    )


def _group_tables(broker: BrokerService) -> groups.GroupTables:
    return groups.GroupTables(
        broker.groups,
        broker.admissions,
        broker.offsets,
        broker.pop.ordered,
        broker.topics,
        broker.membership.members,
        broker.stats,
        broker.group_creations,
    )


HANDLERS.include(send.handlers, lambda broker: broker.sending)
HANDLERS.include(replies.handlers, _reply_tables)
HANDLERS.include(
    transactions.handlers, lambda broker: transactions.TransactionTables(broker.sending.answers, broker.transactions)
)
HANDLERS.include(recall.handlers, _recall_tables)
HANDLERS.include(timers.handlers, lambda broker: broker.timers)
HANDLERS.include(send_back.handlers, _send_back_tables)
HANDLERS.include(pull.handlers, _pull_tables)
HANDLERS.include(
    offsets.handlers,
    lambda broker: offsets.OffsetTables(
        broker.store, broker.topics, broker.offsets, broker.groups, broker.pop, broker.config.broker_name
    ),
)
for _popping in (pop.handlers, pop_acks.handlers, notifications.handlers):
    HANDLERS.include(_popping, pop_tables)
HANDLERS.include(assignments.handlers, _assignment_tables)
HANDLERS.include(
    clients.handlers, lambda broker: clients.ClientTables(broker.admissions, broker.membership, broker.filters)
)
HANDLERS.include(resets.handlers, _reset_tables)
HANDLERS.include(consumer_queries.handlers, _consumer_query_tables)
HANDLERS.include(queue_locks.handlers, lambda broker: queue_locks.LockTables(broker.locks, broker.monotonic))
HANDLERS.include(groups.handlers, _group_tables)
HANDLERS.include(all_clients.handlers, _all_clients)
HANDLERS.include(stats.handlers, _stats_tables)
HANDLERS.include(
    replication.handlers,
    lambda broker: replication.ReplicationTables(
        broker.store,
        broker.address,
        broker.log_end_at_start,
        lambda: broker.slave_listener.slaves,
        lambda: broker.follower.master if broker.config.is_slave else None,
    ),
)
HANDLERS.include(not_supported.handlers)
HANDLERS.include(settings.handlers, lambda broker: broker.settings)
HANDLERS.include(topics.handlers, _topic_tables)
HANDLERS.include(static_topics.handlers, lambda broker: static_topics.StaticTopicTables(broker.topics, broker.pulls))
HANDLERS.include(queries.handlers, _query_tables)
HANDLERS.include(cleaning.handlers, lambda broker: cleaning.CleaningTables(broker.store, broker.topics, broker.pulls))
for _of_access in (users.handlers, rules.handlers):
    HANDLERS.include(_of_access, lambda broker: broker.access)
HANDLERS.include(
    admin.handlers,
    lambda broker: admin.AdminTables(broker.runtime_info, broker.offsets, broker.delays, broker.health),
)
