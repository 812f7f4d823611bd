"""Sending: one message (10, 310) or a batch (320).

The checks come in Java's order (facts D1). A message that asks for a delay level waits in the schedule topic; one that
this version could only mistreat, that asks for a timer or a transaction, is refused, never delivered as if it had not.
"""

from __future__ import annotations

from functools import lru_cache

from orbitmq.address import parse_address
from orbitmq.broker.delivery.delay import level_of, schedule
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import CLOSED_TO_CLIENTS, check_topic_name
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, InvalidArgument, Rejected, StoreUnavailable
from orbitmq.model.message import PROPERTIES_SIZE_MAX, Host, PropertyName, SysFlag
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, Perm, TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store.values import AppendResult, Draft
from orbitmq.wire.batch import parse_batch
from orbitmq.wire.headers import SendBatch, SendMessage, SendMessageV2, SendResponse
from orbitmq.wire.message_id import offset_message_id
from orbitmq.wire.properties import format_properties, parse_properties

handlers: Handlers[BrokerService] = Handlers()

SendHeader = SendMessage | SendMessageV2
SendCall = Call[SendMessage] | Call[SendMessageV2] | Call[SendBatch]

_WRITE = int(Perm.WRITE)  # an IntFlag's `&` is a Python function, this one runs for every message
_WAIT = b"WAIT\x01true\x02"
_NOT_YET = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
_OF_THE_BATCH_ALONE = ("UNIQ_KEY", "WAIT", "TAGS", "KEYS")
_ILLEGAL_REMARK = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit {body} bytes, msg properties length limit {properties} bytes"
)


@handlers.on(SendMessage)
def send_message(service: BrokerService, call: Call[SendMessage]) -> Reply | Later:
    """Store one message of an older client."""
    return store_one(service, call)


@handlers.on(SendMessageV2)
def send_message_v2(service: BrokerService, call: Call[SendMessageV2]) -> Reply | Later:
    """Store one message, or a batch that travels under this code."""
    return store_batch(service, call) if call.header.batch else store_one(service, call)


@handlers.on(SendBatch)
def send_batch(service: BrokerService, call: Call[SendBatch]) -> Reply | Later:
    """Store many messages of one queue."""
    return store_batch(service, call)


def store_one(service: BrokerService, call: SendCall) -> Reply | Later:
    """Check one message, append it, and answer when it is as safe as the flush mode promises."""
    header = call.header
    config = find_topic(service, header, call.now_ms)
    if header.sys_flag & SysFlag.TRANSACTION_MASK:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "transactional messages are not supported by this version")
    draft = Draft(
        config.topic,
        choose_queue(service, config, header),
        call.command.body,
        (header.properties or "").encode(),
        header.flag,
        header.sys_flag,
        header.born_at_ms,
        host_of(call.connection.remote),
        header.reconsume_times or 0,
    )
    check_sizes(service, len(draft.body), 0)
    plain = plain_properties(service, draft.properties)
    stored = _unusual(service, draft) if plain is None else draft._replace(properties=plain)
    check_sizes(service, 0, len(stored.properties))
    try:
        result = service.store.append(stored)
    except StoreUnavailable as error:
        raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None
    if stored.topic == SCHEDULE_TOPIC:
        service.delay_wake()
    service.stats.put_count += 1
    service.stats.put_size += result.size
    return answer_when_durable(service, call, draft.queue_id, [result])


def store_batch(service: BrokerService, call: SendCall) -> Reply | Later:
    """Check a batch, append it in one piece, and answer like one message."""
    header = call.header
    if header.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
    config = find_topic(service, header, call.now_ms)
    queue_id = choose_queue(service, config, header)
    shared = _shared_properties(service, header.properties or "")
    born_host = host_of(call.connection.remote)
    drafts = []
    for item in parse_batch(call.command.body):
        properties = _with_shared(service, item.properties, shared)
        check_sizes(service, len(item.body), len(properties))
        drafts.append(
            Draft(
                config.topic, queue_id, item.body, properties, item.flag, header.sys_flag, header.born_at_ms, born_host
            )
        )
    if not drafts:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
    try:
        results = service.store.append_batch(drafts)
    except StoreUnavailable as error:
        raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None
    service.stats.put_count += len(results)
    service.stats.put_size += sum(result.size for result in results)
    return answer_when_durable(service, call, queue_id, results)


def find_topic(service: BrokerService, header: SendHeader, now_ms: int) -> TopicConfig:
    """Return the topic's configuration, made where that is allowed.

    Raises:
        Rejected: 14, 16, 17 or 29 in Java's order.
    """
    topic = header.topic
    config = service.topics.get(topic)
    if config is not None and config.perm & _WRITE and service.is_writable and topic not in CLOSED_TO_CLIENTS:
        if topic.startswith(RETRY_PREFIX) and header.reconsume_times:
            return _retry_or_dead_letter(service, header, config, now_ms)
        return config
    if not service.is_writable:
        raise Rejected(
            ResponseCode.NO_PERMISSION,
            f"the broker[{service.host.ip}] sending message is forbidden: no write permission",
        )
    check_topic_name(topic)
    if topic in CLOSED_TO_CLIENTS:
        raise Rejected(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
    if config is not None:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
    return _create_topic(service, header, now_ms)


def _create_topic(service: BrokerService, header: SendHeader, now_ms: int) -> TopicConfig:
    topic = header.topic
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        config = service.topics.create_retry_topic(topic, 1, now_ms)
    else:
        config = service.topics.auto_create(topic, header.default_topic, header.default_topic_queue_nums, now_ms)
    if config is None:
        raise Rejected(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic[{topic}] not exist, apply first please! "
            "(create it with `orbitmq topic create` or mqadmin updateTopic, or set autoCreateTopicEnable=true)",
        )
    service.topics_changed()
    return config


def _retry_or_dead_letter(service: BrokerService, header: SendHeader, config: TopicConfig, now_ms: int) -> TopicConfig:
    """A message that came back more often than its group allows goes to the group's dead letters."""
    name = header.topic.removeprefix(RETRY_PREFIX)
    group = service.find_group(name, now_ms)
    if group is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}")
    times_max = group.retry_times_max if header.max_reconsume_times is None else header.max_reconsume_times
    if (header.reconsume_times or 0) <= times_max:
        return config
    dead_letters = DLQ_PREFIX + name
    found = service.topics.get(dead_letters) or service.topics.create_retry_topic(dead_letters, 1, now_ms)
    if found is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"topic[{dead_letters}] cannot be created: too many topics")
    service.topics_changed()
    return found


def choose_queue(service: BrokerService, config: TopicConfig, header: SendHeader) -> int:
    """Return the queue that the client asked for; below 0 it leaves the choice to us."""
    queue_id = header.queue_id
    if config.topic is not header.topic and config.topic != header.topic:
        return 0  # dead letters have one queue
    if queue_id < 0:
        return service.random.randrange(config.write_queue_count)
    if queue_id >= config.write_queue_count and queue_id >= config.read_queue_count:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, topic[{config.topic}] has {config.write_queue_count} queues",
        )
    return queue_id


def plain_properties(service: BrokerService, properties: bytes) -> bytes | None:
    """Return the stored form of properties that ask for nothing special, None for all others."""
    if (  # spelled out: a loop over four names costs a tenth of a microsecond each, for every message
        b"DELAY\x01" in properties
        or b"TIMER_DEL" in properties
        or b"TRAN_MSG\x01" in properties
        or b"CLUSTER\x01" in properties
    ):
        return None
    if _WAIT in properties:
        properties = _without_wait(properties)
    if properties and properties[-1] != 2:
        return properties + b"\x02" + service.cluster_property
    return properties + service.cluster_property


def _without_wait(properties: bytes) -> bytes:
    """Nobody reads WAIT after the send; Java does not store it either."""
    if properties.startswith(_WAIT):
        return properties[len(_WAIT) :]
    return properties.replace(b"\x02" + _WAIT, b"\x02", 1)


def _unusual(service: BrokerService, draft: Draft) -> Draft:
    """Return the stored form of a message whose properties ask for something special."""
    properties = _checked_properties(service, draft.properties)
    level = level_of(properties)
    try:
        if level:
            return schedule(draft, properties, level)
        return draft._replace(properties=format_properties(properties))
    except InvalidArgument as error:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None


def _checked_properties(service: BrokerService, encoded: bytes) -> dict[str, str]:
    """Parse properties, give them this cluster's name, and refuse what is not there yet with 13."""
    try:
        properties = parse_properties(encoded)
    except UnicodeDecodeError as error:
        raise HeaderError(f"properties: {error}") from None
    for name in _NOT_YET:
        if name in properties:
            raise Rejected(
                ResponseCode.MESSAGE_ILLEGAL, f"the property {name} asks for a timer, which this version does not have"
            )
    if properties.get(PropertyName.TRAN_MSG, "false").lower() == "true":
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "transactional messages are not supported by this version")
    properties.pop(PropertyName.WAIT, None)
    properties[PropertyName.CLUSTER] = service.config.broker_cluster_name
    return properties


def _shared_properties(service: BrokerService, text: str) -> dict[str, str]:
    """Return what the batch's header gives every message that has none of its own."""
    properties = _checked_properties(service, text.encode())
    if level_of(properties):
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
    del properties[PropertyName.CLUSTER]
    return {name: value for name, value in properties.items() if name not in _OF_THE_BATCH_ALONE}


def _with_shared(service: BrokerService, encoded: bytes, shared: dict[str, str]) -> bytes:
    plain = plain_properties(service, encoded)
    if plain is not None and not shared:
        return plain
    properties = _checked_properties(service, encoded)
    if level_of(properties):
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a message of a batch cannot be delayed")
    try:
        return format_properties({**shared, **properties})
    except InvalidArgument as error:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None


def check_sizes(service: BrokerService, body_size: int, properties_size: int) -> None:
    """Raise Rejected 13 when body or properties are longer than allowed."""
    if body_size > service.config.max_message_size or properties_size > PROPERTIES_SIZE_MAX:
        limits = {"body": service.config.max_message_size, "properties": PROPERTIES_SIZE_MAX}
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL_REMARK.format(**limits))


def answer_when_durable(
    service: BrokerService, call: SendCall, queue_id: int, results: list[AppendResult]
) -> Reply | Later:
    """Answer now, or after the group commit that covers the last message."""
    reply = Reply(
        header=SendResponse(
            message_id=",".join([offset_message_id(service.host, result.physical_offset) for result in results]),
            queue_id=queue_id,
            queue_offset=results[0].queue_offset,
            region_id=service.config.region_id,
            trace_on=service.trace_on,
        )
    )

    def synced(is_durable: bool) -> None:
        call.answer(reply if is_durable else _NOT_DURABLE)

    return reply if service.store.wait_durable(results[-1].end, synced) else LATER


_NOT_DURABLE = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk refused to keep the message: it is not acknowledged")


@lru_cache(maxsize=65_536)
def host_of(remote: str) -> Host:
    """Return a connection's peer as messages carry it."""
    return Host(*parse_address(remote))
