"""Offsets of logical queues: which queues are asked for them, and what their answers mean. Pure.

Source: Java AdminBrokerProcessor and ConsumerManageProcessor (rewriteRequestForStaticTopic). A search by time differs: Java returns
the last item's offset as it stands in its own queue when that is 0, and looks at every item of another broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.static_topic import Items, MappingItem, item_at
from orbitmq.net.dispatch.reply import Reply
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
    SearchOffset,
    UpdateConsumerOffset,
)


class LogicalQueue(NamedTuple):
    """A logical queue that this broker leads."""

    topic: str
    queue_id: int
    items: Items

    @property
    def leader(self) -> MappingItem:
        """The item that takes what is sent."""
        return self.items[-1]


class ItemRequest(NamedTuple):
    """A question about the queue of one item.

    Args:
        header: as another broker gets it.
        answer_type: of the header that the answer has; None: it has none.
    """

    item: MappingItem
    code: int
    header: Any
    answer_type: type | None


Steps = Generator[ItemRequest, Reply, Reply]
"""Yields questions, gets their answers, and returns the answer for the logical queue."""


_OFFSET_MAX = 2**63 - 1


def max_offset(queue: LogicalQueue, _header: GetMaxOffset) -> Steps:
    """Ask where the newest item ends."""
    item = _item_at(queue, _OFFSET_MAX)
    return _logical((yield _max_step(queue, item)), item.logical)


def min_offset(queue: LogicalQueue, _header: GetMinOffset) -> Steps:
    """Ask where the oldest item begins."""
    item = _item_at(queue, 0)
    header = ForwardedGetMinOffset(topic=queue.topic, queue_id=item.queue_id, broker_name=item.broker_name)
    return _logical((yield ItemRequest(item, RequestCode.GET_MIN_OFFSET, header, OffsetResponse)), item.logical_loosely)


def earliest_store_time(queue: LogicalQueue, _header: GetEarliestStoreTime) -> Steps:
    """Ask when the oldest item's first message was stored."""
    item = _item_at(queue, 0)
    header = ForwardedGetEarliestStoreTime(topic=queue.topic, queue_id=item.queue_id, broker_name=item.broker_name)
    return (yield ItemRequest(item, RequestCode.GET_EARLIEST_MSG_STORETIME, header, EarliestStoreTimeResponse))


def search_offset(queue: LogicalQueue, header: SearchOffset) -> Steps:
    """Search the items from the oldest on: the first one that was written late enough has the message."""
    *older, newest = [item for item in queue.items if item.is_decided] or [_item_at(queue, 0)]
    for item in older:
        found = yield _search_step(queue, item, header)
        end = yield _max_step(queue, item)
        for reply in (found, end):
            if reply.code != ResponseCode.SUCCESS:
                return reply
        if 0 <= _offset(found) < _offset(end):
            return _logical(found, item.logical)
    return _logical((yield _search_step(queue, newest, header)), newest.logical)


def group_offset(queue: LogicalQueue, header: QueryConsumerOffset) -> Steps:
    """Ask for a group's offset in the newest item, then in those before it."""
    is_plain = len(queue.items) == 1 and queue.leader.logic_offset == 0
    for item in reversed(queue.items):
        if not item.is_decided:
            continue
        question = ForwardedQueryConsumerOffset(
            consumer_group=header.consumer_group,
            topic=queue.topic,
            queue_id=item.queue_id,
            set_zero_if_not_found=header.set_zero_if_not_found if is_plain else False,
            broker_name=item.broker_name,
        )
        reply = yield ItemRequest(item, RequestCode.QUERY_CONSUMER_OFFSET, question, OffsetResponse)
        if reply.code != ResponseCode.QUERY_NOT_FOUND:
            return _logical(reply, item.logical)
    return Reply(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")


def commit_offset(queue: LogicalQueue, header: UpdateConsumerOffset) -> Steps:
    """Keep a group's offset where the item is that it lies in."""
    item = _item_at(queue, header.commit_offset)
    question = ForwardedUpdateConsumerOffset(
        consumer_group=header.consumer_group,
        topic=queue.topic,
        queue_id=item.queue_id,
        commit_offset=item.physical(header.commit_offset),
        broker_name=item.broker_name,
    )
    # Its answer has no header.
    return (yield ItemRequest(item, RequestCode.UPDATE_CONSUMER_OFFSET, question, None))


def _max_step(queue: LogicalQueue, item: MappingItem) -> ItemRequest:
    header = ForwardedGetMaxOffset(topic=queue.topic, queue_id=item.queue_id, broker_name=item.broker_name)
    return ItemRequest(item, RequestCode.GET_MAX_OFFSET, header, OffsetResponse)


def _search_step(queue: LogicalQueue, item: MappingItem, header: SearchOffset) -> ItemRequest:
    question = ForwardedSearchOffset(
        topic=queue.topic,
        queue_id=item.queue_id,
        timestamp_ms=header.timestamp_ms,
        boundary_type=header.boundary_type,
        broker_name=item.broker_name,
    )
    return ItemRequest(item, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, question, OffsetResponse)


def _item_at(queue: LogicalQueue, logic_offset: int) -> MappingItem:
    item = item_at(queue.items, logic_offset)
    if item is None:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR, f"{queue.topic}-{queue.queue_id} is being moved: its offsets are not decided yet"
        )
    return item


def _offset(reply: Reply) -> int:
    return reply.header.offset if isinstance(reply.header, OffsetResponse) else -1


def _logical(reply: Reply, convert: Callable[[int], int]) -> Reply:
    if not isinstance(reply.header, OffsetResponse):
        return reply
    return reply._replace(header=OffsetResponse(offset=convert(reply.header.offset)))
