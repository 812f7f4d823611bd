import pytest

from cases import each_case
from orbitmq.client.consume.start_offsets import QueueOffsets, StartOffsets, check_start
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RemoteRefused
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import GetMaxOffset
from unit.client.support import open_session

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


@each_case("CONSUME_FROM_LAST_OFFSET", ConsumeFrom.FIRST)
def test_a_start_is_given_by_itself_or_by_its_text(value):
    assert check_start(value, None) is ConsumeFrom(value)
    assert check_start(ConsumeFrom.TIMESTAMP, 0) is ConsumeFrom.TIMESTAMP


@each_case(
    (ConsumeFrom.TIMESTAMP, None, "consume_from_ms"),
    (ConsumeFrom.TIMESTAMP, -1, "consume_from_ms"),
    (ConsumeFrom.FIRST, "yesterday", "consume_from_ms"),
    ("earliest", None, "consume_from"),
    (None, None, "consume_from"),
)
def test_a_start_that_is_none_is_refused(consume_from, consume_from_ms, field):
    with pytest.raises(InvalidArgument, match=f"^{field}: "):
        check_start(consume_from, consume_from_ms)


@pytest.mark.parametrize(("stores", "kept"), [(True, {QUEUE: 40}), (False, {})])
async def test_a_start_is_stored_for_the_next_reader_where_that_is_wanted(stores, kept):
    store = FakeStore()
    await starts(store, FakeQueueOffsets(), stores=stores).find(QUEUE)
    assert store.offsets == kept


def fill(cluster):
    """Let QUEUE hold the offsets 1 to 3, and the other queue nothing."""
    cluster.topic("orders", count=2)
    for number in range(4):
        cluster.a.put("orders", 1, b"x", stored_at_ms=100 * number)
    cluster.a.min_offsets["orders", 1] = 1


async def test_a_queue_begins_and_ends_where_its_broker_says(cluster):
    fill(cluster)
    async with open_session(cluster, "orders") as session:
        offsets = QueueOffsets(session)
        assert await offsets.begin(QUEUE) == 1
        assert await offsets.end(QUEUE) == 4
        assert [await offsets.at(QUEUE, at_ms) for at_ms in (0, 200, 201, 999)] == [0, 2, 3, 4]
        assert await offsets.end(QUEUE._replace(queue_id=0)) == 0


@pytest.mark.parametrize(
    ("consume_from", "offset"), [(ConsumeFrom.FIRST, 1), (ConsumeFrom.TIMESTAMP, 2), (ConsumeFrom.LAST, 4)]
)
async def test_a_start_is_the_first_message_the_end_or_a_time(cluster, consume_from, offset):
    fill(cluster)
    async with open_session(cluster, "orders") as session:
        assert await QueueOffsets(session).start(QUEUE, consume_from, 200) == offset


async def test_a_refusal_names_the_broker(cluster):
    fill(cluster)
    cluster.a.refusals[GetMaxOffset] = [ResponseCode.SYSTEM_ERROR]
    async with open_session(cluster, "orders") as session:
        with pytest.raises(RemoteRefused, match=cluster.a.address):
            await QueueOffsets(session).end(QUEUE)
