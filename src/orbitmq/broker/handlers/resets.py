"""Setting where a group goes on in a topic (222): here, or by telling the group's clients (220).

Source: Java AdminBrokerProcessor.resetOffsetInner, Broker2Client.resetOffset.
"""

from __future__ import annotations

from orbitmq.broker.groups.offsets import UNKNOWN
from orbitmq.broker.monitoring.progress import stored_queue_ids
from orbitmq.broker.service import BrokerService
from orbitmq.codes import LanguageCode, ResponseCode, Version
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.offsets import encode_offset_list, encode_offset_table
from orbitmq.wire.headers import ResetClientOffset, ResetGroupOffset

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(ResetGroupOffset)
def reset_offset(broker: BrokerService, call: Call[ResetGroupOffset]) -> Reply:
    """Set a group's offsets in a topic; the answer says where each queue goes on."""
    config = broker.tables.topics.get(call.header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"Topic {call.header.topic:.260} does not exist")
    if not broker.config.use_server_side_reset_offset:
        return _tell_clients(broker, call, config)
    return _set_here(broker, call.header, config)


def _set_here(broker: BrokerService, header: ResetGroupOffset, config: TopicConfig) -> Reply:
    if broker.tables.groups.configs.get(header.group) is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group:.260} does not exist")
    wanted = _wanted(broker, header, config)
    if not wanted:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    offsets = {}
    for queue_id, offset in wanted.items():
        end = broker.store.max_offset(header.topic, queue_id)
        place = (header.topic, header.group, queue_id)
        queue = MessageQueue(header.topic, broker.config.broker_name, queue_id)
        offsets[queue] = broker.tables.offsets.reset(header.group, header.topic, queue_id, offset, offset_max=end)
        broker.delivery.pop.go_on_elsewhere(place)
        broker.delivery.pop.wake_in_order(place)
    # Readers that wait at the end of a queue are told now, and not when a message comes.
    broker.delivery.pulls.end_waits(header.topic, frozenset(broker.clients.members.connections(header.group)))
    return Reply(body=encode_offset_table(offsets))


def _wanted(broker: BrokerService, header: ResetGroupOffset, config: TopicConfig) -> dict[int, int]:
    """Return the new offset of each queue that is meant."""
    topic = header.topic
    if header.queue_id < 0:
        return {
            queue_id: _offset_at(broker, topic, queue_id, header.timestamp_ms)
            for queue_id in stored_queue_ids(broker.store, topic, config.read_queue_count)
        }
    broker.tables.topics.check_queue(topic, header.queue_id)
    if header.offset is None or header.offset == -1:
        return {header.queue_id: _offset_at(broker, topic, header.queue_id, header.timestamp_ms)}
    begin, end = broker.store.min_offset(topic, header.queue_id), broker.store.max_offset(topic, header.queue_id)
    if not begin <= header.offset <= end:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR, f"Target offset {header.offset} not in consume queue range [{begin}-{end}]"
        )
    return {header.queue_id: header.offset}


def _offset_at(broker: BrokerService, topic: str, queue_id: int, timestamp_ms: int) -> int:
    if timestamp_ms < 0:
        return broker.store.max_offset(topic, queue_id)
    return broker.store.offset_at(topic, queue_id, timestamp_ms)


def _tell_clients(broker: BrokerService, call: Call[ResetGroupOffset], config: TopicConfig) -> Reply:
    """Push the new offsets to the group's clients: they commit them, each for its own queues."""
    header = call.header
    offsets = _offsets_of_clients(broker, header, config)
    group = broker.clients.members.find(header.group)
    if group is None:
        raise Rejected(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
            f"Timestamp: {header.timestamp_ms}",
        )
    oldest = min(member.version for member in group.members.values())
    if oldest < Version.V3_0_7_SNAPSHOT:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"the client does not support this feature. version={oldest}")
    body = encode_offset_table(offsets)
    is_cpp = call.command.language == LanguageCode.CPP.name
    pushed = ResetClientOffset(group=header.group, topic=header.topic, timestamp_ms=header.timestamp_ms)
    for connection in broker.clients.members.connections(header.group):
        connection.send_oneway(pushed, encode_offset_list(offsets) if is_cpp else body)
    return Reply(body=body)


def _offsets_of_clients(
    broker: BrokerService, header: ResetGroupOffset, config: TopicConfig
) -> dict[MessageQueue, int]:
    offsets = {}
    for queue_id in range(config.write_queue_count):
        committed = broker.tables.offsets.query(header.group, header.topic, queue_id)
        if committed == UNKNOWN:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group:.260}> not exist")
        wanted = _offset_at(broker, header.topic, queue_id, header.timestamp_ms)
        queue = MessageQueue(header.topic, broker.config.broker_name, queue_id)
        offsets[queue] = wanted if header.is_force or wanted < committed else committed
    return offsets
