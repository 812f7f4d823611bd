import pytest

from orbitmq.client.consume.offsets.queue_offsets import QueueOffsets
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import GetMaxOffset
from unit.client.support import open_session

QUEUE = MessageQueue("orders", "broker-a", 1)


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
