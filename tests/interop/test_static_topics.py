"""Static topics whose queues move between our broker and Java's, made and moved by mqadmin, used by Java's clients and ours."""

from __future__ import annotations

import asyncio

import pytest

from interop.drain import bodies
from interop.peers import PeerError, message
from orbitmq import ConsumeFrom, Message, MessageQueue, Producer, PullConsumer, PushConsumer
from orbitmq.testing import LocalCluster

LOGICAL = "__syslo__global__"


@pytest.fixture(scope="module")
def neighbour(java_cluster):
    """A broker of ours that is registered wherever Java's is: Java's finds it at any of its NameServers."""
    both = f"{java_cluster.name_server.address};{java_cluster.our_name_server}"
    settings = {"namesrv_addr": both, "broker_cluster_name": "NeighbourCluster", "broker_name": "neighbour"}
    with LocalCluster.running(settings=settings):
        yield "neighbour"


def send(java, producer, item):
    """Send one message. Java's producer tells of a queue that has moved (501), until it hears of the new route."""
    found = []

    def is_sent():
        try:
            found.extend(producer.send(item))
        except PeerError as error:
            if "CODE: 501" not in str(error):
                raise
        return bool(found)

    java.wait_for(is_sent, "the producer to know who leads the queues")
    return found[0]


@pytest.mark.proof
def test_javas_clients_follow_a_static_topic_from_our_broker_to_javas_and_back(java, java_cluster, neighbour, name):
    """Each leader of a queue gets older messages from the broker that has them: ours from Java's, and Java's from ours."""
    name_server = java_cluster.name_server.address
    java.mqadmin("updateStaticTopic", "-n", name_server, "-t", name, "-qn", "2", "-b", neighbour)
    producer = java.producer(f"{name}-producers", name_server, poll_ms=500)
    followed = java.consumer(f"{name}-followers", name_server, name, poll_ms=500)
    places = set()
    for number, target in enumerate((None, java_cluster.broker.name, neighbour)):
        if target is not None:
            java.mqadmin("remappingStaticTopic", "-n", name_server, "-t", name, "-b", target)
        sent = [send(java, producer, message(name, b"%d" % n)) for n in range(4 * number, 4 * number + 4)]
        # A queue that moved begins again some ten thousand offsets on.
        assert {item["queue_offset"] // 10_000 for item in sent} == {number}
        places |= {(item["queue_id"], item["queue_offset"]) for item in sent}
        java.wait_for(lambda: len(followed.received) >= 4 * number + 4, f"what was sent to {target}")  # noqa: B023
    late = java.consumer(f"{name}-latecomers", name_server, name, poll_ms=500)
    late.wait_for_messages(12)
    for consumer in (followed, late):
        received = consumer.received
        assert {(item["queue_id"], item["queue_offset"]) for item in received} == places
        assert {item["broker"] for item in received} == {LOGICAL}
        assert sorted(bodies(received)) == sorted(b"%d" % n for n in range(12))
        consumer.stop()
    producer.stop()


def moved(java, name_server, name, target):
    java.mqadmin("remappingStaticTopic", "-n", name_server, "-t", name, "-b", target)


async def sent(producer, name, bodies):
    return [await producer.send(Message(name, body)) for body in bodies]


async def taken(consumer, count):
    """Return the messages that a push consumer gets next, all of them done."""
    found = []
    while len(found) < count:
        batch = await consumer.next_batch()
        found += batch
        batch.commit()
    return found


@pytest.mark.proof
@pytest.mark.parametrize("is_ordered", [False, True])
async def test_our_clients_follow_a_static_topic_from_our_broker_to_javas_and_back(
    java, java_cluster, neighbour, name, is_ordered
):
    name_server = java_cluster.name_server.address
    java.mqadmin("updateStaticTopic", "-n", name_server, "-t", name, "-qn", "2", "-b", neighbour)
    places = {}
    producer = Producer(f"{name}-producers", name_server)
    consumer = PushConsumer(f"{name}-g", name_server, consume_from=ConsumeFrom.FIRST, ordered=is_ordered)
    consumer.subscribe(name)
    async with producer, consumer, asyncio.timeout(120):
        for number, target in enumerate((None, java_cluster.broker.name, neighbour)):
            if target is not None:
                await asyncio.to_thread(moved, java, name_server, name, target)
            bodies = [b"%d" % n for n in range(4 * number, 4 * number + 4)]
            results = await sent(producer, name, bodies)
            assert {result.queue for result in results} == {MessageQueue(name, LOGICAL, n) for n in range(2)}
            assert {result.queue_offset // 10_000 for result in results} == {number}
            places |= dict(zip(bodies, [(one.queue.queue_id, one.queue_offset) for one in results], strict=True))
            found = await taken(consumer, 4)
            assert {one.body: (one.queue_id, one.queue_offset) for one in found} == {
                body: places[body] for body in bodies
            }
            assert {one.broker_name for one in found} == {LOGICAL}
    async with PullConsumer(f"{name}-g", name_server) as reader, asyncio.timeout(60):
        queues = await reader.queues(name)
        ends = {queue: found.end for queue, found in (await reader.offsets(queues)).items()}
        assert {queue: await reader.committed(queue) for queue in queues} == ends
        reader.assign(queues)
        for queue in queues:
            await reader.seek_to_begin(queue)
        found = []
        while len(found) < 12:
            found += await reader.poll()
        assert {one.body: (one.queue_id, one.queue_offset) for one in found} == places


async def test_a_message_of_a_logical_queue_that_fails_comes_again(java, java_cluster, name):
    name_server, broker = java_cluster.name_server.address, java_cluster.broker.name
    java.mqadmin("updateStaticTopic", "-n", name_server, "-t", name, "-qn", "2", "-b", broker)
    attempts = asyncio.Queue()

    async def handle(message):
        attempts.put_nowait((message.body, message.topic, message.attempt))
        if message.attempt == 1:
            raise ValueError("not yet")

    consumer = PushConsumer(f"{name}-g", name_server, consume_from=ConsumeFrom.FIRST, message_handler=handle)
    consumer.subscribe(name)
    async with Producer(f"{name}-producers", name_server) as producer, consumer, asyncio.timeout(90):
        await producer.send(Message(name, b"1"))
        assert [await attempts.get() for _ in range(2)] == [(b"1", name, 1), (b"1", name, 2)]
