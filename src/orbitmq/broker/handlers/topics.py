"""Topics: create, delete, list (17, 215, 21, 351, 305), who reads them (300), where they stand (202, 208)."""

from __future__ import annotations

from orbitmq.broker.groups.offsets import UNKNOWN
from orbitmq.broker.handlers.pull import retry_parked
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import check_topic_name, is_system_topic, parse_attribute_changes, system_topics
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.groups import encode_group_list
from orbitmq.wire.bodies.topics import (
    Progress,
    QueueStats,
    TopicTable,
    encode_consume_stats,
    encode_topic_config,
    encode_topic_list,
    encode_topic_stats,
    encode_topic_table,
)
from orbitmq.wire.headers import (
    CreateTopic,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetConsumeStats,
    GetSystemTopicsOfBroker,
    GetTopicConfig,
    GetTopicStats,
    QueryTopicConsumers,
)

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(CreateTopic)
def create_topic(service: BrokerService, call: Call[CreateTopic]) -> Reply | Later:
    """Create or change a topic; the answer comes when the NameServers know it, so that its route can be asked."""
    header = call.header
    _check_may_change(header.topic)
    service.topics.update(
        TopicConfig(
            topic=header.topic,
            read_queue_count=header.read_queue_nums,
            write_queue_count=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type or "SINGLE_TAG",
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=parse_attribute_changes(header.attributes),
        ),
        call.now_ms,
    )
    service.topics_changed(lambda: call.answer(Reply()))
    return LATER


@handlers.on(DeleteTopicInBroker)
def delete_topic(service: BrokerService, call: Call[DeleteTopicInBroker]) -> Reply | Later:
    """Delete a topic with its queues and everybody's offsets in it."""
    topic = call.header.topic
    _check_may_change(topic)
    if service.topics.delete(topic, call.now_ms):
        service.store.delete_topic(topic)
        service.offsets.forget_topic(topic)
        for pull in service.polls.take_queue(topic):
            retry_parked(service, pull)
    service.topics_changed(lambda: call.answer(Reply()))
    return LATER


def _check_may_change(topic: str) -> None:
    check_topic_name(topic)
    if is_system_topic(topic):
        raise Rejected(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")


@handlers.on(GetAllTopicConfig)
def get_all_topic_config(service: BrokerService, call: Call[GetAllTopicConfig]) -> Reply:
    """Answer with the whole topic table."""
    return Reply(body=encode_topic_table(TopicTable(service.topics.version, service.topics.all)))


@handlers.on(GetTopicConfig)
def get_topic_config(service: BrokerService, call: Call[GetTopicConfig]) -> Reply:
    """Answer with one topic's configuration."""
    return Reply(body=encode_topic_config(_find(service, call.header.topic)))


@handlers.on(GetSystemTopicsOfBroker)
def get_system_topics(service: BrokerService, call: Call[GetSystemTopicsOfBroker]) -> Reply:
    """Answer with the topics that this broker made for itself."""
    return Reply(body=encode_topic_list(config.topic for config in system_topics(service.config)))


@handlers.on(QueryTopicConsumers)
def query_topic_consumers(service: BrokerService, call: Call[QueryTopicConsumers]) -> Reply:
    """Answer with the groups that read a topic now or have offsets in it."""
    topic = call.header.topic
    groups = dict.fromkeys(service.clients.groups_of(topic) + service.offsets.groups_of(topic))
    return Reply(body=encode_group_list(groups))


@handlers.on(GetTopicStats)
def get_topic_stats(service: BrokerService, call: Call[GetTopicStats]) -> Reply:
    """Answer with the bounds of every queue of a topic, also of the empty ones."""
    stats = {}
    for queue in _queues(service, _find(service, call.header.topic)):
        end = service.store.max_offset(queue.topic, queue.queue_id)
        stats[queue] = QueueStats(
            service.store.min_offset(queue.topic, queue.queue_id), end, _stored_at_ms(service, queue, end - 1)
        )
    return Reply(body=encode_topic_stats(stats))


@handlers.on(GetConsumeStats)
def get_consume_stats(service: BrokerService, call: Call[GetConsumeStats]) -> Reply:
    """Answer with how far a group is behind in every queue of its topics."""
    group = call.header.consumer_group
    stats = {}
    for topic in _topics_of(service, call.header):
        config = service.topics.get(topic)
        for queue in _queues(service, config) if config is not None else ():
            committed = service.offsets.query(group, topic, queue.queue_id)
            place = 0 if committed == UNKNOWN else committed
            end = service.store.max_offset(topic, queue.queue_id)
            stats[queue] = Progress(end, place, place, _stored_at_ms(service, queue, place - 1))
    return Reply(body=encode_consume_stats(stats))


def _topics_of(service: BrokerService, header: GetConsumeStats) -> list[str]:
    if header.topic:
        return [header.topic]
    if header.topic_list:
        return [topic for topic in header.topic_list.split(";") if topic]
    consumers = service.clients.find(header.consumer_group)
    subscribed = [] if consumers is None else list(consumers.subscriptions)
    return list(dict.fromkeys(subscribed + service.offsets.topics_of(header.consumer_group)))


def _find(service: BrokerService, topic: str) -> TopicConfig:
    config = service.topics.get(topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic:.140}")
    return config


def _queues(service: BrokerService, config: TopicConfig) -> list[MessageQueue]:
    count = max(config.read_queue_count, config.write_queue_count)
    return [MessageQueue(config.topic, service.config.broker_name, queue_id) for queue_id in range(count)]


def _stored_at_ms(service: BrokerService, queue: MessageQueue, queue_offset: int) -> int:
    """Return when one message was stored, 0 when it is not there."""
    record = service.record_in(queue.topic, queue.queue_id, queue_offset) if queue_offset >= 0 else None
    return record.stored_at_ms if record is not None else 0
