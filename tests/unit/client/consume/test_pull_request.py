"""The request of a pull, what its answer means, and its messages."""

import pytest

from cases import each_case
from orbitmq.client.consume.pull_request import PullSettings, PullStatus, parse_pull_answer, pull_header
from orbitmq.client.consume.pulled_messages import decode_messages, logical_records
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError
from orbitmq.model.message import Host
from orbitmq.model.route import MessageQueue
from orbitmq.wire.command import Command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import PullResponse, PullSysFlag
from orbitmq.wire.messages.record import format_record, iter_records

QUEUE = MessageQueue("orders", "broker-a", 3)


def header(commit_offset=0, **settings):
    subscription = parse_subscription("orders", "A || B", 77)
    return pull_header("g", QUEUE, subscription, PullSettings(**settings), queue_offset=40, commit_offset=commit_offset)


ANSWER = PullResponse(suggest_which_broker_id=1, next_begin_offset=40, min_offset=8, max_offset=50)
ANSWER_FIELDS = encode_header(ANSWER)


def test_a_pull_names_queue_offset_and_subscription_and_may_be_held():
    found = header(pull_count_max=5, suspend_ms=9)
    assert (found.consumer_group, found.topic, found.queue_id, found.broker_name) == ("g", "orders", 3, "broker-a")
    assert (found.queue_offset, found.count_max, found.suspend_timeout_ms) == (40, 5, 9)
    assert (found.subscription, found.sub_version, found.expression_type) == ("A || B", 77, "TAG")
    assert found.sys_flag == PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION == 6


@each_case((0, 6), (1, 7), (38, 7))
def test_a_pull_carries_an_offset_to_commit_when_there_is_one(commit_offset, sys_flag):
    found = header(commit_offset)
    assert (found.commit_offset, found.sys_flag) == (commit_offset, sys_flag)


def test_the_settings_are_those_of_javas_consumer_or_wider():
    found = PullSettings()
    assert (found.pull_count_max, found.window_count_max, found.window_size_max) == (256, 1_000, 100 * 2**20)
    assert (found.suspend_ms, found.timeout_ms) == (15_000, 30_000)


@each_case(
    (ResponseCode.SUCCESS, PullStatus.FOUND, b"records"),
    (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW_MESSAGE, b""),
    (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED_MESSAGE, b""),
    (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL, b""),
)
def test_an_outcome_says_where_to_go_on_and_only_found_brings_records(code, status, records):
    assert parse_pull_answer(Command(int(code), ext_fields=ANSWER_FIELDS, body=b"records")) == (status, ANSWER, records)


@each_case(ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, 9999)
def test_any_other_code_is_a_refusal(code):
    assert parse_pull_answer(Command(int(code), ext_fields=ANSWER_FIELDS, body=b"records")) is None


def test_an_answer_that_does_not_say_where_to_go_on_is_an_error():
    with pytest.raises(HeaderError, match="suggestWhichBrokerId is missing"):
        parse_pull_answer(Command(int(ResponseCode.SUCCESS)))


def record(topic, body, properties=b"", queue_offset=7):
    return format_record(
        topic=topic, body=body, properties=properties, queue_id=3, flag=0, queue_offset=queue_offset,
        physical_offset=0, sys_flag=0, stored_at_ms=0, store_host=Host("127.0.0.1", 10911),
    )  # fmt: skip


def pulled(topic, *records, tag="*", pull_offset=7, next_offset=20):
    subscription = parse_subscription(topic, tag, 1)
    return decode_messages(
        b"".join(records), MessageQueue(topic, "broker-a", 3), subscription, pull_offset, next_offset
    )


def decode(topic, *records, tag="*"):
    found = pulled(topic, *records, tag=tag)
    assert (found.errors, found.next_offset) == ([], 20)
    return found.messages


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


def flipped(encoded, at):
    return encoded[:at] + bytes([encoded[at] ^ 0xFF]) + encoded[at + 1 :]


@each_case(
    (flipped(record("orders", b"bad"), 7), "magic"),
    (flipped(record("orders", b"bad"), 84), "body of"),
    (flipped(record("orders", b"bad"), 91), "topic of"),
    (flipped(record("orders", b"bad"), 92), "topic is not UTF-8"),
)
def test_a_damaged_record_stops_no_other(bad, reason):
    found = pulled("orders", record("orders", b"1"), bad, record("orders", b"2"))
    assert [message.body for message in found.messages] == [b"1", b"2"]
    assert [reason in str(error) for error in found.errors] == [True]
    assert found.next_offset == 20


@each_case(([8, 9], 8, 11), ([9], 7, 11), ([], 8, 9), ([18], 8, 20))
def test_behind_a_record_whose_end_is_unknown_the_next_pull_starts(before, pull_offset, next_offset):
    records = [record("orders", b"1", queue_offset=offset) for offset in before]
    for bad in (flipped(record("orders", b"bad"), 0), record("orders", b"bad")[:3]):
        found = pulled("orders", *records, bad, record("orders", b"2"), pull_offset=pull_offset)
        assert ([message.queue_offset for message in found.messages], len(found.errors)) == (before, 1)
        assert found.next_offset == next_offset


def test_a_message_whose_queue_offset_cannot_be_right_gets_one_that_moves_no_other():
    records = [record("orders", b"%d" % at, queue_offset=at) for at in (7, 2**40, 9)]
    found = pulled("orders", *records)
    assert [(message.queue_offset, message.body) for message in found.messages] == [
        (7, b"7"),
        (8, b"%d" % 2**40),
        (9, b"9"),
    ]
    assert [error.reason for error in found.errors] == [f"its queue offset is {2**40}"]


def test_messages_of_a_logical_queue_have_its_number_and_offsets():
    queue = MessageQueue("orders", "__syslo__global__", 1)
    ((found,), *_) = decode_messages(
        record("orders", b"1"), queue, parse_subscription("orders", "*", 1), 20_000, 20_010, 20_000
    )
    assert (found.queue_id, found.queue_offset, found.broker_name) == (1, 20_007, "__syslo__global__")


def test_records_get_the_number_and_the_offsets_of_their_logical_queue():
    assert places(logical_records(RECORDS, LOGICAL, 10_000)) == [(7, 10_004, b"xxxx"), (7, 10_005, b"xxxxx")]
    assert places(logical_records(RECORDS, LOGICAL, None)) == [(7, 4, b"xxxx"), (7, 5, b"xxxxx")]
    assert logical_records(b"", LOGICAL, 1) == b""


def test_those_of_a_plain_queue_stay_as_they_are():
    assert logical_records(RECORDS, LOGICAL._replace(broker_name="broker-a"), 10_000) is RECORDS


@each_case(RECORDS[:30], b"\0" * 100, b"\xff" * 100, RECORDS[:1])
def test_what_is_damaged_is_left_to_the_decoder(damaged):
    assert len(logical_records(damaged, LOGICAL, 1)) == len(damaged)
