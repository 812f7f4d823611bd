"""Checkpoints: acks strike messages out, time brings the others back."""

from __future__ import annotations

import pytest

from orbitmq.broker.pop.checkpoints import _HEAP_SLACK, Checkpoints
from orbitmq.wire.pop.revive_log import CheckpointKey, PopCheckpoint

KEY = CheckpointKey("t", "g", 0, 10, 1_000, "a")


def checkpoint(*offsets: int, key: CheckpointKey = KEY, acked: int = 0) -> PopCheckpoint:
    return PopCheckpoint(key, offsets or (10, 11, 14), 60_000, acked)


@pytest.fixture
def checkpoints() -> Checkpoints:
    return Checkpoints()


def test_acks_strike_out_messages_until_none_is_left(checkpoints: Checkpoints):
    checkpoints.add(checkpoint(), 3, 7, 100)
    assert (checkpoints.in_flight, checkpoints.message_count) == ({("t", "g", 0): 3}, 3)
    assert checkpoints.acknowledge(KEY, [11, 12, 11]) == 1
    found = checkpoints.find(KEY)
    assert found is not None
    assert found.offsets_left == [10, 14]
    assert (checkpoints.in_flight, checkpoints.message_count) == ({("t", "g", 0): 2}, 2)
    assert checkpoints.acknowledge(KEY, [10, 14]) == 2
    assert checkpoints.find(KEY) is None
    assert (checkpoints.count, checkpoints.in_flight, checkpoints.oldest(3)) == (0, {}, None)
    assert checkpoints.acknowledge(KEY, [10]) == 0


def test_what_is_unacknowledged_is_due_when_its_time_is_over(checkpoints: Checkpoints):
    later = KEY._replace(start_offset=20)
    checkpoints.add(checkpoint(20, key=later), 0, 1, 200)
    checkpoints.add(checkpoint(), 0, 2, 100)
    assert checkpoints.due_at_ms() == 100
    assert checkpoints.next_due(99) is None
    found = checkpoints.next_due(100)
    assert found is not None
    assert found.key == KEY
    checkpoints.finish(found)
    assert checkpoints.next_due(199) is None
    assert checkpoints.due_at_ms() == 200


def test_what_is_done_is_never_due(checkpoints: Checkpoints):
    checkpoints.add(checkpoint(), 0, 0, 100)
    checkpoints.acknowledge(KEY, (10, 11, 14))
    assert checkpoints.due_at_ms() is None
    assert checkpoints.next_due(1_000) is None


def test_a_checkpoint_that_is_put_off_is_due_later(checkpoints: Checkpoints):
    checkpoints.add(checkpoint(), 0, 0, 100)
    found = checkpoints.next_due(100)
    assert found is not None
    checkpoints.postpone(found, 300)
    assert checkpoints.next_due(299) is None
    assert checkpoints.next_due(300) is found


def test_one_that_is_written_again_moves_on_and_keeps_its_acks(checkpoints: Checkpoints):
    checkpoints.add(checkpoint(), 0, 5, 100)
    other = KEY._replace(start_offset=20)
    checkpoints.add(checkpoint(20, key=other), 0, 6, 100)
    checkpoints.acknowledge(KEY, [10])
    oldest = checkpoints.oldest(0)
    assert oldest is not None
    again = oldest.as_record
    assert again == checkpoint(acked=0b001)
    checkpoints.add(again, 0, 9, 100)
    found, first = checkpoints.find(KEY), checkpoints.oldest(0)
    assert found is not None
    assert first is not None
    assert (found.offsets_left, found.revive_offset) == ([11, 14], 9)
    assert first.revive_offset == 6
    assert (checkpoints.count, checkpoints.in_flight) == (2, {("t", "g", 0): 3})


def test_two_of_one_name_with_other_messages_both_come_again(checkpoints: Checkpoints):
    checkpoints.add(checkpoint(), 0, 5, 100)
    checkpoints.add(checkpoint(10), 0, 6, 100)
    checkpoints.acknowledge(KEY, [10])
    found = checkpoints.next_due(100)
    assert found is not None
    assert found.offsets_left == [10, 11, 14]
    checkpoints.finish(found)
    assert (checkpoints.count, checkpoints.in_flight) == (0, {})


def test_one_that_was_written_when_all_was_done_is_not_kept(checkpoints: Checkpoints):
    checkpoints.add(checkpoint(acked=0b111), 0, 5, 100)
    assert (checkpoints.count, checkpoints.oldest(0), checkpoints.due_at_ms()) == (0, None, None)


def test_done_ones_take_no_memory_until_their_time(checkpoints: Checkpoints):
    for number in range(10 * _HEAP_SLACK):
        key = KEY._replace(start_offset=number)
        checkpoints.add(checkpoint(number, key=key), 0, number, 1_000_000)
        checkpoints.acknowledge(key, [number])
    assert len(checkpoints._due) <= _HEAP_SLACK + 1
