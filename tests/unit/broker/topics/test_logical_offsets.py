"""A logical queue as its leader knows it: which queues its offsets are asked for, and what is made of them."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.topics import logical_offsets
from orbitmq.broker.topics.logical_offsets import LogicalQueue, Steps
from orbitmq.errors import Rejected
from orbitmq.model.static_topic import MappingItem
from orbitmq.net.dispatch.reply import Reply
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

FIRST, SECOND = MappingItem(0, 3, "a", 0), MappingItem(1, 0, "b", 10_000)
UNDECIDED = MappingItem(2, 4, "a", -1)
QUEUE = LogicalQueue("t", 7, (FIRST, SECOND, UNDECIDED))
GROUP: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 7}


def offset(value: int) -> Reply:
    return Reply(header=OffsetResponse(offset=value))


def played(steps: Steps, *replies: Reply) -> tuple[list[tuple[str, int]], list[Any], Reply]:
    """Return whose queues were asked, with what, and the answer."""
    asked, headers, waiting = [], [], list(replies)
    try:
        step = next(steps)
        while True:
            asked.append((step.header.broker_name, step.header.queue_id))
            headers.append(step.header)
            assert step.item.broker_name == step.header.broker_name
            step = steps.send(waiting.pop(0))
    except StopIteration as end:
        assert not waiting
        return asked, headers, end.value


def test_a_logical_queue_ends_where_its_newest_decided_item_ends() -> None:
    asked, _, reply = played(logical_offsets.max_offset(QUEUE, GetMaxOffset(topic="t", queue_id=7)), offset(5))
    assert (asked, reply) == ([("b", 0)], offset(10_005))


def test_a_logical_queue_begins_where_its_oldest_item_begins() -> None:
    asked, _, reply = played(logical_offsets.min_offset(QUEUE, GetMinOffset(topic="t", queue_id=7)), offset(5))
    assert (asked, reply) == ([("a", 3)], offset(5))


def test_the_oldest_message_is_that_of_the_oldest_item() -> None:
    answer = Reply(header=EarliestStoreTimeResponse(timestamp_ms=99))
    asked, _, reply = played(
        logical_offsets.earliest_store_time(QUEUE, GetEarliestStoreTime(topic="t", queue_id=7)), answer
    )
    assert (asked, reply) == ([("a", 3)], answer)


def test_a_refusal_is_passed_on() -> None:
    refusal = Reply(17, "no topic")
    assert played(logical_offsets.max_offset(QUEUE, GetMaxOffset(topic="t", queue_id=7)), refusal)[2] is refusal
    assert played(search(), refusal, offset(4))[2] is refusal
    assert played(search(), offset(4), refusal)[2] is refusal
    assert played(logical_offsets.group_offset(QUEUE, QueryConsumerOffset(**GROUP)), refusal)[2] is refusal


def search() -> Steps:
    return logical_offsets.search_offset(
        QUEUE, SearchOffset(topic="t", queue_id=7, timestamp_ms=9, boundary_type="upper")
    )


def test_a_message_by_its_time_is_in_the_first_item_that_was_written_so_late() -> None:
    asked, headers, reply = played(search(), offset(3), offset(4))
    assert (asked, reply) == ([("a", 3), ("a", 3)], offset(3))
    assert (headers[0].timestamp_ms, headers[0].boundary_type) == (9, "upper")
    asked, _, reply = played(search(), offset(4), offset(4), offset(0))
    assert (asked, reply) == ([("a", 3), ("a", 3), ("b", 0)], offset(10_000))


def test_a_groups_place_is_in_the_newest_item_that_it_has_come_to() -> None:
    steps = logical_offsets.group_offset(QUEUE, QueryConsumerOffset(**GROUP, set_zero_if_not_found=True))
    asked, headers, reply = played(steps, Reply(22), offset(4))
    assert (asked, reply) == ([("b", 0), ("a", 3)], offset(4))
    assert [header.set_zero_if_not_found for header in headers] == [False, False]
    assert played(logical_offsets.group_offset(QUEUE, QueryConsumerOffset(**GROUP)), Reply(22), Reply(22))[2].code == 22
    assert played(logical_offsets.group_offset(QUEUE, QueryConsumerOffset(**GROUP)), offset(4))[2] == offset(10_004)


def test_a_new_group_begins_at_0_where_a_logical_queue_is_a_plain_one() -> None:
    steps = logical_offsets.group_offset(
        LogicalQueue("t", 7, (FIRST,)), QueryConsumerOffset(**GROUP, set_zero_if_not_found=True)
    )
    asked, headers, reply = played(steps, offset(0))
    assert (asked, headers[0].set_zero_if_not_found, reply) == ([("a", 3)], True, offset(0))


@each_case((9_999, ("a", 3, 9_999)), (10_004, ("b", 0, 4)))
def test_a_groups_place_is_kept_with_the_item_it_lies_in(committed: int, expected: tuple[str, int, int]) -> None:
    steps = logical_offsets.commit_offset(QUEUE, UpdateConsumerOffset(**GROUP, commit_offset=committed))
    _, (header,), reply = played(steps, Reply())
    assert (header.broker_name, header.queue_id, header.commit_offset) == expected
    assert (header.consumer_group, reply) == ("g", Reply())


def test_a_queue_none_of_whose_items_is_decided_has_no_offsets() -> None:
    with pytest.raises(Rejected, match="not decided"):
        played(logical_offsets.max_offset(LogicalQueue("t", 7, (UNDECIDED,)), GetMaxOffset(topic="t", queue_id=7)))


def test_the_last_item_takes_what_is_sent() -> None:
    items = (MappingItem(0, 1, "a", 0), MappingItem(1, 5, "b", -1))
    assert LogicalQueue("t", 7, items).leader == items[1]
