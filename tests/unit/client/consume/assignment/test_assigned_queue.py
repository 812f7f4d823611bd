import asyncio
from typing import Any

import pytest

from orbitmq.client.consume.assignment.assigned_queue import AssignedQueue, retry_delay_ms
from orbitmq.client.consume.pull.window import Window
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class FakePuller:
    """A puller whose window the test fills."""

    def __init__(self, count):
        self.queue = MessageQueue("t", "a", 0)
        self.window = Window(0)
        self.is_started = True
        self.resumed = 0
        self.window.add(
            [
                StoredMessage(
                    topic="t", body=b"", properties={}, queue_id=0, queue_offset=n, physical_offset=0, store_size=1
                )
                for n in range(count)
            ],
            count,
        )

    def resume(self):
        self.resumed += 1


async def find_offset(_queue):
    return 0


def assigned_queue(count=2, delay_ms=1):
    ready = asyncio.Queue()
    start_puller: Any = lambda *_: FakePuller(count)  # noqa: E731
    return AssignedQueue(start_puller, find_offset, delay_ms, ready.put_nowait), ready


@pytest.mark.parametrize(("attempt", "delay_ms"), [(1, 1_000), (2, 2_000), (5, 16_000), (6, 30_000), (99, 30_000)])
def test_the_pause_between_deliveries_doubles_up_to_half_a_minute(attempt, delay_ms):
    assert retry_delay_ms(1_000, attempt) == delay_ms


def test_a_longer_first_pause_is_not_shortened():
    assert retry_delay_ms(60_000, 3) == 60_000


async def test_a_batch_is_offered_once_and_again_after_the_commit():
    found, ready = assigned_queue()
    found.offer()
    found.offer()
    assert ready.qsize() == 1
    batch = found.next_batch(1)
    found.offer()
    assert ready.qsize() == 1
    assert batch.commit()
    assert ready.qsize() == 2
    assert found.puller.resumed == 1


async def test_a_batch_given_back_is_offered_after_a_delay_and_counts_its_attempts():
    found, ready = assigned_queue(1)
    found.offer()
    await ready.get()
    assert found.next_batch(1).retry()
    found.offer()
    assert found.next_batch(1) is None
    assert ready.empty()
    await ready.get()
    batch = found.next_batch(1)
    assert batch.attempt == 2
    batch.commit()
    assert not batch.retry()


async def test_a_dropped_queue_gives_and_settles_nothing():
    found, ready = assigned_queue(3)
    batch = found.next_batch(1)
    other, _ = assigned_queue(1)
    other.next_batch(1).retry()
    other.drop()
    found.drop()
    assert not batch.commit()
    assert found.next_batch(1) is None
    found.offer()
    assert ready.empty()


async def test_only_offsets_that_the_store_lacks_are_to_be_stored():
    found, _ = assigned_queue(2)
    assert found.offset_to_store == 0
    found.mark_stored(0)
    assert found.offset_to_store is None
    found.next_batch(1).commit()
    assert found.offset_to_store == 1
    found.puller.is_started = False
    assert found.offset_to_store is None


async def test_a_batch_behaves_like_a_sequence():
    found, _ = assigned_queue(3)
    batch = found.next_batch(3)
    assert [message.queue_offset for message in batch] == [0, 1, 2]
    assert [message.queue_offset for message in batch[1:]] == [1, 2]
    assert len(batch) == 3
    assert repr(batch) == "<Batch t a 0 @0: 3 messages>"
