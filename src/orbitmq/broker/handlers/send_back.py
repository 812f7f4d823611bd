"""CONSUMER_SEND_MSG_BACK (36): a consumer could not process a message and wants it again later.

The message is stored once more for the group alone, under `%RETRY%group`, after a delay that grows with every attempt;
when the attempts are used up it goes to `%DLQ%group`.

Source: Java AbstractSendMessageProcessor.consumerSendMsgBack.
"""

from __future__ import annotations

from orbitmq.broker.delivery.delay import properties_again
from orbitmq.broker.sending.answers import refusal_of, when_safe
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.registry import dead_letter_topic, retry_topic
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import Perm, TopicConfig
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.store import Draft
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import ConsumerSendBack
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import Record
from orbitmq.wire.pop.handles import normal_topic

handlers: Handlers[BrokerService] = Handlers()

FIRST_RETRY_LEVEL = 3
"""10 s; every further attempt waits one level longer."""


@handlers.on(ConsumerSendBack)
def send_back(broker: BrokerService, call: Call[ConsumerSendBack]) -> Reply | Later:
    """Store a message again for its group, delayed; or with the dead letters."""
    header = call.header
    group = broker.tables.groups.find(header.group, call.now_ms)
    if group is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group:.260}")
    if not broker.is_writable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the broker[{broker.address.host.ip}] sending message is forbidden")
    if group.retry_queue_count <= 0:
        return Reply()
    config = _topic(broker, retry_topic(group.group), group.retry_queue_count, call.now_ms)
    record = _find_record(broker, header.physical_offset)
    draft = _again(broker, call, group, config, record)
    try:
        result = broker.store.append(draft)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    broker.sends.delays.wake()
    broker.monitoring.stats.send_backs.add((record.topic, group.group), 1, 0)

    return when_safe(broker.sends.sending.answers, call, result.end)


def _find_record(broker: BrokerService, physical_offset: int) -> Record:
    record = broker.store.parsed_at(physical_offset)
    if record is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {physical_offset}")
    return record


def _again(
    broker: BrokerService, call: Call[ConsumerSendBack], group: GroupConfig, retries: TopicConfig, record: Record
) -> Draft:
    """Return the message as its group gets it next: delayed in the topic of its retries, or as a dead letter."""
    header = call.header
    properties = properties_again(record)
    properties.setdefault(PropertyName.RETRY_TOPIC, normal_topic(record.topic, group.group))
    properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.physical_offset))
    times_max = group.retry_times_max if header.max_reconsume_times is None else header.max_reconsume_times
    if record.reconsume_times >= times_max or header.delay_level < 0:
        # Of a popped message Java's brokers note there the topic of its retries.
        properties["DLQ_ORIGIN_TOPIC"] = normal_topic(properties[PropertyName.RETRY_TOPIC], group.group)
        properties["DLQ_ORIGIN_MESSAGE_ID"] = properties[PropertyName.ORIGIN_MESSAGE_ID]
        properties[PropertyName.DELAY] = "0"
        config = _topic(broker, dead_letter_topic(group.group), 1, call.now_ms)
        return _draft(broker, config, 1, properties, record)
    draft = _draft(broker, retries, group.retry_queue_count, properties, record)
    level = header.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times
    return broker.sends.delays.waiting(draft, properties, level)


def _draft(
    broker: BrokerService, config: TopicConfig, queue_count: int, properties: dict[str, str], record: Record
) -> Draft:
    return Draft(
        config.topic,
        broker.context.random.randrange(max(1, min(queue_count, config.write_queue_count))),
        bytes(record.body),
        format_properties(properties),
        record.flag,
        record.sys_flag,
        record.born_at_ms,
        record.born_host,
        min(record.reconsume_times + 1, 2**31 - 1),  # what a record can hold
    )


def _topic(broker: BrokerService, topic: str, queue_count: int, now_ms: int) -> TopicConfig:
    config = broker.tables.topics.create_retry_topic(topic, queue_count, now_ms)
    if config is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"topic[{topic}] not exist")
    if not config.perm & int(Perm.WRITE):
        raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
    return config
