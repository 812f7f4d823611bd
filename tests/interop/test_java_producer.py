"""Java's DefaultMQProducer sends to our broker; our consumers read."""

import pytest

from interop.drain import bodies, consume, read_all
from interop.peers import PeerError, message
from orbitmq import Message
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.wire.messages.message_id import offset_message_id

pytestmark = pytest.mark.real  # with one JVM full of clients, part of `make test`


@pytest.fixture(scope="module")
def producer(java, ours):
    started = java.producer("java-producers", ours.name_servers)
    yield started
    started.stop()


def test_every_field_of_a_java_message_arrives(producer, ours, name):
    sent = producer.send(
        message(name, "Grüße 你好".encode(), tag="red", keys="k1 k2", flag=-7, properties={"colour": "röd", "n": "7"})
    )[0]
    (read,) = read_all(ours.name_servers, name, 1)
    assert sent["status"] == "SEND_OK"
    assert read.body == "Grüße 你好".encode()
    assert (read.topic, read.tag, list(read.keys), read.flag) == (name, "red", ["k1", "k2"], -7)
    assert {"colour": "röd", "n": "7"}.items() <= dict(read.properties).items()
    assert (read.broker_name, read.queue_id, read.queue_offset) == (
        sent["broker"],
        sent["queue_id"],
        sent["queue_offset"],
    )
    assert read.message_id == sent["message_id"]
    assert offset_message_id(read.store_host, read.physical_offset) == sent["offset_message_id"]
    assert read.born_host.ip == "127.0.0.1"


def test_a_topic_is_made_by_the_first_message_and_spread_over_four_queues(producer, ours, name):
    sent = producer.send(*(message(name, b"%d" % n) for n in range(16)))
    assert {item["queue_id"] for item in sent} == {0, 1, 2, 3}
    assert bodies(read_all(ours.name_servers, name, 16)) == sorted(b"%d" % n for n in range(16))


def test_messages_of_one_key_stay_in_order(producer, ours, name):
    producer.send(*(message(name, b"%03d" % n, order_key=f"customer-{n % 3}") for n in range(90)))
    by_queue = {}
    for read in read_all(ours.name_servers, name, 90):
        by_queue.setdefault(read.queue_id, []).append(read)
    for queued in by_queue.values():
        assert [read.queue_offset for read in queued] == list(range(len(queued)))
        assert [read.body for read in queued] == sorted(read.body for read in queued)


def test_a_java_batch_becomes_single_messages(producer, ours, name):
    sent = producer.send_batch(*(message(name, b"b%d" % n, tag="t", keys=f"k{n}") for n in range(5)))
    read = read_all(ours.name_servers, name, 5)
    assert [item.body for item in sorted(read, key=lambda item: item.queue_offset)] == [b"b%d" % n for n in range(5)]
    assert {item.tag for item in read} == {"t"}
    assert len({item.queue_id for item in read}) == 1
    ids = [offset_message_id(item.store_host, item.physical_offset) for item in read]
    assert sorted(sent["offset_message_id"].split(",")) == sorted(ids)


def test_one_way_messages_arrive(producer, ours, name):
    producer.send(message(name, b"first"))
    producer.send_oneway(*(message(name, b"one way %d" % n) for n in range(8)))
    assert len(read_all(ours.name_servers, name, 9)) == 9


@pytest.mark.parametrize("compress_type", ["ZLIB", "LZ4", "ZSTD"])
def test_a_compressed_body_is_read_as_it_was_written(java, ours, name, compress_type):
    body = b"the same words again and again, " * 400
    packer = java.producer(f"java-{compress_type}", ours.name_servers, compress_over=1024, compress_type=compress_type)
    packer.send(message(name, body))
    packer.stop()
    (read,) = read_all(ours.name_servers, name, 1)
    assert read.body == body
    assert read.store_size < len(body)


def test_a_body_of_four_mebibytes_arrives(java, ours, name):
    big = java.producer("java-big", ours.name_servers, compress_over=1 << 30, send_timeout_ms=30_000)
    big.send(message(name, b"x" * (4 * 1024 * 1024 - 1)))
    big.stop()
    (read,) = read_all(ours.name_servers, name, 1)
    assert len(read.body) == 4 * 1024 * 1024 - 1


def test_our_push_consumer_filters_a_java_producers_tags(producer, ours, name):
    producer.send(
        *(message(name, f"{tag}-{n}".encode(), tag=tag) for n in range(4) for tag in ("red", "blue", "green"))
    )
    with PushConsumer(f"{name}-group", ours.name_servers) as consumer:
        consumer.subscribe(name, tag="red || green")
        read = consume(consumer, 8)
    assert {item.tag for item in read} == {"red", "green"}


def test_a_java_producer_reads_why_its_message_was_refused(producer, ours):
    with pytest.raises(PeerError, match=r"CODE: 16|NO_PERMISSION|not allowed|forbid"):
        producer.send(message("SCHEDULE_TOPIC_XXXX", b"not for clients"))


def test_java_and_our_producer_share_a_queue_without_gaps(producer, ours, name):
    producer.send(message(name, b"java 0"))
    with Producer("our-producers", ours.name_servers) as mine:
        for n in range(10):
            mine.send(Message(name, b"ours %d" % n))
            producer.send(message(name, b"java %d" % (n + 1)))
    read = read_all(ours.name_servers, name, 21)
    for queue_id in {item.queue_id for item in read}:
        offsets = sorted(item.queue_offset for item in read if item.queue_id == queue_id)
        assert offsets == list(range(len(offsets)))
