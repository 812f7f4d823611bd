"""Messages of pulls, and the records of logical queues."""

import pytest

from orbitmq.client.consume.pull.logical_records import logical_records
from orbitmq.client.consume.pull.pulled_messages import decode_messages
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.errors import OrbitError
from orbitmq.model.message import Host
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.record import format_record, iter_records


def record(topic, body, properties=b"", queue_offset=7):
    return format_record(
        topic=topic, body=body, properties=properties, queue_id=3, flag=0, queue_offset=queue_offset,
        physical_offset=0, sys_flag=0, stored_at_ms=0, store_host=Host("127.0.0.1", 10911),
    )  # fmt: skip


def decode(topic, *records, tag="*"):
    return decode_messages(b"".join(records), MessageQueue(topic, "broker-a", 3), parse_subscription(topic, tag, 1))


LOGICAL = MessageQueue("orders", "__syslo__global__", 7)


RECORDS = record("orders", b"xxxx", queue_offset=4) + record("orders", b"xxxxx", queue_offset=5)


def places(records):
    return [(found.queue_id, found.queue_offset, bytes(found.body)) for found in iter_records(records)]


def test_records_become_messages_of_their_broker_in_order():
    found = decode("orders", record("orders", b"1"), record("orders", b"2"))
    assert [(message.body, message.broker_name, message.queue_offset) for message in found] == [
        (b"1", "broker-a", 7),
        (b"2", "broker-a", 7),
    ]
    assert decode("orders") == []


def test_only_wanted_tags_are_left_even_where_hashes_clash():
    records = [record("orders", tag.encode(), f"TAGS\x01{tag}\x02".encode()) for tag in ("Aa", "BB", "C")]
    assert [message.body for message in decode("orders", *records, tag="Aa || C")] == [b"Aa", b"C"]
    assert len(decode("orders", *records)) == 3


def test_a_message_that_was_sent_back_has_the_topic_that_it_was_sent_to():
    sent_back = record("%RETRY%g", b"1", b"RETRY_TOPIC\x01orders\x02")
    assert [message.topic for message in decode("%RETRY%g", sent_back, record("%RETRY%g", b"2"))] == [
        "orders",
        "%RETRY%g",
    ]
    assert [message.topic for message in decode("orders", record("orders", b"1", b"RETRY_TOPIC\x01other\x02"))] == [
        "orders"
    ]


def test_a_damaged_record_is_an_error():
    with pytest.raises(OrbitError):
        decode("orders", record("orders", b"1")[:-1])


def test_messages_of_a_logical_queue_have_its_number_and_offsets():
    queue = MessageQueue("orders", "__syslo__global__", 1)
    (found,) = decode_messages(record("orders", b"1"), queue, parse_subscription("orders", "*", 1), 20_000)
    assert (found.queue_id, found.queue_offset, found.broker_name) == (1, 20_007, "__syslo__global__")


def test_records_get_the_number_and_the_offsets_of_their_logical_queue():
    assert places(logical_records(RECORDS, LOGICAL, 10_000)) == [(7, 10_004, b"xxxx"), (7, 10_005, b"xxxxx")]
    assert places(logical_records(RECORDS, LOGICAL, None)) == [(7, 4, b"xxxx"), (7, 5, b"xxxxx")]
    assert logical_records(b"", LOGICAL, 1) == b""


def test_those_of_a_plain_queue_stay_as_they_are():
    assert logical_records(RECORDS, LOGICAL._replace(broker_name="broker-a"), 10_000) is RECORDS


@pytest.mark.parametrize("damaged", [RECORDS[:30], b"\0" * 100, b"\xff" * 100, RECORDS[:1]])
def test_what_is_damaged_is_left_to_the_decoder(damaged):
    assert len(logical_records(damaged, LOGICAL, 1)) == len(damaged)
