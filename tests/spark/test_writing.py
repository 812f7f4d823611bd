"""Spark writes to topics: every row arrives, and what arrives twice can be told."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from pyspark.sql import functions as f

from orbitmq.blocking import PullConsumer
from orbitmq.spark import register
from orbitmq.spark.versions import LIMITS_STREAMS
from spark.older import limited_to

pytestmark = pytest.mark.spark


@pytest.fixture
def write(rocketmq_session, topic):
    """Return a function that writes a DataFrame to the test's topic."""

    def save(frame, **options: str) -> None:
        given = {"nameServer": rocketmq_session.name_servers, "topic": topic} | options
        frame.write.format("rocketmq").options(**given).mode("append").save()

    return save


def test_rows_make_the_round_trip(spark, topic, write, read):
    rows = [(f"body {n}", f"t{n % 2}", ["a", f"k{n}"], {"n": str(n)}, n) for n in range(100)]
    write(
        spark.createDataFrame(
            rows, "body string, tags string, keys array<string>, properties map<string,string>, flag int"
        )
    )

    found = sorted(read().collect(), key=lambda row: row.flag)

    assert [bytes(row.body).decode() for row in found] == [row[0] for row in rows]
    assert [(row.tags, row.keys, row.properties["n"]) for row in found] == [
        (tag, " ".join(keys), properties["n"]) for _, tag, keys, properties, _ in rows
    ]
    assert len({row.properties["SPARK_ROW_ID"] for row in found}) == 100


def test_a_frame_that_was_read_can_be_written_as_it_is(spark, rocketmq_session, topic, write, read):
    write(spark.createDataFrame([("one", "t", "k")], "body string, tags string, keys string"))
    copy = f"{topic}-copy"
    write(read().drop("topic"), topic=copy)

    (row,) = read(topic=copy).collect()
    assert (bytes(row.body), row.tags, row.keys) == (b"one", "t", "k")


@pytest.mark.interop
def test_a_copy_keeps_the_queues_that_its_rows_name(spark, topic, write, read):
    write(spark.range(50).selectExpr("cast(id as string) as body"))
    rows = read().withColumn("queue", f.struct("brokerName", "queueId")).drop("topic")
    copy = f"{topic}-copy"
    write(rows, topic=copy)

    queues = [
        {bytes(row.body): (row.brokerName, row.queueId) for row in read(topic=at).collect()} for at in (topic, copy)
    ]
    assert queues[0] == queues[1]
    assert len(queues[0]) == 50


def test_rows_are_delivered_at_the_time_of_their_columns(spark, rocketmq_session, topic, write):
    begin = datetime.now(UTC)
    due = begin + timedelta(seconds=3)
    rows = [("at", due, None), ("after", None, 2_000), ("now", None, None)]
    write(spark.createDataFrame(rows, "body string, deliverAt timestamp, delayMs int"))

    stored: dict[bytes, float] = {}
    with PullConsumer("times", rocketmq_session.name_servers) as consumer:
        consumer.assign(consumer.queues(topic))
        while len(stored) < 3:
            stored |= {message.body: message.stored_at_ms / 1000 for message in consumer.poll(20_000)}
    step_s = 1  # brokers' timers
    assert stored[b"now"] < stored[b"after"]
    assert stored[b"at"] >= due.timestamp() - step_s
    assert stored[b"after"] >= begin.timestamp() + 2 - step_s


def test_a_row_for_a_queue_that_is_not_there_fails_the_job(spark, write):
    rows = spark.createDataFrame([("x", ("nowhere", 7))], "body string, queue struct<brokerName: string, queueId: int>")
    with pytest.raises(
        Exception, match=r"queue: 'nowhere/7' is not allowed, expected a writable queue of .*; row \w+/\d+/0"
    ):
        write(rows)


def test_rows_of_one_sharding_key_stay_in_order(spark, write, read):
    rows = [(f"{key}-{n:03}", key) for n in range(50) for key in ("a", "b", "c")]
    write(spark.createDataFrame(rows, "body string, shardingKey string").coalesce(1))

    by_key: dict[str, list[tuple[int, int, bytes]]] = {}
    for row in read().collect():
        by_key.setdefault(row.properties["__SHARDINGKEY"], []).append((row.queueId, row.queueOffset, bytes(row.body)))
    for key, found in by_key.items():
        assert len({queue_id for queue_id, _, _ in found}) == 1
        assert [body.decode() for _, _, body in sorted(found)] == [f"{key}-{n:03}" for n in range(50)]


@pytest.mark.interop
def test_a_task_that_is_run_again_repeats_rows_under_their_ids(spark, rocketmq_session, topic, write, read):
    name_servers = rocketmq_session.name_servers

    def fail_once(batches):
        from pyspark import TaskContext

        from orbitmq.errors import RouteNotFound
        from orbitmq.spark.reading.metadata_client import MetadataClient

        yield from batches
        has_arrived = TaskContext.get().attemptNumber() > 0
        while not has_arrived:  # rows of the first attempt are to be in the topic when it fails
            with MetadataClient([name_servers]) as client, suppress(RouteNotFound):
                has_arrived = any(client.latest(client.queues([topic])).values())
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails after its rows")

    # Spark hands rows on in batches of 10,000: some of them are on their way while the last one is waited for.
    rows = spark.range(40_000).coalesce(1).selectExpr("concat(id, repeat('.', 500)) as body")
    write(rows.mapInArrow(fail_once, "body string"))

    found = read().collect()
    ids = {row.properties["SPARK_ROW_ID"]: bytes(row.body).decode().rstrip(".") for row in found}
    assert set(ids.values()) == {str(n) for n in range(40_000)}, "no row is lost"
    assert len(found) > 40_000, "the first attempt had sent rows already"
    assert len(ids) == 40_000, "and repeats can be told"


def test_a_stream_writes_every_row_under_a_deterministic_id(spark, rocketmq_session, topic, write, read, tmp_path):
    write(spark.createDataFrame([(f"{n}",) for n in range(40)], "body string"))
    sink = {"nameServer": rocketmq_session.name_servers, "topic": f"{topic}-out"}
    source = {"nameServer": rocketmq_session.name_servers, "topic": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**source, **limited_to(15)).load().select("body")
    query = (
        frame.writeStream.format("rocketmq")
        .options(**sink)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    found = read(topic=f"{topic}-out").collect()
    assert sorted(int(row.body) for row in found) == list(range(40))
    assert {row.properties["SPARK_ROW_ID"].split("/")[0] for row in found} == {str(query.id)}
    assert {row.properties["SPARK_ROW_ID"].split("/")[1] for row in found} == set("012" if LIMITS_STREAMS else "0")
    assert len({row.properties["SPARK_ROW_ID"] for row in found}) == 40


@pytest.mark.parametrize(
    ("columns", "told"),
    [("body string, tag string", "tag.*tags"), ("tags string", "body"), ("body int", "body of type binary or string")],
)
def test_columns_that_make_no_message_are_named(spark, write, columns, told):
    with pytest.raises(Exception, match=told):
        write(spark.createDataFrame([], columns))


@pytest.mark.interop
def test_a_second_thread_writes_once_the_format_is_registered_in_it(spark, write, read):
    frame = spark.range(10).selectExpr("cast(id as string) as body")
    told: list[str] = []

    def work() -> None:
        try:
            write(frame)
        except Exception as error:
            told.append(str(error))
        register(spark)
        write(frame)

    thread = Thread(target=work)
    thread.start()
    thread.join()

    assert "DATA_SOURCE_NOT_FOUND" in told[0], "register() may do less"
    assert sorted(int(row.body) for row in read().collect()) == list(range(10))


def test_a_row_without_a_body_fails_the_job(spark, write):
    with pytest.raises(Exception, match=r"body.*null"):
        write(spark.createDataFrame([(None,)], "body string"))


def test_a_topic_is_not_overwritten(spark, rocketmq_session, topic):
    options = {"nameServer": rocketmq_session.name_servers, "topic": topic}

    with pytest.raises(Exception, match="append"):
        spark.createDataFrame([("x",)], "body string").write.format("rocketmq").options(**options).mode(
            "overwrite"
        ).save()


def test_a_broker_that_is_gone_fails_the_job(spark, rocketmq, topic):
    rocketmq.stop_broker()
    options = {"nameServer": rocketmq.name_servers, "topic": topic, "retries": "0", "sendTimeoutMs": "200"}

    with pytest.raises(Exception, match=topic):
        spark.createDataFrame([("x",)], "body string").write.format("rocketmq").options(**options).mode("append").save()
