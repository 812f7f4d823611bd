"""CONSUMER_SEND_MSG_BACK (36): a consumer could not process a message and wants it again later.

The message is stored once more for the group alone, under `%RETRY%group`, after a delay that grows with every attempt;
when the attempts are used up it goes to `%DLQ%group`, where people look.

Source: Java AbstractSendMessageProcessor.consumerSendMsgBack; facts D1, D2.
"""

from __future__ import annotations

from orbitmq.broker.delivery.delay import LEVEL_MAX, schedule
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import retry_topic
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import DLQ_PREFIX, Perm, TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store import Draft
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import ConsumerSendBack
from orbitmq.wire.message_id import offset_message_id
from orbitmq.wire.properties import format_properties, parse_properties
from orbitmq.wire.record import Record, parse_record

handlers: Handlers[BrokerService] = Handlers()

FIRST_RETRY_LEVEL = 3
"""10 s; every further attempt waits one level longer."""


@handlers.on(ConsumerSendBack)
def take_back(service: BrokerService, call: Call[ConsumerSendBack]) -> Reply | Later:
    """Store a message again for its group, delayed; or with the dead letters."""
    header = call.header
    group = service.find_group(header.group, call.now_ms)
    if group is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group:.260}")
    if not service.is_writable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the broker[{service.host.ip}] sending message is forbidden")
    if group.retry_queue_count <= 0:
        return Reply()
    record = _find_record(service, header.physical_offset)
    draft = _again(service, call, group, record)
    try:
        result = service.store.append(draft)
    except StoreUnavailable as error:
        raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None
    service.delay_wake()

    def synced(is_durable: bool) -> None:
        refused = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk refused to keep the message")
        call.answer(Reply() if is_durable else refused)

    return Reply() if service.store.wait_durable(result.end, synced) else LATER


def _find_record(service: BrokerService, physical_offset: int) -> Record:
    encoded = service.store.record_at(physical_offset)
    record = None if encoded is None else parse_record(encoded)
    if not isinstance(record, Record):
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {physical_offset}")
    return record


def _again(service: BrokerService, call: Call[ConsumerSendBack], group: GroupConfig, record: Record) -> Draft:
    header = call.header
    properties = parse_properties(record.properties)
    properties.setdefault(PropertyName.RETRY_TOPIC, record.topic)
    properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.physical_offset))
    properties.pop(PropertyName.DELAY, None)
    times_max = group.retry_times_max if header.max_reconsume_times is None else header.max_reconsume_times
    is_dead = record.reconsume_times >= times_max or header.delay_level < 0
    topic = DLQ_PREFIX + group.group if is_dead else retry_topic(group.group)
    queue_count = 1 if is_dead else group.retry_queue_count
    config = _topic(service, topic, queue_count, call.now_ms)
    if is_dead:
        properties["DLQ_ORIGIN_TOPIC"] = properties[PropertyName.RETRY_TOPIC]
        properties["DLQ_ORIGIN_MESSAGE_ID"] = properties[PropertyName.ORIGIN_MESSAGE_ID]
    draft = Draft(
        config.topic,
        service.random.randrange(max(1, min(queue_count, config.write_queue_count))),
        bytes(record.body),
        format_properties(properties),
        record.flag,
        record.sys_flag,
        record.born_at_ms,
        record.born_host,
        record.reconsume_times + 1,
    )
    if is_dead:
        return draft
    level = header.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times
    return schedule(draft, properties, min(level, LEVEL_MAX))


def _topic(service: BrokerService, topic: str, queue_count: int, now_ms: int) -> TopicConfig:
    is_new = service.topics.get(topic) is None
    config = service.topics.create_retry_topic(topic, queue_count, now_ms)
    if config is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"topic[{topic}] not exist")
    if is_new:
        service.topics_changed()
    if not config.perm & int(Perm.WRITE):
        raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
    return config
