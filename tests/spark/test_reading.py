"""Spark reads topics: whole, in part, again and again, and says what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orbitmq import Message

pytestmark = pytest.mark.spark


def messages(topic: str, count: int, tags: str = "ab", start: int = 0) -> list[Message]:
    return [
        Message(topic, f"body {n}".encode(), tag=tags[n % len(tags)], keys=[f"k{n}"], properties={"n": str(n)}, flag=n)
        for n in range(start, start + count)
    ]


def numbers(frame) -> list[int]:
    return sorted(int(row.properties["n"]) for row in frame.select("properties").collect())


def queue_ends(frame) -> dict[int, int]:
    return {row.queueId: row["max(queueOffset)"] + 1 for row in frame.groupBy("queueId").max("queueOffset").collect()}


def test_a_batch_has_every_message_with_all_it_carries(topic, send, read):
    before = datetime.now(UTC).replace(tzinfo=None)
    send(messages(topic, 20))

    rows = sorted(read().collect(), key=lambda row: row.flag)

    assert [bytes(row.body) for row in rows] == [f"body {n}".encode() for n in range(20)]
    third = rows[3]
    assert (third.topic, third.brokerName, third.tags, third.keys, third.reconsumeTimes) == (
        topic,
        "broker-a",
        "b",
        "k3",
        0,
    )
    assert third.properties["n"] == "3"
    assert third.properties["UNIQ_KEY"] == third.msgId
    assert all(row.bornHost.startswith("127.0.0.1:") and row.storeHost.startswith("127.0.0.1:") for row in rows)
    assert len({(row.queueId, row.queueOffset) for row in rows}) == 20
    assert all(before.replace(microsecond=0) <= row.bornTimestamp <= row.storeTimestamp for row in rows)


def test_a_compressed_body_comes_out_as_it_went_in(topic, send, read):
    send([Message(topic, b"x" * 100_000)])

    assert [bytes(row.body) for row in read().collect()] == [b"x" * 100_000]


def test_a_tag_filter_reads_only_those_tags(topic, send, read):
    send(messages(topic, 30, tags="abc"))

    assert numbers(read(subscription="a || c")) == [n for n in range(30) if n % 3 != 1]
    assert numbers(read(subscription="nothing")) == []


def test_a_range_is_given_by_offsets(topic, send, read):
    send(messages(topic, 40))
    ends = queue_ends(read())
    start = {topic: {"broker-a": {str(queue): end - 2 for queue, end in ends.items()}}}
    end = {topic: {"broker-a": {str(queue): -1 if queue else ends[queue] - 1 for queue in ends}}}

    found = read(startingOffsets=as_json(start), endingOffsets=as_json(end))

    expected = {(queue, ends[queue] - 2) for queue in ends} | {(queue, ends[queue] - 1) for queue in ends if queue}
    assert {(row.queueId, row.queueOffset) for row in found.collect()} == expected


def test_a_range_is_given_by_time(topic, send, read):
    send(messages(topic, 10))
    border = max(row.storeTimestamp for row in read().collect()).replace(tzinfo=UTC)
    border_ms = int(border.timestamp() * 1000) + 1
    send(after(border_ms, messages(topic, 10, start=10)))

    assert numbers(read(startingTimestamp=str(border_ms))) == list(range(10, 20))
    assert numbers(read(endingTimestamp=str(border_ms))) == list(range(10))


def test_a_long_queue_is_read_by_several_tasks(topic, send, read):
    send(messages(topic, 40))

    frame = read(minPartitions="10")

    assert frame.rdd.getNumPartitions() == 10
    assert numbers(frame) == list(range(40))


def test_externals_148_a_queue_without_messages_does_not_disturb(topic, send, read):
    send(messages(topic, 1))

    assert numbers(read()) == [0]


def test_an_empty_range_is_an_empty_frame(topic, send, read):
    send(messages(topic, 1))

    assert read(startingTimestamp="4000000000000").count() == 0


def test_the_body_may_stay_where_it_is(topic, send, read):
    send(messages(topic, 3))

    frame = read(includeBody="false")

    assert "body" not in frame.columns
    assert frame.count() == 3


def test_a_query_may_choose_its_columns(spark, rocketmq_session, topic, send):
    send(messages(topic, 3))
    options = {"nameServer": rocketmq_session.name_servers, "topic": topic}

    frame = spark.read.format("rocketmq").options(**options).schema("keys string, flag int").load()

    assert sorted(tuple(row) for row in frame.collect()) == [("k0", 0), ("k1", 1), ("k2", 2)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOfsets": "earliest"}, "startingOffsets \\(did you mean"),
        ({"minPartitions": "x"}, "minPartitions.*'x'.*whole number"),
        ({"startingOffsets": "latest"}, "startingOffsets"),
    ],
)
def test_a_bad_option_is_named(read, options, told):
    with pytest.raises(Exception, match=told):
        read(**options).count()


def test_a_topic_that_does_not_exist_is_named(read, topic):
    with pytest.raises(Exception, match=f"topic {topic} has no route"):
        read().count()


def test_messages_that_are_gone_are_an_error_or_left_out(topic, send, read):
    send(messages(topic, 40))
    ends = queue_ends(read())
    beyond = as_json({topic: {"broker-a": {str(queue): end + 5 for queue, end in ends.items()}}})

    with pytest.raises(Exception, match="offsets behind the last message"):
        read(endingOffsets=beyond).count()
    assert numbers(read(endingOffsets=beyond, failOnDataLoss="false")) == list(range(40))


def test_a_stream_reads_in_limited_batches_until_it_has_caught_up(spark, topic, send, stream, tmp_path):
    send(messages(topic, 40))

    assert stream(maxOffsetsPerTrigger="15") == [15, 15, 10]
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(40))


@pytest.mark.interop
def test_externals_901_a_stream_goes_on_exactly_where_it_stopped(spark, topic, send, stream, tmp_path):
    send(messages(topic, 20))
    stream()
    send(messages(topic, 20, start=20))
    stream()
    stream()

    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(40))


@pytest.mark.proof
def test_externals_94_latest_means_what_comes_after_the_start(spark, topic, send, stream, tmp_path):
    send(messages(topic, 10))
    assert sum(stream(startingOffsets="latest")) == 0
    send(messages(topic, 10, start=10))
    stream(startingOffsets="latest")

    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(10, 20))


@pytest.mark.proof
def test_a_stream_with_a_tag_filter_passes_over_the_rest(spark, topic, send, stream, tmp_path):
    send(messages(topic, 40, tags="abcd"))
    stream(subscription="c", maxOffsetsPerTrigger="10")

    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(2, 40, 4))


@pytest.mark.proof
def test_a_stream_outlives_a_broker_restart(spark, rocketmq, topic, tmp_path):
    from orbitmq.blocking import Producer

    with Producer("spark-tests", rocketmq.name_servers) as producer:
        for message in messages(topic, 10):
            producer.send(message)
        options = {"nameServer": rocketmq.name_servers, "topic": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("rocketmq").options(**options).load()
        query = frame.writeStream.format("memory").queryName("restarted").trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
            rocketmq.restart_broker()
            for message in messages(topic, 10, start=10):
                producer.send(message)
            query.processAllAvailable()
        finally:
            query.stop()

    assert numbers(spark.table("restarted")) == list(range(20))


def as_json(offsets: object) -> str:
    import json

    return json.dumps(offsets)


def after(moment_ms: int, later: list[Message]) -> list[Message]:
    """Return `later` once the clock has passed `moment_ms`."""
    from orbitmq.clock import now_ms

    while now_ms() <= moment_ms:
        pass
    return later
