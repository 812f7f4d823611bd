"""The order in which queues and keys are worked on."""

import asyncio
from typing import Any

from orbitmq.client.consume.dispatch.lanes import Lanes
from orbitmq.client.consume.dispatch.ready_queues import ReadyQueues


class FakeQueue:
    """A queue with these batches."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.asked = []

    def next_batch(self, count_max):
        self.asked.append(count_max)
        return self.batches.pop(0) if self.batches else None


async def test_batches_come_in_the_order_in_which_their_queues_became_ready():
    ready: Any = ReadyQueues(32)
    first, second = FakeQueue("1"), FakeQueue("2")
    ready.put(first)
    ready.put(second)
    assert [await ready.next_batch(), await ready.next_batch()] == ["1", "2"]
    assert first.asked == [32]


async def test_a_batch_is_waited_for():
    ready: Any = ReadyQueues(32)
    waiting = asyncio.create_task(ready.next_batch())
    await asyncio.sleep(0)
    assert not waiting.done()
    ready.put(FakeQueue("1"))
    assert await waiting == "1"


async def test_a_queue_that_was_given_away_meanwhile_is_passed_over():
    ready: Any = ReadyQueues(32)
    ready.put(FakeQueue())
    ready.put(FakeQueue("1"))
    assert await ready.next_batch() == "1"


async def test_closing_ends_everybody_who_waits_or_will_wait():
    ready: Any = ReadyQueues(32)
    waiting = [asyncio.create_task(ready.next_batch()) for _ in range(3)]
    await asyncio.sleep(0)
    ready.close()
    assert await asyncio.gather(*waiting) == [None] * 3
    assert await ready.next_batch() is None


async def test_closing_hands_out_nothing_more():
    ready: Any = ReadyQueues(32)
    queue = FakeQueue("1")
    ready.put(queue)
    ready.close()
    assert await ready.next_batch() is None
    assert queue.asked == []


def test_items_of_a_key_have_their_turns_one_after_the_other():
    lanes: Lanes[int] = Lanes()
    assert lanes.put("a", 1)
    assert not lanes.put("a", 2)
    assert lanes.first("a") == 1
    assert lanes.advance("a")
    assert lanes.first("a") == 2
    assert not lanes.put("a", 3)
    assert lanes.advance("a")
    assert not lanes.advance("a")
    assert lanes.put("a", 4)


def test_keys_do_not_wait_for_one_another_and_leave_nothing_behind():
    lanes: Lanes[int] = Lanes()
    assert lanes.put("a", 1)
    assert lanes.put(("b", 2), 2)
    assert len(lanes) == 2
    assert not lanes.advance("a")
    assert not lanes.advance(("b", 2))
    assert len(lanes) == 0
