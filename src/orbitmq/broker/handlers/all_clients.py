"""Producers and subscriptions of the whole broker (328, 345), and the topics that a group reads (343).

Source: Java AdminBrokerProcessor, ProducerManager.getProducerTable.
"""

from __future__ import annotations

from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.groups import ProducerInfo, encode_group_subscription, encode_producer_table
from orbitmq.wire.bodies.topics import encode_topic_list
from orbitmq.wire.headers import GetAllProducers, QuerySubscription, QueryTopicsOfGroup

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(GetAllProducers)
def get_all_producers(broker: BrokerService, call: Call[GetAllProducers]) -> Reply:
    """Answer with the producers of every group."""
    monotonic_ms = broker.context.monotonic()
    producers = {
        group: [
            ProducerInfo(
                member.client_id,
                member.connection.remote,
                member.language,
                member.version,
                call.now_ms - (monotonic_ms - member.seen_at_ms),
            )
            for member in members.values()
        ]
        for group, members in broker.clients.members.producers.items()
    }
    return Reply(body=encode_producer_table(producers))


@handlers.on(QueryTopicsOfGroup)
def query_topics_of_group(broker: BrokerService, call: Call[QueryTopicsOfGroup]) -> Reply:
    """Answer with the topics that a group has offsets in."""
    return Reply(body=encode_topic_list(broker.tables.offsets.topics_of(call.header.group), broker.address.announced))


@handlers.on(QuerySubscription)
def query_subscription(broker: BrokerService, call: Call[QuerySubscription]) -> Reply:
    """Answer with what a group subscribes to in a topic; without it when no consumer of the group is online."""
    group, topic = call.header.group, call.header.topic
    consumers = broker.clients.members.find(group)
    subscription = None if consumers is None or topic is None else consumers.subscriptions.get(topic)
    return Reply(body=encode_group_subscription(group, topic, subscription))
