"""The questions of Spark's driver to the source, without Spark: where a stream begins, how far it goes, what a batch reads."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, RouteNotFound
from orbitmq.net.dispatch.handlers import Reply
from orbitmq.spark.options import parse_read_options
from orbitmq.spark.reading import offset_poller
from orbitmq.spark.reading import readers as source
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.metadata_client import QueuesNotTold
from orbitmq.spark.reading.readers import BatchReader, StreamReader, read_schema
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema
from orbitmq.spark.versions import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
)
from orbitmq.wire.headers import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfo,
    GetTopicStats,
    UpdateConsumerOffset,
)
from unit.spark.conftest import over_for
from unit.spark.fake_broker import FakeBroker
from unit.spark.fake_time import FakeTime

ALL = ReadAllAvailable()


@pytest.fixture
def stream(fake):
    """Return a function that makes stream readers; all of them are stopped at the end."""
    made: list[StreamReader] = []

    def make(**options: str | None) -> StreamReader:
        given = {"nameServer": fake.address, "topic": "orders", "offsetPollMs": "0"} | options
        given = {name: value for name, value in given.items() if value is not None}
        made.append(StreamReader(spark_schema(COLUMN_NAMES), parse_read_options(given, streaming=True)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def batch(fake, **options) -> BatchReader:
    given = {"nameServer": fake.address} | (
        {} if "topics" in options or "topicPattern" in options else {"topic": "orders"}
    )
    return BatchReader(spark_schema(["topic", "queueOffset"]), parse_read_options(given | options, streaming=False))


def rows(reader) -> list[tuple[str, int]]:
    return sorted(
        (row["topic"], row["queueOffset"])
        for partition in pickle.loads(pickle.dumps(reader.partitions()))
        for found in pickle.loads(pickle.dumps(reader)).read(partition)
        for row in found.to_pylist()
    )


def begun(stream, **options):
    """Return a stream's reader and where it begins."""
    reader = stream(**options)
    return reader, reader.initialOffset()


def taken(reader: StreamReader, start, end) -> dict[int, tuple[int, int]]:
    return {p.wanted.queue.queue_id: (p.wanted.begin, p.wanted.end) for p in reader.partitions(start, end)}


def test_the_initial_offset_is_the_same_both_times_it_is_asked_for(fake, stream):
    fake.fill("orders", 0, 5)
    reader, first = begun(stream)
    fake.fill("orders", 0, 20)

    assert reader.initialOffset() == first
    end = reader.latestOffset(first, ALL)
    assert taken(reader, first, end) == {0: (5, 25)}


def test_a_restart_before_the_first_commit_loses_nothing(fake, stream):
    fake.fill("orders", 0, 5)
    reader, start = begun(stream)
    fake.fill("orders", 0, 20)
    logged = json.loads(json.dumps(reader.latestOffset(start, ALL)))
    fake.fill("orders", 0, 30)
    again = stream()

    assert taken(again, again.initialOffset(), logged) == {0: (5, 25)}
    assert taken(again, logged, again.latestOffset(logged, ALL)) == {0: (25, 55)}


def test_a_checkpoint_of_an_older_version_goes_on(fake, stream):
    # As version 0.1.0 of the autumn of 2026 wrote them: the first batch of a query, and a later one that met a new queue.
    fake.fill("orders", 0, 40)
    fake.fill("orders", 1, 9)
    first = {"queues": {"orders": {"fake": {"0": 30}}}, "begins": {"orders": {"fake": {"0": 20}}}}
    later = {"queues": {"orders": {"fake": {"0": 35, "1": 4}}}, "begins": {"orders": {"fake": {"1": 2}}}}
    last = {"queues": {"orders": {"fake": {"0": 40, "1": 4}}}}
    reader = stream(startingOffsets="earliest")

    assert taken(reader, reader.initialOffset(), first) == {0: (20, 30)}
    assert taken(reader, first, later) == {0: (30, 35), 1: (2, 4)}
    assert taken(reader, later, last) == {0: (35, 40)}
    assert taken(reader, last, reader.latestOffset(last, ALL)) == {1: (4, 9)}


def test_an_idle_stream_asks_brokers_at_the_poll_interval_only(fake, stream, monkeypatch):
    fake.fill("orders", 0, 5)
    clock = FakeTime()
    monkeypatch.setattr(offset_poller, "time", clock)
    reader, start = begun(stream, offsetPollMs="250")
    assert reader.latestOffset(start, ALL) is start  # its first look at what the topic begins with
    clock.now += 1.0
    clock.waits.clear()
    fake.asked.clear()
    for _ in range(4):
        assert reader.latestOffset(start, ALL) is start
        clock.now += 0.01

    assert [type(asked) for asked in fake.asked] == [GetRouteInfo, *[GetMaxOffset] * 4]
    assert clock.waits == pytest.approx([0, 0.24, 0.24, 0.24])


def test_a_known_backlog_is_taken_without_asking_again(fake, stream):
    fake.fill("orders", 0, 30)
    reader, position = begun(stream, startingOffsets="earliest", offsetPollMs="600000")
    for expected in (10, 20, 30):
        position = reader.latestOffset(position, ReadMaxRows(10))
        assert position["queues"]["orders"]["fake"]["0"] == expected


def test_an_answer_is_newer_than_its_question(fake, stream):
    fake.fill("orders", 0, 5)
    reader, start = begun(stream, offsetPollMs="1")
    assert reader.latestOffset(start, ALL) is start
    fake.fill("orders", 0, 1)

    assert reader.latestOffset(start, ALL)["queues"]["orders"]["fake"]["0"] == 6


def test_the_limit_of_the_options_is_the_default_limit(fake, stream):
    fake.fill("orders", 0, 50)
    fake.fill("orders", 1, 50)
    reader, start = begun(stream, startingOffsets="earliest", maxOffsetsPerTrigger="10")

    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert stream().getDefaultReadLimit() == ALL
    assert taken(reader, start, reader.latestOffset(start, ReadMaxRows(10))) == {0: (0, 5), 1: (0, 5)}
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (0, 50), 1: (0, 50)}


def test_the_bytes_of_a_batch_are_limited(fake, stream):
    fake.fill("orders", 0, 50, size=1000)
    fake.fill("orders", 1, 50, size=1000)
    record_size = len(fake.queues["orders", 0].records[20])
    reader, start = begun(stream, startingOffsets="earliest", maxBytesPerTrigger=str(record_size * 10))
    limit = reader.getDefaultReadLimit()

    assert limit == ReadMaxBytes(record_size * 10)
    assert taken(reader, start, reader.latestOffset(start, limit)) == {0: (0, 5), 1: (0, 5)}
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (0, 50), 1: (0, 50)}


@pytest.mark.parametrize(("rows_max", "taken_rows"), [("4", 2), ("40", 5)])
def test_of_two_limits_the_smaller_one_counts(fake, stream, rows_max, taken_rows):
    for queue_id in (0, 1):
        fake.fill("orders", queue_id, 50, size=1000)
    size_max = str(len(fake.queues["orders", 0].records[20]) * 10)
    reader, start = begun(
        stream, startingOffsets="earliest", maxBytesPerTrigger=size_max, maxOffsetsPerTrigger=rows_max
    )

    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert taken(reader, start, end) == {0: (0, taken_rows), 1: (0, taken_rows)}


def test_sizes_that_cannot_be_asked_for_limit_nothing(fake, stream):
    fake.fill("orders", 0, 50)
    fake.faults += [None, None]
    reader, start = begun(stream, startingOffsets="earliest", maxBytesPerTrigger="100")

    assert taken(reader, start, reader.latestOffset(start, reader.getDefaultReadLimit())) == {0: (0, 50)}


def test_a_batch_waits_until_it_is_large_enough(fake, stream, monkeypatch):
    clock = FakeTime()
    reader = stream(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    monkeypatch.setattr(source, "time", clock)
    fake.fill("orders", 0, 3)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    assert taken(reader, start, first) == {0: (0, 3)}
    fake.fill("orders", 0, 9)
    assert reader.latestOffset(first, ALL) is first
    clock.now += 29
    assert reader.latestOffset(first, ALL) is first
    clock.now += 1
    second = reader.latestOffset(first, ALL)
    assert taken(reader, first, second) == {0: (3, 12)}
    fake.fill("orders", 0, 10)

    assert taken(reader, second, reader.latestOffset(second, ALL)) == {0: (12, 22)}


def test_available_now_does_not_wait_for_more(fake, stream):
    fake.fill("orders", 0, 3)
    reader = stream(startingOffsets="earliest", minOffsetsPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    position = reader.initialOffset()
    for end in (2, 3):
        position = reader.latestOffset(position, ReadMaxRows(2))
        assert position["queues"]["orders"]["fake"]["0"] == end


def test_available_now_ends_where_it_began_to_look(fake, stream):
    fake.fill("orders", 0, 25)
    reader = stream(startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    fake.fill("orders", 0, 100)
    position, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(position, ReadMaxRows(10))) != position:
        sizes.append(taken(reader, position, end)[0])
        position = end

    assert sizes == [(0, 10), (10, 20), (20, 25)]


def test_flink_93_a_new_queue_is_read_from_its_first_message(fake, stream, monkeypatch):
    monkeypatch.setattr(offset_poller, "ROUTE_POLL_S", 0)
    fake.fill("orders", 0, 5)
    reader, start = begun(stream)
    fake.fill("orders", 1, 7)
    end = reader.latestOffset(start, ALL)

    assert taken(reader, start, end) == {1: (0, 7)}
    assert reader.latestOffset(end, ALL) is end


@pytest.mark.parametrize("count", [8, 50, 70], ids=["fewer", "as many", "more"])
def test_a_topic_that_was_recreated_is_an_error_or_read_from_its_beginning(fake, stream, count):
    fake.fill("orders", 0, 40)
    reader, start = begun(stream, startingOffsets="earliest")
    fake.fill("orders", 0, 10)
    read = reader.latestOffset(start, ALL)
    fake.queues.clear()
    fake.fill("orders", 0, count, stored_from_ms=1_000)

    for position in (start, read):
        with pytest.raises(DataLoss, match="recreated"):
            stream().latestOffset(position, ALL)
        reader = stream(failOnDataLoss="false")
        end = reader.latestOffset(position, ALL)
        assert taken(reader, position, end) == {0: (0, count)}
        fake.fill("orders", 0, 1)
        assert taken(reader, end, stream().latestOffset(end, ALL)) == {0: (count, count + 1)}
        del fake.queues["orders", 0].records[-1], fake.queues["orders", 0].tags[-1]


def test_a_logged_batch_is_not_read_from_a_topic_that_was_recreated(fake, stream, caplog):
    fake.fill("orders", 0, 40)
    fake.fill("orders", 1, 40)
    first = stream(startingOffsets="earliest")
    start = first.initialOffset()
    logged = first.latestOffset(start, ReadMaxRows(20))  # and the query is killed before it has read it
    assert taken(stream(), start, logged) == {0: (0, 10), 1: (0, 10)}
    del fake.queues["orders", 0]
    fake.fill("orders", 0, 60, stored_from_ms=1_000)

    with pytest.raises(DataLoss, match="recreated"):
        stream().partitions(start, logged)
    again = stream(failOnDataLoss="false")
    assert taken(again, start, logged) == {1: (0, 10)}
    assert taken(again, logged, again.latestOffset(logged, ALL)) == {0: (0, 60), 1: (10, 40)}


def test_what_retention_takes_and_a_slave_keeps_is_the_same_topic(fake, stream):
    queue = fake.fill("orders", 0, 50, first=20)
    end = stream().initialOffset()
    for first in (30, 10):
        queue.first = first
        queue.records[:] = queue.records[:1] * (75 - first)
        later = stream().latestOffset(end, ALL)
        assert taken(stream(), end, later) == {0: (70, 75)}


def test_the_position_of_an_older_version_goes_on_and_knows_its_topic_from_then_on(fake, stream):
    fake.fill("orders", 0, 50)
    older = {"queues": {"orders": {"fake": {"0": 40}}}}
    end = stream().latestOffset(older, ALL)
    assert taken(stream(), older, end) == {0: (40, 50)}
    fake.queues.clear()
    fake.fill("orders", 0, 90, stored_from_ms=1_000)
    with pytest.raises(DataLoss, match="recreated"):
        stream().latestOffset(end, ALL)


def test_a_broker_that_does_not_say_what_its_queues_begin_with_is_read_all_the_same(fake, stream):
    fake.refuses.add(GetEarliestStoreTime)
    fake.fill("orders", 0, 50)
    start = stream().initialOffset()
    assert start.keys() == {"queues", "begins"}
    fake.fill("orders", 0, 5)
    assert taken(stream(), start, stream().latestOffset(start, ALL)) == {0: (50, 55)}


def end_at(fake, count: int) -> None:
    """Let the queue end there, with the messages it had."""
    queue = fake.queues["orders", 0]
    del queue.records[count:], queue.tags[count:]


def test_a_queue_that_ends_before_what_was_read_is_waited_for(fake, stream):
    fake.fill("orders", 0, 50)
    fake.fill("orders", 1, 5)
    reader, start = begun(stream)
    end_at(fake, 40)
    assert reader.latestOffset(start, ALL) is start
    fake.fill("orders", 1, 5)
    end = reader.latestOffset(start, ALL)
    assert taken(reader, start, end) == {1: (5, 10)}  # the other queue goes on
    fake.fill("orders", 0, 15)
    assert taken(reader, end, reader.latestOffset(end, ALL)) == {0: (50, 55)}


def test_a_queue_that_stays_behind_is_an_error_or_passed_over_and_never_read_again(fake, stream, caplog):
    fake.fill("orders", 0, 50)
    start = stream().initialOffset()
    end_at(fake, 40)
    reader = stream(brokerTimeoutMs="0")
    assert reader.latestOffset(start, ALL) is start
    with pytest.raises(DataLoss, match="ended before what was read already for 0 s"):
        reader.latestOffset(start, ALL)
    caplog.clear()
    reader = stream(brokerTimeoutMs="0", failOnDataLoss="false")
    for _ in range(3):
        assert reader.latestOffset(start, ALL) is start
    assert sum("passed over" in record.message for record in caplog.records) == 1
    fake.fill("orders", 0, 12)
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (50, 52)}


def test_a_run_with_a_fixed_end_waits_for_a_queue_that_is_behind(fake, stream, monkeypatch):
    fake.fill("orders", 0, 50)
    start = stream().initialOffset()
    end_at(fake, 40)
    reader = stream()
    reader.prepareForTriggerAvailableNow()
    clock = FakeTime(asleep=lambda: fake.fill("orders", 0, 7))
    monkeypatch.setattr(offset_poller, "time", clock)
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (50, 54)}
    assert len(clock.waits) == 2
    end_at(fake, 40)
    late = stream(brokerTimeoutMs="0")
    late.prepareForTriggerAvailableNow()
    monkeypatch.setattr(offset_poller, "time", FakeTime())
    with pytest.raises(DataLoss, match="ended before"):
        late.latestOffset(start, ALL)


def test_queues_that_the_topic_lost_are_an_error_while_they_hold_unread_messages(fake, stream, caplog, monkeypatch):
    for queue_id in range(4):
        fake.fill("orders", queue_id, 10)
    start = stream().initialOffset()
    for queue_id in range(4):
        fake.fill("orders", queue_id, 5)
    fake.read_queue_count = 2
    with pytest.raises(DataLoss, match=r"10 messages are left in queues .*fake/2.*fake/3"):
        stream().latestOffset(start, ALL)
    reader = stream(failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert taken(reader, start, end) == {0: (10, 15), 1: (10, 15)}
    assert sum("10 messages are left" in record.message for record in caplog.records) == 1


def test_queues_that_the_topic_lost_are_none_of_ours_when_they_are_read(fake, stream):
    for queue_id in range(4):
        fake.fill("orders", queue_id, 10)
    start = stream().initialOffset()
    fake.read_queue_count = 2
    assert stream().latestOffset(start, ALL) is start
    run = stream()
    run.prepareForTriggerAvailableNow()
    assert run.latestOffset(start, ALL) is start


@pytest.mark.parametrize("knows_removed", [True, False])
def test_a_run_with_a_fixed_end_does_not_end_without_the_messages_of_queues_that_the_topic_lost(
    fake, stream, caplog, knows_removed
):
    for queue_id in range(4):
        fake.fill("orders", queue_id, 10)
    start = stream().initialOffset()
    for queue_id in range(4):
        fake.fill("orders", queue_id, 5)
    fake.read_queue_count, fake.knows_removed = 2, knows_removed
    reader = stream(brokerTimeoutMs="0")
    reader.prepareForTriggerAvailableNow()
    told = "10 messages are left in queues" if knows_removed else r"may hold messages .*queueId\[[23]\] is illegal"
    with pytest.raises(DataLoss, match=told):
        reader.latestOffset(start, ALL)
    reader = stream(brokerTimeoutMs="0", failOnDataLoss="false")
    reader.prepareForTriggerAvailableNow()
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (10, 15), 1: (10, 15)}
    assert "going on without them" in caplog.text


@pytest.mark.parametrize("queue_count", [3, 8], ids=["asked for each", "asked for all"])
def test_a_stream_that_runs_while_its_topic_loses_queues_fails_when_they_stay_away_with_unread_messages(
    fake, stream, caplog, monkeypatch, queue_count
):
    monkeypatch.setattr(offset_poller, "ROUTE_POLL_S", 0)
    clock = FakeTime()
    monkeypatch.setattr(offset_poller, "time", clock)
    for queue_id in range(queue_count):
        fake.fill("orders", queue_id, 10)
    reader, start = begun(stream)
    fake.fill("orders", 0, 5)
    end = reader.latestOffset(start, ALL)
    assert taken(reader, start, end) == {0: (10, 15)}
    for queue_id in range(queue_count):
        fake.fill("orders", queue_id, 5)
    fake.read_queue_count = 1
    position = reader.latestOffset(end, ALL)
    assert taken(reader, end, position) == {0: (15, 20)}, "no batch is planned that no broker lets read"
    assert "does not answer" not in caplog.text
    clock.now += 61
    with pytest.raises(DataLoss, match=rf"{5 * (queue_count - 1)} messages are left in queues .*fake/1"):
        reader.latestOffset(position, ALL)


def test_a_stream_reads_on_when_the_queues_that_its_topic_lost_come_back(fake, stream, monkeypatch):
    monkeypatch.setattr(offset_poller, "ROUTE_POLL_S", 0)
    clock = FakeTime()
    monkeypatch.setattr(offset_poller, "time", clock)
    fake.fill("orders", 0, 10)
    fake.fill("orders", 1, 10)
    reader, start = begun(stream)
    assert reader.latestOffset(start, ALL) is start
    fake.fill("orders", 1, 5)
    fake.read_queue_count = 1
    assert reader.latestOffset(start, ALL) is start
    fake.read_queue_count = 2
    clock.now += 61
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {1: (10, 15)}


def test_a_query_that_starts_on_a_deleted_topic_waits_and_then_says_so(fake, stream):
    fake.fill("orders", 0, 10)
    start = stream().initialOffset()
    fake.queues.clear()
    assert stream().latestOffset(start, ALL) is start
    with pytest.raises(RouteNotFound, match="topic orders has no route"):
        stream(brokerTimeoutMs="0").latestOffset(start, ALL)


@pytest.mark.parametrize(
    ("fails", "count", "queues"), [("false", 10, 1), ("false", 10, 8), ("true", 0, 1), ("true", 0, 8)]
)
def test_a_topic_that_is_deleted_below_a_stream_ends_neither_it_nor_its_restart(
    fake, stream, caplog, fails, count, queues
):
    fake.fill("orders", 0, 5)
    for queue_id in range(queues):
        fake.fill("bills", queue_id, count)
    options = {"topic": None, "topics": "orders,bills", "failOnDataLoss": fails, "startingOffsets": "earliest"}
    reader, start = begun(stream, **options)
    position = reader.latestOffset(start, ALL)
    fake.delete("bills")
    fake.fill("orders", 0, 5)
    position = reader.latestOffset(position, ALL)
    assert position["queues"]["orders"] == {"fake": {"0": 10}}
    assert "does not have topic bills any more" in caplog.text

    fake.fill("orders", 0, 5)
    again = stream(**options, brokerTimeoutMs="0")
    assert again.latestOffset(position, ALL)["queues"]["orders"] == {"fake": {"0": 15}}
    assert "going on without them: bills" in caplog.text
    ends = stream(**options, brokerTimeoutMs="0")
    ends.prepareForTriggerAvailableNow()
    assert ends.latestOffset(position, ALL)["queues"]["orders"] == {"fake": {"0": 15}}


@pytest.mark.parametrize("taken_rows", [0, 10])
def test_a_topic_with_messages_that_is_deleted_is_data_loss(fake, stream, taken_rows):
    fake.fill("orders", 0, 5)
    fake.fill("bills", 0, 10)
    options = {"topic": None, "topics": "orders,bills", "startingOffsets": "earliest", "brokerTimeoutMs": "0"}
    reader, start = begun(stream, **options)
    position = reader.latestOffset(start, ALL) if taken_rows else start
    fake.delete("bills")
    reader.latestOffset(position, ALL)
    with pytest.raises(DataLoss, match="have ended before"):
        reader.latestOffset(position, ALL)
    with pytest.raises(DataLoss, match="no NameServer knows topics that were read before: bills"):
        stream(**options).latestOffset(position, ALL)


def test_a_task_passes_over_a_topic_that_was_deleted_meanwhile(fake, stream):
    fake.fill("orders", 0, 5)
    reader, start = begun(stream, startingOffsets="earliest", failOnDataLoss="false")
    (task,) = reader.partitions(start, reader.latestOffset(start, ALL))
    fake.delete("orders")
    assert [*reader.read(task)] == []


def test_a_batch_of_a_broker_that_left_for_good_is_an_error_or_passed_over(fake, stream):
    fake.fill("orders", 0, 50)
    start = {"queues": {"orders": {"fake": {"0": 10}, "gone": {"0": 10}}}}
    end = {"queues": {"orders": {"fake": {"0": 20}, "gone": {"0": 20}}}}
    with pytest.raises(DataLoss, match=r"no broker holds now: .*gone"):
        stream(brokerTimeoutMs="0").partitions(start, end)
    (partition,) = stream(failOnDataLoss="false", brokerTimeoutMs="0").partitions(start, end)
    assert partition.wanted.queue.broker_name == "fake"


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_of_a_broker_that_starts_again_is_waited_for(fake, stream, monkeypatch, fails):
    fake.fill("orders", 0, 5)
    first = stream(startingOffsets="earliest")
    start = first.initialOffset()
    logged = first.latestOffset(start, ALL)
    held = dict(fake.queues)
    fake.queues.clear()  # its lease is over, and the NameServer knows neither it nor its topic
    again = stream(failOnDataLoss=fails)
    monkeypatch.setattr(offset_poller, "time", FakeTime(asleep=lambda: fake.queues.update(held)))

    assert taken(again, start, logged) == {0: (0, 5)}


@pytest.mark.parametrize("brackets", [True, False], ids=["with brackets", "without brackets"])
def test_a_broker_may_have_an_address_of_ipv6(stream, brackets):
    with FakeBroker("::1") as broker:
        broker.fill("orders", 0, 5)
        if not brackets:
            broker.broker_address = broker.address.replace("[", "").replace("]", "")
        assert rows(batch(broker)) == [("orders", n) for n in range(5)]
        reader, start = begun(stream, nameServer=broker.address, startingOffsets="earliest")
        assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (0, 5)}
        reader.stop()


def test_an_unreachable_broker_keeps_its_queues_where_they_are(fake, stream, caplog):
    fake.fill("orders", 0, 5)
    reader, start = begun(stream)
    fake.fill("orders", 0, 5)
    fake.broker_address = "127.0.0.1:1"

    for _ in range(3):
        assert reader.latestOffset(start, ALL) is start
    assert sum("does not answer" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("poll_ms", ["0", *(pytest.param(ms, marks=pytest.mark.proof) for ms in ("1", "100"))])
def test_a_stream_may_be_idle_for_an_hour(fake, stream, monkeypatch, poll_ms):
    fake.fill("orders", 0, 1)
    clock = FakeTime()
    monkeypatch.setattr(offset_poller, "time", clock)
    reader, start = begun(stream, offsetPollMs=poll_ms)
    for _ in range(1200):
        assert reader.latestOffset(start, ALL) is start
        clock.now += 3


def test_an_idle_stream_of_many_queues_asks_a_broker_twice_a_second(fake, stream, monkeypatch):
    for queue_id in range(64):
        fake.fill("orders", queue_id, 1)
    clock = FakeTime()
    monkeypatch.setattr(offset_poller, "time", clock)
    reader, start = begun(stream, offsetPollMs="100")
    while clock.now < 1010:
        assert reader.latestOffset(start, ALL) is start
        clock.now += 0.01
    fake.asked.clear()
    while clock.now < 1110:
        assert reader.latestOffset(start, ALL) is start
        clock.now += 0.01
    asked = [type(one) for one in fake.asked]
    assert asked.count(GetRouteInfo) <= 100
    assert len(asked) - asked.count(GetRouteInfo) <= 200
    fake.fill("orders", 5, 1)
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {5: (1, 2)}
    fake.asked.clear()
    begin, latest = clock.now, reader.latestOffset(start, ALL)
    assert latest != start
    for _ in range(10):
        reader.latestOffset(latest, ALL)
    assert clock.now - begin < 1.2  # something came: it looks again as often as it may


def test_a_name_server_that_hangs_keeps_no_queue_waiting_and_is_told_of_once(fake, stream, caplog, monkeypatch, hung):
    monkeypatch.setattr(offset_poller, "ROUTE_POLL_S", 0)
    monkeypatch.setattr(offset_poller, "LOG_EVERY_S", 600)
    fake.fill("orders", 0, 5)
    reader, position = begun(stream, pullTimeoutMs="600000")
    reader._poller._client._name_servers.configure([hung])
    with over_for("NameServer"):
        for end in range(6, 9):
            fake.fill("orders", 0, 1)
            start, position = position, reader.latestOffset(position, ALL)
            assert taken(reader, start, position) == {0: (end - 1, end)}
    assert sum("no routes now" in record.message for record in caplog.records) == 1


def test_a_run_with_a_fixed_end_waits_for_the_word_of_every_broker(fake, stream, monkeypatch):
    fake.fill("orders", 0, 5)
    start = stream(startingOffsets="earliest").initialOffset()
    fake.busy.add(GetMaxOffset)
    reader = stream()
    monkeypatch.setattr(offset_poller, "time", FakeTime(asleep=fake.busy.clear))
    reader.prepareForTriggerAvailableNow()
    assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (0, 5)}
    fake.busy.add(GetMaxOffset)
    with pytest.raises(QueuesNotTold, match=r"fake/0.*not now"):
        stream(brokerTimeoutMs="0").prepareForTriggerAvailableNow()
    fake.refuses.add(GetMaxOffset)
    with pytest.raises(QueuesNotTold, match="not you"):  # an account that may not ask is not waited for
        stream().prepareForTriggerAvailableNow()


@pytest.mark.parametrize("queue_count", [1, 8])
def test_a_busy_broker_keeps_its_queues_waiting_and_ends_no_query(fake, stream, caplog, queue_count):
    for queue_id in range(queue_count):
        fake.fill("orders", queue_id, 5)
    reader, start = begun(stream, startingOffsets="earliest")
    fake.busy |= {GetMaxOffset, GetTopicStats}
    assert reader.latestOffset(start, ALL) is start
    assert "its queues wait" in caplog.text
    fake.busy.clear()
    assert taken(reader, start, reader.latestOffset(start, ALL)) == dict.fromkeys(range(queue_count), (0, 5))


@pytest.mark.parametrize("question", [GetRouteInfo, GetMinOffset])
def test_a_query_that_begins_waits_for_who_is_busy(fake, stream, monkeypatch, question):
    fake.fill("orders", 0, 5)
    fake.busy.add(question)
    monkeypatch.setattr(offset_poller, "time", FakeTime(asleep=fake.busy.clear))
    assert stream(startingOffsets="earliest").initialOffset()["queues"] == {"orders": {"fake": {"0": 0}}}
    fake.busy.add(question)
    assert len(rows(batch(fake))) == 5


def test_a_broker_that_was_busy_once_is_asked_for_all_its_queues_again(fake, stream):
    for queue_id in range(8):
        fake.fill("orders", queue_id, 5)
    reader, start = begun(stream)
    fake.busy.add(GetTopicStats)
    reader.latestOffset(start, ALL)
    fake.busy.clear()
    reader.latestOffset(start, ALL)
    fake.asked.clear()
    reader.latestOffset(start, ALL)
    assert [type(asked) for asked in fake.asked] == [GetTopicStats]


def test_a_name_server_that_is_away_when_a_query_begins_again_hides_no_queue_that_was_taken_away(
    fake, stream, monkeypatch
):
    for queue_id in range(3):
        fake.fill("orders", queue_id, 5)
    start = stream(startingOffsets="earliest").initialOffset()
    fake.read_queue_count = 1
    fake.busy.add(GetRouteInfo)
    reader, clock = stream(), FakeTime()
    monkeypatch.setattr(offset_poller, "time", clock)
    assert reader.latestOffset(start, ALL) is start
    fake.busy.clear()
    clock.now += 5
    with pytest.raises(DataLoss, match="10 messages are left in queues"):
        reader.latestOffset(start, ALL)


def test_a_broker_that_is_silent_when_a_query_begins_again_hides_no_topic_that_was_recreated(fake, stream):
    fake.fill("orders", 0, 40)
    start = stream().initialOffset()
    fake.queues.clear()
    fake.fill("orders", 0, 40, stored_from_ms=1_000)
    fake.busy.add(GetMaxOffset)
    reader = stream()
    assert reader.latestOffset(start, ALL) is start
    fake.busy.clear()
    with pytest.raises(DataLoss, match="recreated"):
        reader.latestOffset(start, ALL)


def test_a_topic_that_was_recreated_and_trimmed_past_its_old_beginning_is_told(fake, stream):
    fake.fill("orders", 0, 100)
    start = stream().initialOffset()
    fake.fill("orders", 0, 1)
    read = stream().latestOffset(start, ALL)
    fake.queues.clear()
    fake.fill("orders", 0, 100, first=50, stored_from_ms=now_ms() + 3_600_000)  # what lay before 50 has expired since
    with pytest.raises(DataLoss, match="recreated"):
        stream().latestOffset(read, ALL)
    reader = stream(failOnDataLoss="false")
    assert taken(reader, read, reader.latestOffset(read, ALL)) == {0: (50, 150)}


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_run_with_a_fixed_end_does_not_end_without_a_broker_that_no_route_names(fake, stream, caplog, fails):
    fake.fill("orders", 0, 5)
    start = {"queues": {"orders": {"fake": {"0": 0}, "gone": {"0": 10}}}}
    reader = stream(failOnDataLoss=fails, brokerTimeoutMs="0")
    reader.prepareForTriggerAvailableNow()
    if fails == "true":
        with pytest.raises(DataLoss, match=r"no broker holds queues now that were read before: .*gone"):
            reader.latestOffset(start, ALL)
    else:
        assert taken(reader, start, reader.latestOffset(start, ALL)) == {0: (0, 5)}
        assert "going on without them" in caplog.text


def test_a_run_with_a_fixed_end_waits_for_a_broker_that_no_route_names_yet(fake, stream, monkeypatch):
    fake.fill("orders", 0, 5)
    fake.fill("bills", 0, 7)
    start = {"queues": {"bills": {"fake": {"0": 2}}, "orders": {"fake": {"0": 0}}}}
    held = fake.queues.pop(("bills", 0))
    reader = stream(topic=None, topicPattern="bills|orders")
    reader.prepareForTriggerAvailableNow()

    def come_back() -> None:
        fake.queues["bills", 0] = held

    monkeypatch.setattr(offset_poller, "time", FakeTime(asleep=come_back))
    end = reader.latestOffset(start, ALL)
    assert end["queues"] == {"bills": {"fake": {"0": 7}}, "orders": {"fake": {"0": 5}}}


def test_a_stream_tells_of_queues_whose_broker_no_route_names(fake, stream, caplog):
    fake.fill("orders", 0, 5)
    stream().latestOffset({"queues": {"orders": {"fake": {"0": 0}, "gone": {"0": 10}}}}, ALL)
    assert "no broker holds queues that were read before, they wait" in caplog.text


def test_busy_queues_are_asked_what_they_hold_first_now_and_then(fake, stream, monkeypatch):
    for queue_id in range(8):
        fake.fill("orders", queue_id, 5)
    clock = FakeTime()
    monkeypatch.setattr(source, "time", clock)
    reader, position = begun(stream)
    position = reader.latestOffset(position, ALL)
    fake.asked.clear()
    for _ in range(20):  # a second each
        clock.now += 1
        for queue_id in range(8):
            fake.fill("orders", queue_id, 1)
        position = reader.latestOffset(position, ALL)
    asked = Counter(type(asked) for asked in fake.asked)
    assert asked[GetEarliestStoreTime] == 2 * 8
    assert asked[GetMinOffset] == 2 * 8
    assert asked[GetTopicStats] == 20


def test_the_newest_offsets_are_reported(fake, stream):
    fake.fill("orders", 0, 5)
    reader = stream()
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ALL)

    assert reader.reportLatestOffset() == {
        "queues": {"orders": {"fake": {"0": 5}}}, "lag": {"orders": {"fake": {"0": 0}}}, "lagTotal": 0,
    }  # fmt: skip


def test_the_lag_behind_the_last_batch_is_reported(fake, stream):
    fake.fill("orders", 0, 50)
    fake.fill("orders", 1, 30)
    reader = stream(startingOffsets="earliest")
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(8))

    assert reader.reportLatestOffset()["lag"] == {"orders": {"fake": {"0": 45, "1": 27}}}
    assert reader.reportLatestOffset()["lagTotal"] == 72


def test_what_batches_have_done_is_committed_to_the_group(fake, stream):
    fake.fill("orders", 0, 50)
    reader, first = begun(stream, startingOffsets="earliest", commitOffsets="true", group="billing")
    second = reader.latestOffset(first, ReadMaxRows(10))
    assert fake.committed == {}
    end = reader.latestOffset(second, ALL)
    assert fake.committed == {("billing", "orders", 0): 10}
    for _ in range(3):
        assert reader.latestOffset(end, ALL) == end

    assert fake.committed == {("billing", "orders", 0): 50}
    assert [type(asked) for asked in fake.asked].count(UpdateConsumerOffset) == 2


def test_a_commit_that_fails_fails_no_query_and_comes_again(fake, stream):
    fake.fill("orders", 0, 50)
    reader = stream(startingOffsets="earliest", commitOffsets="true", group="billing")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    fake.refuses.add(UpdateConsumerOffset)
    assert reader.latestOffset(end, ALL) == end
    fake.refuses.clear()
    reader.latestOffset(end, ALL)

    assert fake.committed == {("billing", "orders", 0): 50}


def test_a_stream_that_begins_again_commits_what_its_checkpoint_says(fake, stream):
    fake.fill("orders", 0, 50)
    end = stream(startingOffsets="earliest").latestOffset(stream(startingOffsets="earliest").initialOffset(), ALL)
    again = stream(commitOffsets="true", group="billing")
    again.latestOffset(end, ALL)

    assert fake.committed == {("billing", "orders", 0): 50}


def test_a_batch_begins_where_a_group_stands(fake):
    fake.fill("orders", 0, 10)
    fake.fill("orders", 1, 3)
    fake.committed["billing", "orders", 0] = 8

    assert [n for _, n in rows(batch(fake, startingOffsets="committed:billing"))] == [0, 1, 2, 8, 9]
    assert [n for _, n in rows(batch(fake, endingOffsets="committed:billing"))] == list(range(8))


def test_a_query_may_name_its_queues(fake):
    for queue_id in range(3):
        fake.fill("orders", queue_id, queue_id + 1)
    options = {"nameServer": fake.address, "assign": '{"orders":{"fake":[0,2]}}'}
    reader = BatchReader(spark_schema(["topic", "queueOffset"]), parse_read_options(options, streaming=False))
    assert [n for _, n in rows(reader)] == [0, 0, 1, 2]

    options["assign"] = '{"orders":{"fake":[0,7]}}'
    with pytest.raises(ConfigError, match=r"assign.*fake/7.*route: orders/fake/0, orders/fake/1, "):
        BatchReader(spark_schema(["topic"]), parse_read_options(options, streaming=False)).partitions()


def test_a_stream_of_some_queues_passes_over_the_others(fake, stream):
    for queue_id in range(3):
        fake.fill("orders", queue_id, 5)
    reader, start = begun(stream, startingOffsets="earliest", topic=None, assign='{"orders":{"fake":[1]}}')

    assert taken(reader, start, reader.latestOffset(start, ALL)) == {1: (0, 5)}
    with pytest.raises(ConfigError, match="assign"):
        stream(topic=None, assign='{"orders":{"fake":[9]}}').initialOffset()


def test_tasks_have_a_limit_of_messages(fake, stream):
    fake.fill("orders", 0, 100)
    assert len(batch(fake, maxRecordsPerPartition="30").partitions()) == 4
    assert rows(batch(fake, maxRecordsPerPartition="30")) == [("orders", n) for n in range(100)]
    reader, start = begun(stream, startingOffsets="earliest", maxRecordsPerPartition="30")
    assert len(reader.partitions(start, reader.latestOffset(start, ALL))) == 4


def test_brokers_evaluate_sql92(fake):
    fake.fill("orders", 0, 30, tags="abc")

    found = rows(batch(fake, subscription="TAGS = 'b'", expressionType="SQL92"))
    assert [n for _, n in found] == list(range(1, 30, 3))


def test_a_batch_reads_every_queue_and_an_empty_one_costs_nothing(fake):
    fake.fill("orders", 0, 5)
    fake.fill("orders", 1, 0)
    fake.fill("orders", 2, 3)

    reader = batch(fake)

    assert len(reader.partitions()) == 2
    assert rows(reader) == [("orders", n) for n in sorted([*range(5), *range(3)])]


@pytest.mark.parametrize("gives", [True, False])
def test_a_batch_reads_queues_that_the_topic_lost_while_their_broker_gives_their_messages(fake, caplog, gives):
    for queue_id in range(3):
        fake.fill("orders", queue_id, 2)
    fake.read_queue_count, fake.lists_removed = 1, True
    if not gives:
        fake.faults += [Reply(ResponseCode.SYSTEM_ERROR, "queueId is illegal")] * 2
    assert len(rows(batch(fake))) == (6 if gives else 2)
    assert ("cannot be read: orders/fake/1, orders/fake/2" in caplog.text) == (not gives)


def test_an_empty_topic_is_an_empty_frame(fake):
    fake.fill("orders", 0, 0)

    assert rows(batch(fake)) == []


def test_long_queues_are_split(fake):
    fake.fill("orders", 0, 100)

    assert len(batch(fake, minPartitions="7").partitions()) == 7
    assert rows(batch(fake, minPartitions="7")) == [("orders", n) for n in range(100)]


def test_many_short_queues_share_tasks(fake, stream):
    for queue_id in range(200):
        fake.fill("orders", queue_id, 3)

    assert len(batch(fake).partitions()) == 64
    assert rows(batch(fake)) == sorted(("orders", n) for n in [0, 1, 2] * 200)
    assert len(batch(fake, maxRecordsPerPartition="3").partitions()) == 200
    assert len(batch(fake, minPartitions="200").partitions()) == 200
    reader, start = begun(stream, startingOffsets="earliest")
    assert len(reader.partitions(start, reader.latestOffset(start, ALL))) == 64


def test_a_batch_between_two_times(fake):
    fake.fill("orders", 0, 100)

    assert rows(batch(fake, startingOffsets="20", endingTimestamp="30")) == [("orders", n) for n in range(20, 30)]


def test_a_batch_between_offsets(fake):
    fake.fill("orders", 0, 100)
    fake.fill("orders", 1, 100)
    wanted = {
        "startingOffsets": '{"orders":{"fake":{"0":90,"1":-2}}}',
        "endingOffsets": '{"orders":{"fake":{"0":-1,"1":3}}}',
    }

    assert [n for _, n in rows(batch(fake, **wanted))] == [0, 1, 2, *range(90, 100)]


@pytest.mark.parametrize(
    ("option", "value", "found"),
    [
        ("startingOffsets", '{"orders":{"fake":{"0":101}}}', []),
        ("endingOffsets", '{"orders":{"fake":{"0":101}}}', list(range(100))),
        ("startingOffsets", "committed:billing", []),
    ],
    ids=["start", "end", "group"],
)
def test_offsets_behind_the_last_message_are_an_error_or_left_out(fake, caplog, option, value, found):
    fake.fill("orders", 0, 100)
    fake.committed["billing", "orders", 0] = 101

    with pytest.raises(DataLoss, match="orders/fake/0 ends at 100"):
        batch(fake, **{option: value}).partitions()
    assert [n for _, n in rows(batch(fake, failOnDataLoss="false", **{option: value}))] == found
    assert sum("orders/fake/0 ends at 100" in record.message for record in caplog.records) == 1
    assert rows(batch(fake, **{option: value.replace("101", "100").replace("billing", "others")})) == [
        ("orders", n) for n in (range(100) if option == "endingOffsets" or "billing" in value else [])
    ]


def test_offsets_that_name_a_queue_that_is_not_there_are_an_error(fake):
    fake.fill("orders", 0, 1)

    with pytest.raises(ConfigError, match=r"startingOffsets.*orders/fake/9"):
        batch(fake, startingOffsets='{"orders":{"fake":{"0":0,"9":0}}}').partitions()


def test_an_end_before_the_beginning_reads_nothing(fake):
    fake.fill("orders", 0, 100)

    assert rows(batch(fake, startingOffsets="50", endingOffsets="40")) == []


def test_several_topics_and_patterns(fake):
    for topic in ("orders", "orders-eu", "bills"):
        fake.fill(topic, 0, 1)

    assert rows(batch(fake, topics="orders,bills")) == [("bills", 0), ("orders", 0)]
    assert rows(batch(fake, topicPattern="orders.*")) == [("orders", 0), ("orders-eu", 0)]
    assert len(rows(batch(fake, topicPattern=".*"))) == 3


def test_a_topic_that_does_not_exist_is_named(fake):
    with pytest.raises(RouteNotFound, match="topic orders has no route at 127"):
        batch(fake).partitions()


def test_a_query_may_choose_its_columns(fake):
    chosen = StructType([StructField("queueOffset", LongType()), StructField("topic", StringType())])
    reader = BatchReader(chosen, parse_read_options({"nameServer": fake.address, "topic": "orders"}, streaming=False))
    fake.fill("orders", 0, 1)

    (found,) = reader.read(reader.partitions()[0])
    assert found.to_pylist() == [{"queueOffset": 0, "topic": "orders"}]


@pytest.mark.parametrize(
    ("field", "told"),
    [(StructField("offset", LongType()), "offset"), (StructField("body", StringType()), "body binary")],
)
def test_columns_that_messages_do_not_have_are_an_error(fake, field, told):
    with pytest.raises(ConfigError, match=told):
        BatchReader(StructType([field]), parse_read_options({"nameServer": "h:1", "topic": "t"}, streaming=False))


def test_the_body_may_be_left_out():
    options = parse_read_options({"nameServer": "h:1", "topic": "t", "includeBody": "false"}, streaming=None)

    assert read_schema(options).fieldNames() == [name for name in COLUMN_NAMES if name != "body"]


def test_columns_may_be_chosen_by_an_option():
    given = {"nameServer": "h:1", "topic": "t", "columns": "keys,physicalOffset"}
    assert read_schema(parse_read_options(given, streaming=None)).fieldNames() == ["keys", "physicalOffset"]
    with pytest.raises(ConfigError, match="columns: 'offset'"):
        read_schema(parse_read_options(given | {"columns": "offset"}, streaming=None))
