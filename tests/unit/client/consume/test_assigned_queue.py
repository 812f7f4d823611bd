import asyncio

import pytest

from orbitmq.client.consume.assigned_queue import Share, retry_delay_ms
from orbitmq.client.consume.window import Window
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class Reader:
    """A reader whose window the test fills."""

    def __init__(self, count):
        self.queue = MessageQueue("t", "a", 0)
        self.window = Window(0)
        self.is_started = True
        self.rooms = 0
        self.window.add(
            [
                StoredMessage(
                    topic="t", body=b"", properties={}, queue_id=0, queue_offset=n, physical_offset=0, store_size=1
                )
                for n in range(count)
            ],
            count,
        )

    def made_room(self):
        self.rooms += 1


def share(count=2, delay_ms=1):
    ready = asyncio.Queue()
    return Share(Reader(count), delay_ms, ready.put_nowait), ready


@pytest.mark.parametrize(("attempt", "delay_ms"), [(1, 1_000), (2, 2_000), (5, 16_000), (6, 30_000), (99, 30_000)])
def test_the_pause_between_deliveries_doubles_up_to_half_a_minute(attempt, delay_ms):
    assert retry_delay_ms(1_000, attempt) == delay_ms


def test_a_longer_first_pause_is_not_shortened():
    assert retry_delay_ms(60_000, 3) == 60_000


async def test_a_batch_is_offered_once_and_again_after_the_commit():
    found, ready = share()
    found.offer()
    found.offer()
    assert ready.qsize() == 1
    batch = found.take(1)
    found.offer()
    assert ready.qsize() == 1
    assert batch.commit()
    assert ready.qsize() == 2
    assert found.reader.rooms == 1


async def test_a_batch_given_back_is_offered_after_a_rest_and_counts_its_attempts():
    found, ready = share(1)
    found.offer()
    await ready.get()
    assert found.take(1).retry()
    found.offer()
    assert found.take(1) is None
    assert ready.empty()
    await ready.get()
    batch = found.take(1)
    assert batch.attempt == 2
    batch.commit()
    assert not batch.retry()


async def test_a_dropped_share_gives_and_takes_nothing():
    found, ready = share(3)
    batch = found.take(1)
    other, _ = share(1)
    other.take(1).retry()
    other.drop()
    found.drop()
    assert not batch.commit()
    assert found.take(1) is None
    found.offer()
    assert ready.empty()


async def test_only_offsets_that_the_store_lacks_are_to_be_stored():
    found, _ = share(2)
    assert found.offset_to_store == 0
    found.stored_offset = 0
    assert found.offset_to_store is None
    found.take(1).commit()
    assert found.offset_to_store == 1
    found.reader.is_started = False
    assert found.offset_to_store is None


async def test_a_batch_behaves_like_a_sequence():
    found, _ = share(3)
    batch = found.take(3)
    assert [message.queue_offset for message in batch] == [0, 1, 2]
    assert [message.queue_offset for message in batch[1:]] == [1, 2]
    assert len(batch) == 3
    assert repr(batch) == "<Batch t a 0 @0: 3 messages>"
