"""Half messages are sent once each, and those that may have arrived twice are told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RouteNotFound, SendFailed
from orbitmq.model.message import PropertyName
from orbitmq.model.route import MessageQueue
from orbitmq.spark.exactly_once import half_sender
from orbitmq.spark.exactly_once.commit_markers import parse_attempt_id
from orbitmq.spark.exactly_once.half_sender import HalfSender
from orbitmq.spark.exactly_once.prepared import Prepared, PreparedTopic
from orbitmq.spark.options import WriteOptions
from orbitmq.testing import LocalCluster
from unit.spark.exactly_once.topics import create
from unit.spark.fake_time import FakeTime


@pytest.fixture
def options(fake):
    for queue_id in range(2):
        fake.fill("orders", queue_id, 3)
    return WriteOptions(name_servers=(fake.address,), topic="orders", exactly_once=True, row_ids=False, group="halves")


def send(options, *columns):
    batches = (pa.RecordBatch.from_pydict(batch) for batch in columns)
    return HalfSender(options, Prepared("q", 7, "attempt", 0)).send(batches)


def test_every_row_is_a_half_message_with_a_stamp_of_its_own(fake, options):
    prepared = send(options, {"body": [b"a", b"b"]}, {"body": [b"c"]})

    assert [body for _, body, _ in fake.sent] == [b"a", b"b", b"c"]
    assert [parse_attempt_id(properties) for _, _, properties in fake.sent] == [
        ("q", 7, "attempt", n) for n in range(3)
    ]
    assert {properties[PropertyName.TRAN_MSG] for _, _, properties in fake.sent} == {"true"}
    assert {properties[PropertyName.PRODUCER_GROUP] for _, _, properties in fake.sent} == {"halves"}
    assert prepared.count == 3
    assert prepared.unverified == ()
    assert len(prepared.halves[PreparedTopic("orders", "fake")]) == 6
    assert prepared.born_at_ms > 0


def test_a_task_notes_where_its_queues_ended_before(options):
    prepared = send(options, {"body": [b"a", b"b", b"c"]})

    assert {queue.queue_id: (part.begin, part.count) for queue, part in prepared.filled.items()} == {
        0: (3, 2),
        1: (3, 1),
    }


def test_no_rows_are_no_messages(fake, options):
    assert send(options).count == 0
    assert fake.sent == []


def test_rows_of_one_key_go_to_one_queue(options):
    prepared = send(options, {"body": [b"x"] * 9, "shardingKey": ["k"] * 9})

    assert [part.count for part in prepared.filled.values()] == [9]


def test_many_rows_are_acknowledged_each(fake, options):
    prepared = send(options, {"body": [b"%d" % n for n in range(2000)]})

    assert Counter(body for _, body, _ in fake.sent) == Counter(b"%d" % n for n in range(2000))
    assert prepared.count == 2000


def test_a_row_whose_first_message_was_refused_for_now_is_sent_again_under_another_serial(fake, options, monkeypatch):
    monkeypatch.setattr(half_sender, "BACKOFF_MS", 0)
    fake.send_faults.append(ResponseCode.SYSTEM_ERROR)
    prepared = send(options, {"body": [b"a", b"b"]})

    assert sorted(body for _, body, _ in fake.sent) == [b"a", b"b"]
    assert prepared.unverified == ((0, 0),)
    assert prepared.count == 2
    assert {parse_attempt_id(properties).serial for _, _, properties in fake.sent} == {1, 2}


def test_what_was_under_way_when_a_connection_broke_is_sent_again_and_told(fake, options, monkeypatch):
    monkeypatch.setattr(half_sender, "BACKOFF_MS", 0)
    broken = []

    def batches():
        yield pa.RecordBatch.from_pydict({"body": [b"%d" % n for n in range(600)]})
        fake.drop_connections()
        broken.append(True)
        yield pa.RecordBatch.from_pydict({"body": [b"%d" % n for n in range(600, 700)]})

    prepared = HalfSender(options, Prepared("q", 7, "attempt", 0)).send(batches())

    unverified = {serial for first, last in prepared.unverified for serial in range(first, last + 1)}
    kept = [body for _, body, properties in fake.sent if parse_attempt_id(properties).serial not in unverified]
    assert broken
    assert unverified
    assert Counter(kept) == Counter(b"%d" % n for n in range(700)), "each row once, without those in doubt"
    assert prepared.count == 700


def test_a_broker_that_fails_for_too_long_fails_the_task(fake, options):
    fake.broker_address = "127.0.0.1:1"

    with pytest.raises(SendFailed, match="not sent"):
        send(replace(options, broker_timeout_ms=300), {"body": [b"a"]})


def test_a_broker_that_is_away_for_half_a_minute_fails_no_task(fake, options, monkeypatch):
    fake.broker_address, address = "127.0.0.1:1", fake.address

    def come_back() -> None:
        if clock.now > 1030:
            fake.broker_address = address

    clock = FakeTime(asleep=come_back)
    monkeypatch.setattr(half_sender, "time", clock)
    monkeypatch.setattr(half_sender, "BACKOFF_MS", 1_000)
    assert send(options, {"body": [b"a"]}).count == 1
    assert clock.now > 1030


@pytest.mark.parametrize("code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.MESSAGE_ILLEGAL])
def test_a_message_that_is_not_stored_as_promised_fails_the_task(fake, options, code):
    fake.send_faults.append(code)

    with pytest.raises(SendFailed, match="fake answered"):
        send(options, {"body": [b"a"]})


@pytest.mark.real
def test_a_broker_that_refuses_transactions_is_told_with_the_setting():
    with LocalCluster.running(settings={"reject_transaction_message": True}) as cluster:
        create(cluster.name_servers, "orders", 1)
        given = WriteOptions(name_servers=(cluster.name_servers,), topic="orders", exactly_once=True, row_ids=False)
        options = replace(given, broker_timeout_ms=300)
        with pytest.raises(SendFailed, match=r"answered code 16.*rejectTransactionMessage=false.*the role writer"):
            send(options, {"body": [b"a"]})


def test_a_row_goes_to_the_queue_that_it_names(options):
    named = [{"brokerName": "fake", "queueId": 1}] * 3
    prepared = send(options, {"body": [b"a", b"b", b"c"], "queue": named, "shardingKey": ["a", "b", "c"]})

    assert {queue.queue_id: part.count for queue, part in prepared.filled.items()} == {1: 3}
    with pytest.raises(InvalidArgument, match=r"queue: 'fake/2'.*fake/0, fake/1; row q/7/1"):
        send(options, {"body": [b"a", b"b"], "queue": [named[0], {"brokerName": "fake", "queueId": 2}]})


def test_a_row_stays_with_its_queue_while_its_broker_fails(fake, options, monkeypatch):
    named = {"brokerName": "fake", "queueId": 1}
    fake.send_faults.append(ResponseCode.SYSTEM_ERROR)
    clock = FakeTime(asleep=lambda: fake.queues.pop(("orders", 1)))  # the route without the broker
    monkeypatch.setattr(half_sender, "time", clock)
    prepared = send(options, {"body": [b"a"], "queue": [named]})

    assert {queue.queue_id: part.count for queue, part in prepared.filled.items()} == {1: 1}
    assert prepared.unverified == ((0, 0),)


def test_rows_for_a_later_time_are_refused(options):
    with pytest.raises(InvalidArgument, match="delayLevel"):
        send(options, {"body": [b"a"], "delayLevel": [3]})


def test_a_topic_has_to_be_there(options):
    with pytest.raises(RouteNotFound, match="nowhere"):
        send(replace(options, topic="nowhere"), {"body": [b"a"]})


def test_too_many_doubts_fail_the_task(fake, options, monkeypatch):
    monkeypatch.setattr(half_sender, "UNVERIFIED_MAX", 0)

    def batches():
        yield pa.RecordBatch.from_pydict({"body": [b"x"] * 600})
        fake.drop_connections()
        yield pa.RecordBatch.from_pydict({"body": [b"x"] * 600})

    with pytest.raises(SendFailed, match="are not verified"):
        HalfSender(options, Prepared("q", 7, "attempt", 0)).send(batches())


def test_a_queue_that_does_not_say_where_it_ends_fails_the_task(fake, options):
    from orbitmq.errors import RemoteRefused
    from orbitmq.wire.headers import GetMaxOffset

    fake.refuses.add(GetMaxOffset)
    with pytest.raises(RemoteRefused, match="not you"):
        send(options, {"body": [b"a"]})


def test_queues_are_named_by_topic_broker_and_number(options):
    assert set(send(options, {"body": [b"a", b"b"]}).filled) == {MessageQueue("orders", "fake", n) for n in range(2)}
