"""The handlers for what operators, tools and slaves ask, each family with the part of the broker that it works on."""

from __future__ import annotations

from orbitmq.broker.handlers import (
    admin,
    cleaning,
    consumer_queries,
    groups,
    not_supported,
    replication,
    resets,
    rules,
    settings,
    static_topics,
    stats,
    topics,
    users,
)
from orbitmq.broker.handlers.all_clients import ClientInsight
from orbitmq.broker.handlers.all_clients import handlers as all_clients
from orbitmq.broker.registration.addresses import vip_port
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.system_topics import system_topic_names
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()


def _resets(broker: BrokerService) -> resets.ResetTables:
    tables, config = broker.tables, broker.config
    return resets.ResetTables(
        store=broker.store,
        topics=tables.topics,
        groups=tables.groups,
        offsets=tables.offsets,
        members=broker.clients.membership.members,
        pulls=broker.delivery.pulls,
        pop=broker.delivery.pop,
        broker_name=config.broker_name,
        is_server_side=config.use_server_side_reset_offset,
    )


def _consumer_queries(broker: BrokerService) -> consumer_queries.ConsumerQueryTables:
    return consumer_queries.ConsumerQueryTables(
        consumer_queries=broker.clients.queries,
        store=broker.store,
        topics=broker.tables.topics,
        groups=broker.tables.groups,
        broker_name=broker.config.broker_name,
    )


def _topics(broker: BrokerService) -> topics.TopicTables:
    config = broker.config
    return topics.TopicTables(
        topics=broker.tables.topics,
        store=broker.store,
        pulls=broker.delivery.pulls,
        pop=broker.delivery.pop,
        timers=broker.sends.timers,
        members=broker.clients.membership.members,
        offsets=broker.tables.offsets,
        broker_name=config.broker_name,
        system_topics=system_topic_names(config),
        stats=broker.monitoring.stats,
        takes_mixed=config.enable_mixed_message_type,
        clears_retries=config.clear_retry_topic_when_delete_topic,
        creations=broker.monitoring.topic_creations,
        slave_port=vip_port(broker.address.host.port),
    )


def _static_topics(broker: BrokerService) -> static_topics.StaticTopicTables:
    return static_topics.StaticTopicTables(topics=broker.tables.topics, pulls=broker.delivery.pulls)


def _cleaning(broker: BrokerService) -> cleaning.CleaningTables:
    return cleaning.CleaningTables(store=broker.store, topics=broker.tables.topics, pulls=broker.delivery.pulls)


def _groups(broker: BrokerService) -> groups.GroupTables:
    tables = broker.tables
    return groups.GroupTables(
        groups=tables.groups,
        auto_creation=tables.auto_creation,
        offsets=tables.offsets,
        ordered=broker.delivery.pop.ordered,
        topics=tables.topics,
        members=broker.clients.membership.members,
        stats=broker.monitoring.stats,
        creations=broker.monitoring.group_creations,
    )


def _all_clients(broker: BrokerService) -> ClientInsight:
    return ClientInsight(
        members=broker.clients.membership.members,
        offsets=broker.tables.offsets,
        address=broker.address.announced,
        monotonic=broker.context.monotonic,
    )


def _stats(broker: BrokerService) -> stats.StatsTables:
    return stats.StatsTables(
        stats=broker.monitoring.stats,
        store=broker.store,
        topics=broker.tables.topics,
        groups=broker.tables.groups,
        members=broker.clients.membership.members,
        offsets=broker.tables.offsets,
        broker_name=broker.config.broker_name,
        cluster=broker.config.broker_cluster_name,
        address=broker.address.announced,
    )


def _replication(broker: BrokerService) -> replication.ReplicationTables:
    return replication.ReplicationTables(
        store=broker.store,
        address=broker.address,
        log_end_at_start=broker.log_end_at_start,
        slaves=lambda: broker.slave_listener.slaves,
        master=lambda: broker.following.log.master if broker.config.is_slave else None,
        names=(broker.config.broker_cluster_name, broker.config.broker_name),
        role=broker.context.role,
        epochs=broker.context.epochs,
    )


def _admin(broker: BrokerService) -> admin.AdminTables:
    return admin.AdminTables(
        runtime_info=broker.runtime_info,
        offsets=broker.tables.offsets,
        delays=broker.sends.delays,
        monitoring=broker.monitoring,
    )


HANDLERS.include(resets.handlers, _resets)
HANDLERS.include(consumer_queries.handlers, _consumer_queries)
HANDLERS.include(topics.handlers, _topics)
HANDLERS.include(static_topics.handlers, _static_topics)
HANDLERS.include(cleaning.handlers, _cleaning)
HANDLERS.include(groups.handlers, _groups)
HANDLERS.include(all_clients, _all_clients)
HANDLERS.include(stats.handlers, _stats)
HANDLERS.include(replication.handlers, _replication)
HANDLERS.include(admin.handlers, _admin)
HANDLERS.include(settings.handlers, lambda broker: broker.settings)
for _of_access in (users.handlers, rules.handlers):
    HANDLERS.include(_of_access, lambda broker: broker.access)
HANDLERS.include(not_supported.handlers)
