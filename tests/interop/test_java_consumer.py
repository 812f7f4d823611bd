"""Our producer sends to our broker; Java's consumers read."""

import time

import pytest

from interop.drain import bodies
from orbitmq import Message
from orbitmq.blocking import Producer, PushConsumer


@pytest.fixture(scope="module")
def producer(ours):
    with Producer("our-producers", ours.name_servers) as started:
        yield started


@pytest.mark.real
def test_every_field_of_our_message_arrives_in_java(java, producer, ours, name):
    sent = producer.send(
        Message(name, "Grüße 你好".encode(), tag="red", keys=("k1", "k2"), properties={"colour": "röd"}, flag=-7)
    )
    consumer = java.consumer(f"{name}-group", ours.name_servers, name)
    (read,) = consumer.wait_for_messages(1)
    consumer.stop()
    assert read["body"] == "Grüße 你好".encode()
    assert (read["tag"], read["keys"], read["flag"]) == ("red", "k1 k2", -7)
    assert read["properties"]["colour"] == "röd"
    assert (read["queue_id"], read["queue_offset"]) == (sent.queue.queue_id, sent.queue_offset)
    assert read["message_id"] == sent.message_id


@pytest.mark.real
def test_a_java_consumer_gets_only_the_tags_it_asked_for(java, producer, ours, name):
    for n in range(10):
        for tag in ("red", "blue", "green"):
            producer.send(Message(name, f"{tag}-{n}".encode(), tag=tag))
    consumer = java.consumer(f"{name}-group", ours.name_servers, name, tag="red || green")
    read = consumer.wait_for_messages(20)
    consumer.stop()
    assert bodies(read) == sorted(f"{tag}-{n}".encode() for tag in ("red", "green") for n in range(10))


@pytest.mark.real
def test_a_java_consumer_whose_pulls_are_held_gets_new_messages(java, producer, ours, name):
    producer.send(Message(name, b"before"))
    consumer = java.consumer(f"{name}-group", ours.name_servers, name)
    consumer.wait_for_messages(1)
    for n in range(8):
        producer.send(Message(name, b"%d after" % n))
        consumer.wait_for_messages(2 + n)
    consumer.stop()
    assert bodies(consumer.received) == [*(b"%d after" % n for n in range(8)), b"before"]


def test_two_java_consumers_share_the_queues_and_one_inherits_when_the_other_leaves(
    java, producer, ours, name, create_topic
):
    create_topic(ours.name_servers, name, 4)
    first = java.consumer(f"{name}-group", ours.name_servers, name, instance="first")
    java.wait_for(lambda: len(first.queues()) == 4, "the first consumer to own all four queues")
    second = java.consumer(f"{name}-group", ours.name_servers, name, instance="second")
    java.wait_for(lambda: len(first.queues()) == len(second.queues()) == 2, "two queues each")
    assert first.queues().isdisjoint(second.queues())
    for n in range(40):
        producer.send(Message(name, b"%02d" % n))
    java.wait_for(lambda: len(first.received) + len(second.received) >= 40, "all messages at both")
    assert bodies(first.received + second.received) == sorted(b"%02d" % n for n in range(40))
    assert first.received
    assert second.received
    second.stop()
    java.wait_for(lambda: len(first.queues()) == 4, "the first consumer to own all four queues again")
    first.stop()


def test_offsets_are_resumed_after_the_consumer_and_the_broker_restart(java, ours, name, producer):
    for n in range(20):
        producer.send(Message(name, b"%02d" % n))
    consumer = java.consumer(f"{name}-group", ours.name_servers, name)
    consumer.wait_for_messages(20)
    consumer.stop()
    ours.restart_broker()
    for n in range(20, 30):
        producer.send(Message(name, b"%02d" % n))
    again = java.consumer(f"{name}-group", ours.name_servers, name)
    read = again.wait_for_messages(10)
    again.stop()
    assert bodies(read) == [b"%02d" % n for n in range(20, 30)]


def test_a_broadcasting_java_consumer_gets_everything(java, producer, ours, name, create_topic):
    create_topic(ours.name_servers, name, 2)
    settings = {"model": "BROADCASTING"}
    both = [
        java.consumer(f"{name}-group", ours.name_servers, name, instance=f"{name}-{n}", **settings) for n in range(2)
    ]
    for consumer in both:
        java.wait_for(lambda consumer=consumer: len(consumer.queues()) == 2, "both queues")
    for n in range(10):
        producer.send(Message(name, b"%02d" % n))
    for consumer in both:
        assert bodies(consumer.wait_for_messages(10)) == [b"%02d" % n for n in range(10)]
        consumer.stop()


@pytest.mark.real
def test_an_orderly_java_consumer_locks_its_queues_and_keeps_the_order(java, producer, ours, name):
    for n in range(30):
        producer.send(Message(name, b"%02d" % n), key="one customer")
    consumer = java.consumer(f"{name}-group", ours.name_servers, name, orderly=True)
    read = consumer.wait_for_messages(30)
    consumer.stop()
    assert [item["body"] for item in read] == [b"%02d" % n for n in range(30)]


def test_javas_pull_consumer_reads_offsets_and_pages(java, producer, ours, name):
    for n in range(10):
        producer.send(Message(name, b"%d" % n), key="same queue")
    sent = producer.send(Message(name, b"10"), key="same queue")
    queue = {"topic": name, "broker": sent.queue.broker_name, "queue_id": sent.queue.queue_id}
    java.call("puller.start", name=name, group=f"{name}-group", name_servers=ours.name_servers)
    page = java.call("puller.pull", name=name, queue_offset=3, count=4, **queue)
    offsets = java.call("puller.offsets", name=name, commit=5, timestamp_ms=1, **queue)
    late = java.call("puller.offsets", name=name, timestamp_ms=int(time.time() * 1000) + 60_000, **queue)
    beyond = java.call("puller.pull", name=name, queue_offset=1000, count=4, **queue)
    nothing = java.call("puller.pull", name=name, queue_offset=0, count=32, tag="nobody", **queue)
    java.call("puller.stop", name=name)
    assert [message["queue_offset"] for message in page["messages"]] == [3, 4, 5, 6]
    assert (page["status"], page["next_offset"], page["max_offset"]) == ("FOUND", 7, 11)
    assert (offsets["committed"], offsets["min"], offsets["max"], offsets["at_timestamp"]) == (5, 0, 11, 0)
    assert late["at_timestamp"] == 11
    assert beyond["status"] == "OFFSET_ILLEGAL"
    assert (nothing["status"], nothing["messages"]) == ("NO_MATCHED_MSG", [])


def test_javas_lite_pull_consumer_polls(java, producer, ours, name):
    for n in range(12):
        producer.send(Message(name, b"%02d" % n))
    java.call("lite.start", name=name, group=f"{name}-group", name_servers=ours.name_servers, topic=name)
    polled = []
    deadline = time.monotonic() + 60
    while len(polled) < 12:
        assert time.monotonic() < deadline
        polled += java.call("lite.poll", name=name, timeout_ms=5000)
    java.call("lite.stop", name=name)
    assert len(polled) == 12


def test_a_group_of_java_and_ours_shares_the_queues(java, producer, ours, name, create_topic):
    create_topic(ours.name_servers, name, 4)
    theirs = java.consumer(f"{name}-group", ours.name_servers, name)
    with PushConsumer(f"{name}-group", ours.name_servers) as mine:
        mine.subscribe(name)

        def my_queues():
            return {(queue.broker_name, queue.queue_id) for queue in mine.assignment if queue.topic == name}

        java.wait_for(lambda: len(my_queues()) == len(theirs.queues()) == 2, "two queues each")
        assert my_queues().isdisjoint(theirs.queues())
    java.wait_for(lambda: len(theirs.queues()) == 4, "Java to inherit")
    theirs.stop()
