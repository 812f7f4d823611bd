"""Topics: create, delete, list (17, 18, 215, 21, 351, 305), their groups (300), their offsets (202, 208)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from orbitmq.broker.groups.offsets import UNKNOWN
from orbitmq.broker.monitoring.progress import group_progress, stored_at_ms, stored_queue_ids
from orbitmq.broker.registration.addresses import vip_port
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.attributes import parse_attribute_changes, wants_mixed_messages
from orbitmq.broker.topics.system_topics import is_system_topic
from orbitmq.broker.topics.table import check_topic_name
from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import in_turns, joined
from orbitmq.wire.bodies.groups import encode_group_list
from orbitmq.wire.bodies.static_topics import (
    MappingTable,
    encode_topic_and_mapping,
    encode_topic_and_mapping_table,
)
from orbitmq.wire.bodies.topics import (
    QueueProgress,
    QueueStats,
    TopicTable,
    decode_topic_configs,
    encode_consume_stats,
    encode_topic_config,
    encode_topic_list,
    encode_topic_stats,
    topic_table_parts,
)
from orbitmq.wire.headers import (
    CreateTopic,
    CreateTopics,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetConsumeStats,
    GetSystemTopicsOfBroker,
    GetTopicConfig,
    GetTopicStats,
    QueryTopicConsumers,
)
from orbitmq.wire.pop.handles import RETRY_V1, RETRY_V2, pop_retry_topic

handlers: Handlers[BrokerService] = Handlers()

_TAKE_CHANGES = (Version.V5_3_2, Version.V5_3_3)
"""Java's slaves that take attributes only as changes, and no topic at all where one has others (apache/rocketmq#9499)."""
POP_RETRIES = (RETRY_V2, RETRY_V1)
"""The two forms of the name of a topic of retries."""
LIST_SIZE_MAX = 1024 * 1024
"""Ours: bytes of a list of topics to be made: some five thousand of them."""


@handlers.on(CreateTopic)
def create_topic(broker: BrokerService, call: Call[CreateTopic]) -> Reply | Later:
    """Create or change a topic; the answer comes when the NameServers know it, so that its route can be asked."""
    with broker.monitoring.topic_creations.measure() as made:
        config = _asked_for(broker, call.header)
        broker.tables.topics.update(config, call.now_ms, _answer(call, made))
    return LATER


def _asked_for(broker: BrokerService, header: CreateTopic) -> TopicConfig:
    _check_may_change(broker, header.topic)
    config = wanted_config(header)
    _check_type(broker, config)
    return config


def wanted_config(header: CreateTopic) -> TopicConfig:
    """Return the settings that a request wants a topic to have, with the changes of its attributes.

    Raises:
        Rejected: 1, the attributes cannot be read.
    """
    return TopicConfig(
        topic=header.topic,
        read_queue_count=header.read_queue_nums,
        write_queue_count=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type or "SINGLE_TAG",
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
        attributes=parse_attribute_changes(header.attributes),
    )


def _answer(call: Call[CreateTopic] | Call[CreateTopics], made: Callable[[], None]) -> Callable[[], None]:
    """Return what is called when the topics are made and known."""

    def answer() -> None:
        made()
        call.answer(Reply())

    return answer


@handlers.on(CreateTopics, body_size_max=LIST_SIZE_MAX)
def create_topics(broker: BrokerService, call: Call[CreateTopics]) -> Reply | Later:
    """Create or change many topics, all or none.

    Java changes nothing as soon as one of them is the same as before, and says that it did.
    """
    with broker.monitoring.topic_creations.measure() as made:
        configs = decode_topic_configs(call.command.body, size_max=LIST_SIZE_MAX)
        for config in configs:
            _check_may_change(broker, config.topic)
            _check_type(broker, config)
        broker.tables.topics.update_all(configs, call.now_ms, _answer(call, made))
    return LATER


@handlers.on(DeleteTopicInBroker)
def delete_topic(broker: BrokerService, call: Call[DeleteTopicInBroker]) -> Reply | Later:
    """Delete a topic with its queues, all groups' offsets in it, and the retries of its popped messages."""
    topic = call.header.topic
    _check_may_change(broker, topic)
    retries = _pop_retries(broker, topic) if broker.config.clear_retry_topic_when_delete_topic else []

    def remove() -> None:
        for name in (topic, *retries):
            broker.store.delete_topic(name)
            broker.tables.offsets.forget_topic(name)
            broker.delivery.pulls.answer_topic(name)
            broker.delivery.pop.answer_topic(name)
            broker.monitoring.stats.forget_topic(name)
            broker.sends.timers.metrics.forget(name)

    broker.tables.topics.delete(topic, call.now_ms, remove, lambda: call.answer(Reply()), retries=retries)
    return LATER


def _pop_retries(broker: BrokerService, topic: str) -> list[str]:
    """Return the topics of retries that groups with offsets in a topic have for its popped messages."""
    names = [
        pop_retry_topic(topic, group, kind) for group in broker.tables.offsets.groups_of(topic) for kind in POP_RETRIES
    ]
    return [name for name in dict.fromkeys(names) if broker.tables.topics.get(name) is not None]


def _check_type(broker: BrokerService, config: TopicConfig) -> None:
    if not broker.config.enable_mixed_message_type and wants_mixed_messages(config.attributes):
        raise Rejected(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")


def _check_may_change(broker: BrokerService, topic: str) -> None:
    check_topic_name(topic)
    if is_system_topic(topic) or topic in broker.system_topics:
        raise Rejected(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")


@handlers.on(GetAllTopicConfig)
def get_all_topic_config(broker: BrokerService, call: Call[GetAllTopicConfig]) -> Reply | Later:
    """Answer with the whole topic table, as it is now."""
    table, static = broker.tables.topics.table, broker.tables.topics.static
    found = TopicTable(table.version, table.all)
    if call.command.version in _TAKE_CHANGES and call.connection.local_port == vip_port(broker.address.host.port):
        found = found._replace(topics={name: _with_changes(config) for name, config in found.topics.items()})
    if static.mappings:
        mappings = MappingTable(static.table.version, static.mappings)
        return Reply(body=encode_topic_and_mapping_table(found, mappings))
    return in_turns(call, joined(topic_table_parts(found._replace(topics=dict(found.topics)))))


def _with_changes(config: TopicConfig) -> TopicConfig:
    """Return a topic with its attributes as an administrator's changes, `+name`."""
    if not config.attributes:
        return config
    return replace(config, attributes={f"+{name}": value for name, value in config.attributes.items()})


@handlers.on(GetTopicConfig)
def get_topic_config(broker: BrokerService, call: Call[GetTopicConfig]) -> Reply:
    """Answer with one topic's configuration, and a static topic's mapping where that is asked for."""
    config = broker.tables.topics.get(call.header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {call.header.topic:.260}")
    mapping = broker.tables.topics.static.mappings.get(config.topic)
    if mapping is not None and (call.command.ext_fields or {}).get("lo") == "true":
        return Reply(body=encode_topic_and_mapping(config, mapping))
    return Reply(body=encode_topic_config(config))


@handlers.on(GetSystemTopicsOfBroker)
def get_system_topics(broker: BrokerService, call: Call[GetSystemTopicsOfBroker]) -> Reply:
    """Answer with the names that are this broker's own."""
    return Reply(body=encode_topic_list(broker.system_topics))


@handlers.on(QueryTopicConsumers)
def query_topic_consumers(broker: BrokerService, call: Call[QueryTopicConsumers]) -> Reply:
    """Answer with the groups that read a topic now or have offsets in it."""
    topic = call.header.topic
    groups = dict.fromkeys(broker.clients.members.groups_of(topic) + broker.tables.offsets.groups_of(topic))
    return Reply(body=encode_group_list(groups))


@handlers.on(GetTopicStats)
def get_topic_stats(broker: BrokerService, call: Call[GetTopicStats]) -> Reply:
    """Answer with the bounds of every queue of a topic, also of the empty ones."""
    stats = {}
    config = broker.tables.topics.get(call.header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{call.header.topic:.260}] not exist")
    for queue in _queues(broker, config, config.queue_count):
        end = broker.store.max_offset(queue.topic, queue.queue_id)
        stats[queue] = QueueStats(
            broker.store.min_offset(queue.topic, queue.queue_id), end, stored_at_ms(broker.store, queue, end - 1)
        )
    return Reply(body=encode_topic_stats(stats, broker.monitoring.stats.puts.rate(config.topic)))


@handlers.on(GetConsumeStats)
def get_consume_stats(broker: BrokerService, call: Call[GetConsumeStats]) -> Reply:
    """Answer with how far a group is behind in every queue of its topics."""
    group = call.header.consumer_group
    stats: dict[MessageQueue, QueueProgress] = {}
    rate = 0.0
    for topic in _topics_of(broker, call.header):
        config = broker.tables.topics.get(topic)
        if config is not None:
            count = config.read_queue_count
            # mqadmin looks for a group's place in the items of a logical queue: 0 would be one.
            unknown = UNKNOWN if topic in broker.tables.topics.static.mappings else 0
            pulled = broker.monitoring.stats.pulled
            stats |= group_progress(
                broker.store, broker.tables.offsets, pulled, broker.config.broker_name, group, topic, count, unknown
            )
            rate += broker.monitoring.stats.gets.rate((topic, group))
    return Reply(body=encode_consume_stats(stats, rate))


def _topics_of(broker: BrokerService, header: GetConsumeStats) -> list[str]:
    """Return the topics that are asked for; all that the group has offsets in, but for those it reads no more."""
    if header.topic_list:
        return [topic for topic in header.topic_list.split(";") if topic]
    found = [header.topic] if header.topic else broker.tables.offsets.topics_of(header.consumer_group)
    consumers = broker.clients.members.find(header.consumer_group)
    if consumers is None or not consumers.subscriptions:
        return found
    return [topic for topic in found if topic in consumers.subscriptions]


def _queues(broker: BrokerService, config: TopicConfig, count: int) -> list[MessageQueue]:
    queue_ids = stored_queue_ids(broker.store, config.topic, count)
    return [MessageQueue(config.topic, broker.config.broker_name, queue_id) for queue_id in queue_ids]
