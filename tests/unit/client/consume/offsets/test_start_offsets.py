import pytest

from orbitmq.client.consume.offsets.start_offsets import HALF_AN_HOUR_MS, StartOffsets
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.testing.clock import START_MS, FakeClock

QUEUE = MessageQueue("orders", "broker-a", 1)


class FakeStore:
    """An offset store in memory."""

    def __init__(self, offset=None):
        self.offsets = {} if offset is None else {QUEUE: offset}

    async def load(self, queue):
        return self.offsets.get(queue)

    async def store(self, queue, queue_offset):
        self.offsets[queue] = queue_offset


class FakeQueueOffsets:
    """A queue that begins at 40 by each rule; notes what it was asked."""

    def __init__(self):
        self.asked = []

    async def start(self, queue, consume_from, timestamp_ms):
        self.asked.append((queue, consume_from, timestamp_ms))
        return 40


def starts(store, queue, *, consume_from_ms=None, stores=True):
    return StartOffsets(store, queue, ConsumeFrom.TIMESTAMP, consume_from_ms, stores=stores)


@pytest.mark.parametrize("offset", [0, 7])
async def test_the_groups_offset_comes_first(offset):
    store, queue = FakeStore(offset), FakeQueueOffsets()
    assert await starts(store, queue).find(QUEUE) == offset
    assert queue.asked == []


@pytest.mark.parametrize("consume_from_ms", [0, 123])
async def test_without_one_the_settings_say_where_to_begin(consume_from_ms):
    queue = FakeQueueOffsets()
    assert await starts(FakeStore(), queue, consume_from_ms=consume_from_ms).find(QUEUE) == 40
    assert queue.asked == [(QUEUE, ConsumeFrom.TIMESTAMP, consume_from_ms)]


async def test_a_time_that_was_left_out_is_half_an_hour_ago(monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.offsets.start_offsets.now_ms", FakeClock())
    queue = FakeQueueOffsets()
    await starts(FakeStore(), queue).find(QUEUE)
    assert queue.asked[0][2] == START_MS - HALF_AN_HOUR_MS == START_MS - 1_800_000


@pytest.mark.parametrize(("stores", "kept"), [(True, {QUEUE: 40}), (False, {})])
async def test_a_start_is_stored_for_the_next_reader_where_that_is_wanted(stores, kept):
    store = FakeStore()
    await starts(store, FakeQueueOffsets(), stores=stores).find(QUEUE)
    assert store.offsets == kept
