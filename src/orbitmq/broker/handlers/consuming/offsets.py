"""Offsets: what groups committed (14, 15), and where queues begin and end (29 to 32)."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.delivery.young_queues import is_young
from orbitmq.broker.groups.offsets import UNKNOWN, GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.pop.service import PopService
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store import Boundary, Store
from orbitmq.wire.headers import (
    EarliestStoreTimeResponse,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)


@dataclass(frozen=True, slots=True)
class OffsetTables:
    """Where offsets come from: the groups' commits, and the queues themselves; and what groups popped behind them."""

    store: Store
    topics: TopicRegistry
    offsets: GroupOffsets
    groups: GroupRegistry
    pop: PopService


handlers: Handlers[OffsetTables] = Handlers()

_FIRST_BOOT_REMARK = "Not found, maybe this group consumer boot first"


@handlers.on(QueryConsumerOffset)
def query_consumer_offset(tables: OffsetTables, call: Call[QueryConsumerOffset]) -> Reply:
    """Answer with a group's committed offset; 22 lets the client choose where it starts.

    A queue whose first message is still there answers 0, as Java does while it is in memory: a new group then
    misses nothing of a young topic.
    """
    header = call.header
    found = tables.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if found != UNKNOWN:
        return Reply(header=OffsetResponse(offset=found))
    is_known = tables.topics.get(header.topic) is not None
    if header.set_zero_if_not_found is not False and is_known and is_young(tables.store, header.topic, header.queue_id):
        return Reply(header=OffsetResponse(offset=0))
    raise Rejected(ResponseCode.QUERY_NOT_FOUND, _FIRST_BOOT_REMARK)


@handlers.on(UpdateConsumerOffset)
def update_consumer_offset(tables: OffsetTables, call: Call[UpdateConsumerOffset]) -> Reply:
    """Keep how far a group has consumed, never beyond the queue's end."""
    header = call.header
    if tables.groups.configs.get(header.consumer_group) is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.consumer_group:.260} not exist!")
    tables.topics.check_queue(header.topic, header.queue_id)
    end = tables.store.max_offset(header.topic, header.queue_id)
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    before = tables.offsets.query(group, topic, queue_id)
    if tables.offsets.commit(group, topic, queue_id, header.commit_offset, offset_max=end) != before:
        tables.pop.go_on_elsewhere((topic, group, queue_id))
    return Reply()


@handlers.on(GetMaxOffset)
def get_max_offset(tables: OffsetTables, call: Call[GetMaxOffset]) -> Reply:
    """Answer with the offset that the next message will get."""
    tables.topics.check_queue(call.header.topic, call.header.queue_id)
    return Reply(header=OffsetResponse(offset=tables.store.max_offset(call.header.topic, call.header.queue_id)))


@handlers.on(GetMinOffset)
def get_min_offset(tables: OffsetTables, call: Call[GetMinOffset]) -> Reply:
    """Answer with the offset of the first message that is still there."""
    tables.topics.check_queue(call.header.topic, call.header.queue_id)
    return Reply(header=OffsetResponse(offset=tables.store.min_offset(call.header.topic, call.header.queue_id)))


@handlers.on(GetEarliestStoreTime)
def get_earliest_store_time(tables: OffsetTables, call: Call[GetEarliestStoreTime]) -> Reply:
    """Answer with the time at which the first message that is still there was stored."""
    tables.topics.check_queue(call.header.topic, call.header.queue_id)
    stored_at_ms = tables.store.earliest_stored_at_ms(call.header.topic, call.header.queue_id)
    return Reply(header=EarliestStoreTimeResponse(timestamp_ms=stored_at_ms))


@handlers.on(SearchOffset)
def search_offset(tables: OffsetTables, call: Call[SearchOffset]) -> Reply:
    """Answer with the queue offset at a store time."""
    header = call.header
    tables.topics.check_queue(header.topic, header.queue_id)
    is_upper = (header.boundary_type or "").lower() == Boundary.UPPER.value
    boundary = Boundary.UPPER if is_upper else Boundary.LOWER
    offset = tables.store.offset_at(header.topic, header.queue_id, header.timestamp_ms, boundary)
    return Reply(header=OffsetResponse(offset=offset))
