"""A task reads its range whole and in order, whatever the broker does, or says what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, RemoteRefused
from orbitmq.model.message import Host
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.reply import Reply
from orbitmq.spark.offsets import Earliest
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading import blocks, range_reader
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.range_reader import RangeReader
from orbitmq.wire.headers import PullResponse, PullSysFlag
from orbitmq.wire.messages.record import format_record
from unit.spark.fake_broker import USUAL, moved
from unit.spark.fake_time import FakeTime

NAMES = ("queueOffset", "body", "tags")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(range_reader, "BACKOFF_MS_MAX", 0)


def rows(fake, begin, end, *, queue_id=0, **options):
    wanted = Range(MessageQueue("orders", "fake", queue_id), begin, end)
    settings = replace(ReadOptions(name_servers=(fake.address,), start=Earliest(), broker_timeout_ms=0), **options)
    return [row for batch in RangeReader(wanted, fake.address, settings, NAMES).batches() for row in batch.to_pylist()]


def offsets(fake, begin, end, **options):
    return [row["queueOffset"] for row in rows(fake, begin, end, **options)]


@pytest.mark.parametrize("cap", [1, 7, 32, 1000])
@pytest.mark.parametrize("outstanding", [1, 4])
def test_a_range_is_read_whole_and_in_order(fake, cap, outstanding):
    fake.fill("orders", 0, 500)
    fake.pull_count_max = cap

    assert offsets(fake, 13, 487, pull_outstanding=outstanding) == list(range(13, 487))


def test_nothing_is_asked_for_twice_or_behind_the_end(fake):
    fake.fill("orders", 0, 300)
    offsets(fake, 0, 200, pull_count=64)

    asked = [(pull.queue_offset, pull.queue_offset + pull.count_max) for pull in fake.asked]
    assert [end for _, end in asked] == [*[begin for begin, _ in asked][1:], 200]


def test_large_messages_come_in_blocks_of_a_megabyte(fake, monkeypatch):
    monkeypatch.setattr(range_reader, "DECODE_SIZE", 300_000)
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 100_000)
    fake.fill("orders", 0, 400, size=5000)

    assert offsets(fake, 0, 400) == list(range(400))
    assert {pull.count_max for pull in fake.asked[8:-1]} == {19}


def test_a_block_that_runs_ahead_waits_when_it_holds_enough(fake, monkeypatch):
    monkeypatch.setattr(blocks, "BUFFER_SIZE_MAX", 1)
    fake.fill("orders", 0, 200)
    fake.pull_count_max = 3

    assert offsets(fake, 0, 200) == list(range(200))


def test_a_tag_filter_with_gaps_is_no_data_loss(fake):
    fake.fill("orders", 0, 200, tags="abc")
    fake.pull_count_max = 8

    assert offsets(fake, 0, 200, tags=frozenset("b")) == list(range(1, 200, 3))
    assert offsets(fake, 0, 200, tags=frozenset("x")) == []


@pytest.mark.parametrize(
    "fault", [None, Reply(ResponseCode.SYSTEM_BUSY, "busy"), Reply(ResponseCode.SYSTEM_ERROR, "oh")], ids=str
)
def test_a_failure_in_between_is_tried_again(fake, fault):
    fake.fill("orders", 0, 300)
    fake.faults.extend([fault, fault])

    assert offsets(fake, 0, 300) == list(range(300))


def test_a_broker_that_keeps_failing_is_given_up_with_its_reason(fake):
    fake.fill("orders", 0, 10)
    fake.faults.extend([Reply(ResponseCode.SYSTEM_BUSY, "page cache is busy")] * 5)

    with pytest.raises(ConnectionFailed, match="page cache is busy"):
        offsets(fake, 0, 10)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_failure_is_tried_again_as_often_as_the_option_says(fake, retries):
    fake.fill("orders", 0, 10)
    fake.faults.extend([Reply(ResponseCode.SYSTEM_BUSY, "busy")] * retries)
    assert offsets(fake, 0, 10, retries=retries) == list(range(10))

    fake.faults.extend([Reply(ResponseCode.SYSTEM_BUSY, "busy")] * (retries + 1))
    with pytest.raises(ConnectionFailed, match=f"gave up after {retries + 1} attempts"):
        offsets(fake, 0, 10, retries=retries)


def test_a_broker_is_waited_for_until_the_timeout_whatever_the_retries_say(fake, monkeypatch, caplog):
    fake.fill("orders", 0, 10)
    clock = FakeTime()
    monkeypatch.setattr(range_reader, "BACKOFF_MS_MAX", 2_000)
    monkeypatch.setattr(range_reader, "time", clock)
    busy = Reply(ResponseCode.SYSTEM_BUSY, "busy")
    fake.faults.extend([busy] * 15)
    assert offsets(fake, 0, 10, retries=0, broker_timeout_ms=30_000) == list(range(10))
    assert len(caplog.records) == 4  # of fifteen: the first, second, fourth and eighth

    fake.faults.extend([busy] * 100)
    clock.now = 0.0
    with pytest.raises(ConnectionFailed, match="gave up after"):
        offsets(fake, 0, 10, retries=3, broker_timeout_ms=30_000)
    assert 30 <= clock.now < 33


def test_a_pull_asks_for_a_megabyte_of_the_subscription_and_never_waits(fake):
    fake.fill("orders", 0, 10)
    offsets(fake, 0, 10, tags=frozenset({"a", "b"}), group="billing")

    (pull,) = fake.asked
    assert (pull.consumer_group, pull.topic, pull.queue_id) == ("billing", "orders", 0)
    assert (pull.queue_offset, pull.count_max, pull.size_max) == (0, 10, 1024 * 1024)
    assert (pull.subscription, pull.expression_type, pull.sys_flag) == ("a || b", "TAG", PullSysFlag.SUBSCRIPTION)
    assert (pull.commit_offset, pull.suspend_timeout_ms, pull.sub_version) == (0, 0, 0)


def test_an_offset_that_the_broker_holds_and_denies_is_tried_again(fake):
    queue = fake.fill("orders", 0, 10, first=5)
    fake.faults.append(moved(queue, 5))

    assert offsets(fake, 5, 15) == list(range(5, 15))
    fake.faults.append(moved(queue, 5))
    with pytest.raises(DataLoss, match="offsets 5 to 14"):
        offsets(fake, 5, 15, retries=0)


def test_messages_in_between_make_the_count_of_attempts_begin_again(fake):
    fake.fill("orders", 0, 100)
    fake.pull_count_max = 10
    busy = Reply(ResponseCode.SYSTEM_BUSY, "busy")
    fake.faults.extend([busy, busy, USUAL, busy, busy])

    assert offsets(fake, 0, 100, retries=2, pull_outstanding=1) == list(range(100))


def test_a_broker_that_moved_is_found_through_the_name_server(fake):
    fake.fill("orders", 0, 10)
    wanted = Range(MessageQueue("orders", "fake", 0), 0, 10)
    options = ReadOptions(name_servers=(fake.address,), start=Earliest())

    batches = list(RangeReader(wanted, "127.0.0.1:1", options, NAMES).batches())

    assert sum(batch.num_rows for batch in batches) == 10


def test_a_refusal_is_not_tried_again(fake):
    fake.fill("orders", 0, 10)
    fake.faults.append(Reply(ResponseCode.NO_PERMISSION, "not you"))

    with pytest.raises(RemoteRefused, match="not you"):
        offsets(fake, 0, 10)


def test_a_group_that_must_exist_is_named_with_the_way_out(fake):
    fake.fill("orders", 0, 10)
    fake.faults.append(Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no such group"))

    with pytest.raises(RemoteRefused, match=r"create group orbitmq-spark, or .* the option group"):
        offsets(fake, 0, 10)


def test_a_trimmed_beginning_is_data_loss(fake):
    fake.fill("orders", 0, 100, first=40)

    with pytest.raises(DataLoss, match="offsets 10 to 39 of queue 0 of topic orders"):
        offsets(fake, 10, 120)
    assert offsets(fake, 10, 120, fail_on_data_loss=False) == list(range(40, 120))


@pytest.mark.parametrize("tags", [None, frozenset("a")])
def test_a_trimmed_beginning_is_crossed_immediately_with_one_warning(fake, caplog, tags):
    fake.fill("orders", 0, 50, first=26_000, tags="a")
    fake.pull_count_max = 32

    assert offsets(fake, 10, 26_040, fail_on_data_loss=False, tags=tags) == list(range(26_000, 26_040))
    assert [record.message for record in caplog.records] == [
        "offsets 10 to 25999 of queue 0 of topic orders on fake are gone; going on without them"
    ]
    assert len(fake.asked) < 12


def test_a_trimmed_beginning_is_data_loss_under_a_filter_too(fake):
    fake.fill("orders", 0, 100, first=40, tags="ab")

    with pytest.raises(DataLoss, match="offsets 10 to"):
        offsets(fake, 10, 120, tags=frozenset("a"))
    assert offsets(fake, 10, 120, tags=frozenset("a"), fail_on_data_loss=False) == list(range(40, 120, 2))


@pytest.mark.parametrize("end", [101, 140, 1000])
def test_a_queue_that_ends_too_early_is_data_loss(fake, end):
    fake.fill("orders", 0, 100)

    with pytest.raises(DataLoss, match=r"offsets 1\d\d to"):
        offsets(fake, 0, end)
    assert offsets(fake, 0, end, fail_on_data_loss=False) == list(range(100))


def test_a_hole_is_data_loss(fake):
    queue = fake.fill("orders", 0, 100)
    queue.records[50:53] = [b"", b"", b""]

    with pytest.raises(DataLoss, match="offsets 50 to 52"):
        offsets(fake, 0, 100)
    assert offsets(fake, 0, 100, fail_on_data_loss=False) == [n for n in range(100) if not 50 <= n < 53]


def test_a_hole_at_the_end_is_data_loss(fake):
    queue = fake.fill("orders", 0, 100)
    queue.records[97:] = [b"", b"", b""]

    with pytest.raises(DataLoss, match="offsets 97 to 99"):
        offsets(fake, 0, 100)


def test_a_logical_queue_that_moves_is_read_on_under_its_own_offsets(fake):
    fake.fill("orders", 0, 1)
    record = format_record(
        topic="orders", body=b"1", properties=b"", queue_id=0, flag=0, queue_offset=0, physical_offset=0, sys_flag=0,
        stored_at_ms=0, store_host=Host("127.0.0.1", 10911),
    )  # fmt: skip
    found = PullResponse(
        suggest_which_broker_id=0, next_begin_offset=10_001, min_offset=0, max_offset=10_001, offset_delta=10_000
    )
    fake.faults += [Reply(ResponseCode.NOT_LEADER_FOR_QUEUE, "moved"), Reply(header=found, body=record)]

    wanted = Range(MessageQueue("orders", "__syslo__global__", 7), 10_000, 10_001)
    options = ReadOptions(name_servers=(fake.address,), start=Earliest())
    (batch,) = RangeReader(wanted, fake.address, options, ("queueOffset", "queueId", "brokerName")).batches()
    assert batch.to_pylist() == [{"queueOffset": 10_000, "queueId": 7, "brokerName": "__syslo__global__"}]


def test_a_refusal_that_no_repetition_changes_fails_at_the_first_answer(fake):
    fake.faults.append(
        Reply(ResponseCode.SYSTEM_ERROR, "The broker does not support consumer to filter message by SQL92")
    )
    with pytest.raises(RemoteRefused, match="set enablePropertyFilter=true at the broker"):
        offsets(fake, 0, 3)
