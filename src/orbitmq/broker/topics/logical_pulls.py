"""The answer to a pull of a logical queue, made of the answer of the queue behind it. Pure.

Where an item of the logical queue ends, its reader is sent on to the next one.

Source: Java PullMessageProcessor.rewriteResponseForStaticTopic.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.model.static_topic import Items, MappingItem, item_after, item_at
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.headers import PullResponse

OFFSET_RESET = "OFFSET_RESET"
"""The remark of an answer that sends a reader elsewhere because its group was reset: that stands."""


class _Bounds(NamedTuple):
    """What an answer says besides messages, in offsets of the queue of `item`."""

    item: MappingItem
    code: int
    next_offset: int
    min_offset: int
    max_offset: int


def logical_answer(items: Items, item: MappingItem, queue_offset: int, reply: Reply) -> Reply:
    """Return what the reader of a logical queue is told.

    Args:
        items: the logical queue.
        item: that was read.
        queue_offset: from which on it was read, in its own queue.
        reply: the answer of the item's own queue.
    """
    header = reply.header
    if not isinstance(header, PullResponse):
        return reply
    found = _Bounds(item, reply.code, header.next_begin_offset, header.min_offset, header.max_offset)
    if reply.code != ResponseCode.SUCCESS and reply.remark != OFFSET_RESET:
        found = _without_messages(items, found, queue_offset)
    current = found.item
    next_offset = min(found.next_offset, current.end_offset) if current.has_end else found.next_offset
    return reply._replace(
        code=found.code,
        header=dataclasses.replace(
            header,
            next_begin_offset=current.logical(next_offset),
            min_offset=current.logical(max(current.start_offset, found.min_offset)),
            max_offset=max(current.logical(found.max_offset), items[-1].logic_end),
            offset_delta=current.logic_offset - current.start_offset,
        ),
    )


def _without_messages(items: Items, found: _Bounds, queue_offset: int) -> _Bounds:
    item = found.item
    is_leader = item.generation == items[-1].generation
    first = item_at(items, 0)
    is_first = first is not None and first.generation == item.generation
    if is_leader:
        found = _of_leader(found, queue_offset)
    if is_first and queue_offset < found.min_offset:
        return found._replace(code=ResponseCode.PULL_OFFSET_MOVED, next_offset=found.min_offset)
    if is_first or not is_leader:
        return _of_older(items, found, queue_offset)
    return found


def _of_leader(found: _Bounds, queue_offset: int) -> _Bounds:
    if queue_offset > found.max_offset:
        if found.code == ResponseCode.PULL_OFFSET_MOVED:
            return found._replace(next_offset=found.max_offset)
    elif queue_offset < found.min_offset:
        return found._replace(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=found.min_offset)
    return found


def _of_older(items: Items, found: _Bounds, queue_offset: int) -> _Bounds:
    if queue_offset < found.min_offset:
        return found._replace(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=found.min_offset)
    if queue_offset < found.max_offset:
        return found
    following = item_after(items, found.item)
    if following is None:  # the leader, or the item before one that is not decided
        return found._replace(code=ResponseCode.PULL_NOT_FOUND)
    start = following.start_offset
    return _Bounds(following, ResponseCode.PULL_RETRY_IMMEDIATELY, start, start, start)
