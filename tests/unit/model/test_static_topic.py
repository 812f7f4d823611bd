"""Logical queues: where an offset lies, and which items make one."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.static_topic import (
    MappingItem,
    QueueMapping,
    check_items,
    check_successors,
    item_after,
    item_at,
    logical_broker,
)

FIRST = MappingItem(0, 3, "a", 0)
SECOND = MappingItem(1, 0, "b", 10_000)
THIRD = MappingItem(2, 5, "a", -1)
ITEMS = (FIRST, SECOND, THIRD)


def test_an_offset_of_the_items_queue_and_a_logical_one_are_the_same_place() -> None:
    item = MappingItem(1, 0, "b", 10_000, start_offset=50)
    assert [item.logical(offset) for offset in (0, 50, 57)] == [10_000, 10_000, 10_007]
    assert item.physical(10_007) == 57
    assert item.logic_end == 10_000
    assert not item.has_end


def test_behind_its_end_an_item_has_no_logical_offsets() -> None:
    item = MappingItem(1, 0, "b", 10_000, start_offset=0, end_offset=7)
    assert (item.has_end, item.logic_end) == (True, 10_007)
    assert [item.logical_loosely(offset) for offset in (6, 7, 8)] == [10_006, 10_007, 10_007]
    assert item.logical(8) == 10_008
    assert THIRD.logical_loosely(3) == -1
    assert not THIRD.is_decided


@each_case((-1, FIRST), (0, FIRST), (9_999, FIRST), (10_000, SECOND), (2**63 - 1, SECOND))
def test_an_offset_lies_in_the_last_decided_item_that_begins_before_it(offset: int, expected: MappingItem) -> None:
    assert item_at(ITEMS, offset) == expected


def test_an_offset_before_all_items_is_sent_to_the_first_one() -> None:
    assert item_at((SECOND, THIRD), 5) == SECOND
    assert item_at((THIRD,), 5) is None


def test_behind_an_item_comes_the_next_one_when_it_is_decided() -> None:
    assert item_after(ITEMS, FIRST) == SECOND
    assert item_after(ITEMS, SECOND) is None
    assert item_after(ITEMS, THIRD) is None


def test_a_broker_leads_the_queues_whose_last_item_is_its_own() -> None:
    queues = {0: ITEMS, 1: (FIRST, SECOND), 2: (), 3: (MappingItem(0, 1, "a", 0),)}
    mapping = QueueMapping(topic="t", broker_name="a", queue_count=4, epoch=1, queues=queues)
    assert mapping.led == {0: 5, 3: 1}


def test_logical_queues_are_on_a_broker_that_is_named_after_their_scope() -> None:
    assert logical_broker("__global__") == "__syslo__global__"
    assert logical_broker("mine") == "__syslo__mine"


def test_items_that_grow_are_a_logical_queue() -> None:
    check_items(())
    check_items(ITEMS)
    check_items((FIRST._replace(end_offset=7), SECOND._replace(generation=9)))


@each_case(
    (0, {"start_offset": -1}, "startOffset"),
    (1, {"generation": -1}, "gen"),
    (2, {"queue_id": -1}, "queueId"),
    (0, {"logic_offset": -1}, "logicOffset"),
    (1, {"generation": 0}, "gen"),
    (1, {"logic_offset": 0}, "logicOffset"),
    (0, {"start_offset": 5, "end_offset": 4}, "endOffset"),
    (0, {"end_offset": 10_000}, "logicOffset"),
)
def test_items_that_make_no_logical_queue_are_refused(place: int, change: dict[str, Any], field: str) -> None:
    items = list(ITEMS)
    items[place] = items[place]._replace(**change)
    with pytest.raises(InvalidArgument, match=field):
        check_items(tuple(items))


def test_a_queue_may_be_moved_on_decided_and_shortened() -> None:
    check_successors((), (), is_same_epoch=True)
    check_successors((FIRST,), (FIRST, SECOND), is_same_epoch=False)
    check_successors(ITEMS, (SECOND, THIRD._replace(logic_offset=20_000)), is_same_epoch=True)


@each_case(
    ((), False),
    ((FIRST, SECOND), True),
    ((FIRST._replace(queue_id=4), SECOND, THIRD), False),
    ((FIRST, SECOND._replace(broker_name="c"), THIRD), False),
    ((FIRST, SECOND._replace(logic_offset=10_001), THIRD), False),
    ((FIRST, SECOND, THIRD._replace(start_offset=1)), False),
)
def test_what_a_generation_says_stands(new: tuple[MappingItem, ...], is_same_epoch: bool) -> None:
    with pytest.raises(InvalidArgument, match="hostedQueues"):
        check_successors(ITEMS, new, is_same_epoch=is_same_epoch)
