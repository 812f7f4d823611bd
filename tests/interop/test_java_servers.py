"""Mixed clusters: a Java broker in our NameServer, our broker in Java's NameServer, clients of both kinds."""

import asyncio

import pytest

from interop.drain import bodies, consume, read_all
from interop.peers import message, wait_until_dispatched
from orbitmq import Message
from orbitmq.admin import AdminClient
from orbitmq.blocking import Producer, PullConsumer, PushConsumer


@pytest.fixture(params=["Java's NameServer", pytest.param("our NameServer", marks=pytest.mark.real)])
def java_broker_at(request):
    """A NameServer that knows the Java broker, and the broker's address."""
    if request.param == "our NameServer":
        mixed = request.getfixturevalue("mixed_cluster")
        return mixed.name_server, mixed.broker.address
    cluster = request.getfixturevalue("java_cluster")
    return cluster.name_server.address, cluster.broker.address


@pytest.fixture
def to_java_broker(java_broker_at):
    """A NameServer that knows the Java broker."""
    return java_broker_at[0]


def test_our_client_works_with_a_java_broker(to_java_broker, name):
    with Producer("our-producers", to_java_broker) as producer:
        sent = [producer.send(Message(name, b"%02d" % n, tag="t", keys=(f"k{n}",))) for n in range(20)]
        batch = producer.send_batch([Message(name, b"b%d" % n, tag="t") for n in range(5)])
    read = read_all(to_java_broker, name, 25)
    assert bodies(read) == sorted([*(b"%02d" % n for n in range(20)), *(b"b%d" % n for n in range(5))])
    assert {(item.broker_name, item.queue_id, item.queue_offset) for item in read} >= {
        (item.queue.broker_name, item.queue.queue_id, item.queue_offset) for item in [*sent, *batch]
    }


def test_our_push_consumer_resumes_at_a_java_broker(to_java_broker, name):
    with Producer("our-producers", to_java_broker) as producer:
        for n in range(10):
            producer.send(Message(name, b"%02d" % n, tag="even" if n % 2 == 0 else "odd"))
        with PushConsumer(f"{name}-group", to_java_broker) as consumer:
            consumer.subscribe(name, tag="even")
            assert bodies(consume(consumer, 5)) == [b"%02d" % n for n in range(0, 10, 2)]
        producer.send(Message(name, b"after", tag="even"))
        with PushConsumer(f"{name}-group", to_java_broker) as consumer:
            consumer.subscribe(name, tag="even")
            found = consume(consumer, 1)
            while b"after" not in bodies(
                found
            ):  # Java's broker may carry out a pull, with its older commit, after the last commit
                found += consume(consumer, 1)
            assert len(found) < 5


def test_our_pull_consumer_pages_a_java_broker(java_broker_at, name):
    to_java_broker, address = java_broker_at
    with Producer("our-producers", to_java_broker) as producer:
        queue = [producer.send(Message(name, b"%02d" % n), key="one queue") for n in range(10)][-1].queue
    wait_until_dispatched(address)
    with PullConsumer(f"{name}-group", to_java_broker) as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 7)
        found = []
        while len(found) < 3:
            found += consumer.poll()
        ranges = consumer.offsets([queue])[queue]
        consumer.commit({queue: 9})
        assert consumer.committed(queue) == 9
    assert [item.queue_offset for item in found] == [7, 8, 9]
    assert (ranges.begin, ranges.end) == (0, 10)


@pytest.mark.real
def test_a_body_that_we_compress_is_read_by_java(java, mixed_cluster, name):
    body = b"the same words again and again, " * 400
    with Producer("our-producers", mixed_cluster.name_server) as producer:
        producer.send(Message(name, body))
    consumer = java.consumer(f"{name}-group", mixed_cluster.name_server, name)
    (read,) = consumer.wait_for_messages(1)
    consumer.stop()
    assert read["body"] == body
    assert read["size"] < len(body)


@pytest.mark.real
def test_java_clients_find_a_java_broker_through_our_name_server(java, mixed_cluster, name):
    producer = java.producer(f"{name}-producers", mixed_cluster.name_server)
    sent = producer.send(*(message(name, b"%02d" % n) for n in range(10)))
    producer.stop()
    assert {item["broker"] for item in sent} == {mixed_cluster.broker.name}
    consumer = java.consumer(f"{name}-group", mixed_cluster.name_server, name)
    assert bodies(consumer.wait_for_messages(10)) == [b"%02d" % n for n in range(10)]
    consumer.stop()


def test_the_same_java_broker_looks_the_same_in_both_name_servers(java, java_cluster):
    theirs = java.mqadmin("clusterList", "-n", java_cluster.name_server.address)
    ours = java.mqadmin("clusterList", "-n", java_cluster.our_name_server)
    line = next(part for part in theirs.splitlines() if java_cluster.broker.address in part).split()[:5]
    assert line == next(part for part in ours.splitlines() if java_cluster.broker.address in part).split()[:5]
    topics = set(java.mqadmin("topicList", "-n", java_cluster.name_server.address).split())
    assert "TBW102" in topics
    assert topics == set(java.mqadmin("topicList", "-n", java_cluster.our_name_server).split())


def test_java_clients_use_our_broker_through_a_java_name_server(java, java_name_server, guest, name, create_topic):
    create_topic(java_name_server.address, name, 4, "GuestCluster")
    producer = java.producer(f"{name}-producers", java_name_server.address)
    sent = producer.send(*(message(name, b"%02d" % n, tag="t") for n in range(10)))
    producer.stop()
    assert {item["broker"] for item in sent} == {"guest"}
    consumer = java.consumer(f"{name}-group", java_name_server.address, name, tag="t")
    assert bodies(consumer.wait_for_messages(10)) == [b"%02d" % n for n in range(10)]
    consumer.stop()


def test_our_clients_use_our_broker_through_a_java_name_server(java_name_server, guest, name, create_topic):
    create_topic(java_name_server.address, name, 4, "GuestCluster")
    with Producer("our-producers", java_name_server.address) as producer:
        for n in range(10):
            producer.send(Message(name, b"%02d" % n))
    read = read_all(java_name_server.address, name, 10)
    assert {item.broker_name for item in read} == {"guest"}


def test_our_broker_marks_the_topics_that_a_java_name_servers_order_table_names(
    java, java_name_server, guest, name, create_topic
):
    create_topic(java_name_server.address, name, 4, "GuestCluster")
    order = ("-s", "ORDER_TOPIC_CONFIG", "-k", name, "-v", f"{next(iter(guest.brokers))}:4")
    java.mqadmin("updateKvConfig", "-n", java_name_server.address, *order)
    create_topic(java_name_server.address, f"{name}-other", 4, "GuestCluster")  # the broker registers now

    async def is_ordered(topic: str) -> bool:
        async with AdminClient(java_name_server.address) as admin:
            (config,) = (await admin.topic_configs(topic)).values()
            return config.order

    java.wait_for(lambda: asyncio.run(is_ordered(name)), "the topic to be ordered")
    assert not asyncio.run(is_ordered(f"{name}-other"))


def test_a_java_name_server_lists_our_broker_and_forgets_it_when_it_stops(java, java_name_server, guest):
    assert next(iter(guest.brokers.values())) in java.mqadmin("clusterList", "-n", java_name_server.address)
    name = next(iter(guest.brokers))
    address = guest.brokers[name]
    guest.stop_broker(name)
    assert address not in java.mqadmin("clusterList", "-n", java_name_server.address)
    guest.start_broker(name)
    assert address in java.mqadmin("clusterList", "-n", java_name_server.address)
