"""Streams on Spark 4.0 and 4.1, which ask where a micro-batch ends without a word of where it begins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.options import parse_read_options
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.older_streams import OlderStreamReader
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema


@pytest.fixture
def stream(fake):
    """Return a function that makes stream readers, as a query that begins, or begins again, does."""
    made: list[OlderStreamReader] = []

    def make(**options: str) -> OlderStreamReader:
        given = {
            "nameServer": fake.address,
            "topic": "orders",
            "offsetPollMs": "0",
            "startingOffsets": "earliest",
        } | options
        made.append(OlderStreamReader(spark_schema(COLUMN_NAMES), parse_read_options(given, streaming=True)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def logged(document: dict[str, Any]) -> dict[str, Any]:
    """Return a position as Spark hands it back: it went through the checkpoint."""
    return json.loads(json.dumps(document))


def taken(reader: OlderStreamReader, start, end) -> dict[int, tuple[int, int]]:
    parts = reader.partitions(logged(start), logged(end))
    return {part.wanted.queue.queue_id: (part.wanted.begin, part.wanted.end) for part in parts}


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_refused_since_a_run_that_is_to_end_would_end_early(stream, option):
    with pytest.raises(ConfigError, match=f"{option}: 10 is not allowed, expected Spark 4.2 or newer"):
        stream(**{option: "10"})


def test_a_new_query_reads_on_and_stays_where_it_is_while_there_is_nothing(fake, stream):
    reader = stream()
    fake.fill("orders", 0, 10)
    start = reader.initialOffset()
    ranges = []
    for _ in range(3):
        end = reader.latestOffset()
        ranges.append(taken(reader, start, end)[0])
        start = end
        fake.fill("orders", 0, 5)
    end = reader.latestOffset()
    assert ranges == [(0, 10), (10, 15), (15, 20)]
    assert json.dumps(reader.latestOffset()) == json.dumps(end), "Spark compares the text"


def test_a_query_that_begins_again_reads_what_is_there_and_goes_on(fake, stream):
    fake.fill("orders", 0, 5)
    first = stream()
    start = first.initialOffset()
    end = first.latestOffset()
    assert taken(first, start, end) == {0: (0, 5)}
    fake.fill("orders", 0, 20)

    again = stream()
    later = again.latestOffset()
    assert taken(again, end, later) == {0: (5, 25)}
    fake.fill("orders", 0, 20)
    assert taken(again, later, again.latestOffset()) == {0: (25, 45)}


def test_a_query_whose_last_batch_is_planned_again_empty_reads_everything_behind_it(fake, stream):
    fake.fill("orders", 0, 5)
    first = stream()
    start = first.initialOffset()
    end = first.latestOffset()
    taken(first, start, end)
    fake.fill("orders", 0, 20)
    again = stream()
    assert taken(again, end, end) == {}  # as Spark does when a run with Trigger.AvailableNow begins again
    assert taken(again, end, again.latestOffset()) == {0: (5, 25)}


def test_a_batch_that_was_planned_is_planned_again_as_it_was(fake, stream):
    fake.fill("orders", 0, 5)
    first = stream()
    start, end = first.initialOffset(), first.latestOffset()
    fake.fill("orders", 0, 20)
    again = stream()
    assert taken(again, start, end) == {0: (0, 5)}
    assert taken(again, end, again.latestOffset()) == {0: (5, 25)}


def test_a_run_that_asks_for_the_end_first_reads_everything_once(fake, stream):
    fake.fill("orders", 0, 5)
    reader = stream()
    end = reader.latestOffset()  # Trigger.AvailableNow, before it knows whether the query is new
    fake.fill("orders", 0, 3)
    start = reader.initialOffset()
    assert taken(reader, start, end) == {0: (0, 5)}
    again = stream()
    later = again.latestOffset()
    assert taken(again, end, later) == {0: (5, 8)}


def test_a_new_queue_is_read_from_its_first_message(fake, stream):
    fake.fill("orders", 0, 5)
    reader = stream()
    end = reader.initialOffset()
    fake.fill("orders", 1, 7, first=2)
    again = stream()
    later = again.latestOffset()
    assert taken(again, end, later) == {0: (0, 5), 1: (2, 9)}
    assert taken(stream(), end, later) == {0: (0, 5), 1: (2, 9)}


@pytest.mark.parametrize("count", [3, 40])
def test_a_topic_that_was_recreated_is_told_or_read_from_its_beginning(fake, stream, count):
    fake.fill("orders", 0, 20)
    first = stream()
    start, end = first.initialOffset(), first.latestOffset()
    taken(first, start, end)
    fake.queues.clear()
    fake.fill("orders", 0, count, stored_from_ms=1_000)
    reader = stream()
    with pytest.raises(DataLoss, match="recreated"):
        taken(reader, end, reader.latestOffset())
    reader = stream(failOnDataLoss="false")
    assert taken(reader, end, reader.latestOffset()) == {0: (0, count)}


def test_a_queue_that_ends_before_what_was_read_never_moves_back(fake, stream):
    queue = fake.fill("orders", 0, 20)
    first = stream()
    start, end = first.initialOffset(), first.latestOffset()
    taken(first, start, end)
    del queue.records[15:], queue.tags[15:]
    reader = stream()
    assert taken(reader, end, reader.latestOffset()) == {}
    fake.fill("orders", 0, 8)
    assert taken(reader, end, reader.latestOffset()) == {0: (20, 23)}


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_broker_that_no_route_names_is_told_and_its_queues_stay_where_they_are(fake, stream, caplog, fails):
    fake.fill("orders", 0, 5)
    start = {"queues": {"orders": {"fake": {"0": 0}, "gone": {"0": 10}}}}
    reader = stream(failOnDataLoss=fails, brokerTimeoutMs="0")
    end = reader.latestOffset()
    if fails == "true":
        with pytest.raises(DataLoss, match=r"no broker holds queues now that were read before: .*gone"):
            taken(reader, start, end)
        return
    assert taken(reader, start, end) == {0: (0, 5)}
    assert reader.latestOffset()["queues"] == {"orders": {"fake": {"0": 5}, "gone": {"0": 10}}}


def test_a_broker_that_no_route_names_is_told_when_the_last_batch_is_planned_again(fake, stream):
    fake.fill("orders", 0, 5)
    reached = {"queues": {"orders": {"fake": {"0": 5}, "gone": {"0": 10}}}}
    with pytest.raises(DataLoss, match=r"no broker holds queues now that were read before: .*gone"):
        taken(stream(brokerTimeoutMs="0"), reached, reached)
    fake.fill("orders", 0, 5)
    reader = stream(brokerTimeoutMs="0", failOnDataLoss="false")
    assert taken(reader, reached, reached) == {}
    assert taken(reader, reached, reader.latestOffset()) == {0: (5, 10)}


def test_queues_that_the_topic_lost_are_an_error_while_they_hold_unread_messages(fake, stream):
    for queue_id in range(3):
        fake.fill("orders", queue_id, 10)
    start = stream().initialOffset()
    fake.read_queue_count = 2
    reader = stream()
    with pytest.raises(DataLoss, match="10 messages are left in queues"):
        taken(reader, start, reader.latestOffset())


def test_queues_that_the_topic_lost_are_an_error_while_their_broker_does_not_say_what_they_hold(fake, stream, caplog):
    for queue_id in range(3):
        fake.fill("orders", queue_id, 10)
    start = stream().initialOffset()
    fake.read_queue_count, fake.knows_removed = 2, False
    reader = stream(brokerTimeoutMs="0")
    with pytest.raises(DataLoss, match=r"may hold messages that were not read: orders/fake/2: .*is illegal"):
        taken(reader, start, reader.latestOffset())
    reader = stream(brokerTimeoutMs="0", failOnDataLoss="false")
    assert taken(reader, start, reader.latestOffset()) == {0: (0, 10), 1: (0, 10)}
    assert "going on without them" in caplog.text
