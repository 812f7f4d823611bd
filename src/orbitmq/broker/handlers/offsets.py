"""Offsets: what groups committed (14, 15, 303, 308), and where queues begin and end (29 to 32)."""

from __future__ import annotations

from orbitmq.broker.delivery.in_memory_check import is_in_memory
from orbitmq.broker.groups.offsets import UNKNOWN
from orbitmq.broker.handlers.logical_queues import on_logical_queues
from orbitmq.broker.monitoring.progress import stored_queue_ids
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import logical_offsets
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store import Boundary
from orbitmq.wire.bodies.offsets import QueueTimeSpan, encode_corrections, encode_time_spans
from orbitmq.wire.headers import (
    EarliestStoreTimeResponse,
    ForwardedGetEarliestStoreTime,
    ForwardedGetMaxOffset,
    ForwardedGetMinOffset,
    ForwardedQueryConsumerOffset,
    ForwardedSearchOffset,
    ForwardedUpdateConsumerOffset,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    SearchOffset,
    UpdateConsumerOffset,
)

handlers: Handlers[BrokerService] = Handlers()

_OFFSET_MAX = 2**63 - 1
_FIRST_BOOT_REMARK = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@handlers.on(QueryConsumerOffset)
@on_logical_queues(ForwardedQueryConsumerOffset, logical_offsets.group_offset)
def query_consumer_offset(broker: BrokerService, call: Call[QueryConsumerOffset]) -> Reply:
    """Answer with a group's committed offset; 22 lets the client choose where it starts.

    A queue whose first message is still there answers 0, as Java does while it is in memory: a new group then
    misses nothing of a topic whose first messages are in memory.
    """
    header = call.header
    found = broker.tables.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if found != UNKNOWN:
        return Reply(header=OffsetResponse(offset=found))
    if header.set_zero_if_not_found is False:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
    is_known = broker.tables.topics.get(header.topic) is not None
    if is_known and is_in_memory(broker.store, header.topic, header.queue_id):
        return Reply(header=OffsetResponse(offset=0))
    raise Rejected(ResponseCode.QUERY_NOT_FOUND, _FIRST_BOOT_REMARK)


@handlers.on(UpdateConsumerOffset)
@on_logical_queues(ForwardedUpdateConsumerOffset, logical_offsets.commit_offset)
def update_consumer_offset(broker: BrokerService, call: Call[UpdateConsumerOffset]) -> Reply:
    """Keep how far a group has consumed, never beyond the queue's end."""
    header = call.header
    if broker.tables.groups.configs.get(header.consumer_group) is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.consumer_group:.260} not exist!")
    if broker.tables.topics.get(header.topic) is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic:.260} not exist!")
    _check_held(broker, header.topic, header.queue_id)
    end = broker.store.max_offset(header.topic, header.queue_id)
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    if broker.tables.offsets.resets and broker.tables.offsets.is_reset(group, topic, queue_id):
        return Reply(remark="Offset has been previously reset")
    before = broker.tables.offsets.query(group, topic, queue_id)
    if broker.tables.offsets.commit(group, topic, queue_id, header.commit_offset, offset_max=end) != before:
        broker.delivery.pop.go_on_elsewhere((topic, group, queue_id))
    return Reply()


def _check_held(broker: BrokerService, topic: str, queue_id: int) -> None:
    """Refuse a queue that the topic does not have and that holds no message: one that it had before tells what it holds."""
    if broker.tables.topics.get(topic) is None or not broker.store.max_offset(topic, queue_id):
        broker.tables.topics.check_queue(topic, queue_id)


@handlers.on(GetMaxOffset)
@on_logical_queues(ForwardedGetMaxOffset, logical_offsets.max_offset)
def get_max_offset(broker: BrokerService, call: Call[GetMaxOffset]) -> Reply:
    """Answer with the offset that the next message will get."""
    _check_held(broker, call.header.topic, call.header.queue_id)
    return Reply(header=OffsetResponse(offset=broker.store.max_offset(call.header.topic, call.header.queue_id)))


@handlers.on(GetMinOffset)
@on_logical_queues(ForwardedGetMinOffset, logical_offsets.min_offset)
def get_min_offset(broker: BrokerService, call: Call[GetMinOffset]) -> Reply:
    """Answer with the offset of the first message that is still there."""
    _check_held(broker, call.header.topic, call.header.queue_id)
    return Reply(header=OffsetResponse(offset=broker.store.min_offset(call.header.topic, call.header.queue_id)))


@handlers.on(GetEarliestStoreTime)
@on_logical_queues(ForwardedGetEarliestStoreTime, logical_offsets.earliest_store_time)
def get_earliest_store_time(broker: BrokerService, call: Call[GetEarliestStoreTime]) -> Reply:
    """Answer with the time at which the first message that is still there was stored."""
    _check_held(broker, call.header.topic, call.header.queue_id)
    stored_at_ms = broker.store.earliest_stored_at_ms(call.header.topic, call.header.queue_id)
    return Reply(header=EarliestStoreTimeResponse(timestamp_ms=stored_at_ms))


@handlers.on(SearchOffset)
@on_logical_queues(ForwardedSearchOffset, logical_offsets.search_offset)
def search_offset(broker: BrokerService, call: Call[SearchOffset]) -> Reply:
    """Answer with the queue offset at a store time."""
    header = call.header
    _check_held(broker, header.topic, header.queue_id)
    is_upper = (header.boundary_type or "").lower() == Boundary.UPPER.value
    boundary = Boundary.UPPER if is_upper else Boundary.LOWER
    offset = broker.store.offset_at(header.topic, header.queue_id, header.timestamp_ms, boundary)
    return Reply(header=OffsetResponse(offset=offset))


@handlers.on(QueryConsumeTimeSpan)
def query_consume_time_span(broker: BrokerService, call: Call[QueryConsumeTimeSpan]) -> Reply:
    """Answer with the times of each queue's first and last message, and of the last one that a group has done."""
    header = call.header
    config = broker.tables.topics.get(header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic:.260}] not exist")
    spans = [
        _time_span(broker, header.group, MessageQueue(header.topic, broker.config.broker_name, queue_id), call.now_ms)
        for queue_id in stored_queue_ids(broker.store, header.topic, config.write_queue_count)
    ]
    return Reply(body=encode_time_spans(spans))


def _time_span(broker: BrokerService, group: str, queue: MessageQueue, now_ms: int) -> QueueTimeSpan:
    topic, queue_id = queue.topic, queue.queue_id
    end = broker.store.max_offset(topic, queue_id)
    offset = broker.tables.offsets.query(group, topic, queue_id)
    first_ms = broker.store.earliest_stored_at_ms(topic, queue_id)
    next_ms = _stored_at_ms(broker, queue, max(offset, broker.store.min_offset(topic, queue_id)))
    return QueueTimeSpan(
        queue,
        first_ms,
        _stored_at_ms(broker, queue, end - 1),
        _stored_at_ms(broker, queue, offset - 1) if offset > 0 else first_ms,
        max(0, now_ms - next_ms) if next_ms >= 0 else 0,
    )


def _stored_at_ms(broker: BrokerService, queue: MessageQueue, queue_offset: int) -> int:
    """Return when one message was stored, -1 when it is not there."""
    record = broker.store.message_at(queue.topic, queue.queue_id, queue_offset) if queue_offset >= 0 else None
    return -1 if record is None else record.stored_at_ms


@handlers.on(QueryCorrectionOffset)
def query_correction_offset(broker: BrokerService, call: Call[QueryCorrectionOffset]) -> Reply:
    """Answer with the smallest offset of all groups of a topic, queue by queue.

    Where the group that is compared is behind it, that is the largest number there is. (Java's broker forgets the offsets
    of the groups that are to be left out; here they stay.)
    """
    header = call.header
    left_out = set((header.filter_groups or "").split(","))
    found: dict[int, int] = {}
    for group in broker.tables.offsets.groups_of(header.topic):
        if group not in left_out:
            for queue_id, offset in broker.tables.offsets.queues_of(group, header.topic).items():
                if offset >= broker.store.min_offset(header.topic, queue_id):
                    found[queue_id] = min(offset, found.get(queue_id, _OFFSET_MAX))
    for queue_id, offset in broker.tables.offsets.queues_of(header.compare_group, header.topic).items():
        if offset < found.get(queue_id, _OFFSET_MAX):
            found[queue_id] = _OFFSET_MAX
    return Reply(body=encode_corrections(found))
