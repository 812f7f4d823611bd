"""Spark takes the options that users of Kafka's connector know: brokers and groups see what it reads."""

from __future__ import annotations

import json

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark.options import parse_read_options
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.testing.cluster import LocalCluster
from spark.older import since

pytestmark = pytest.mark.spark


def messages(topic: str, count: int) -> list[Message]:
    return [Message(topic, b"%d" % n, tag="abc"[n % 3], properties={"n": str(n)}) for n in range(count)]


def numbers(frame) -> list[int]:
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


@pytest.fixture
def committed(rocketmq_session, topic):
    """Return a function that says how many of the test's messages a group has consumed."""

    def count(group: str) -> int:
        options = parse_read_options({"nameServer": rocketmq_session.name_servers, "topic": topic}, streaming=False)
        with MetadataClient.of(options) as client:
            return sum(client.committed(client.queues_of(options), group).values())

    return count


@pytest.mark.interop
def test_a_streams_last_batch_is_committed_to_its_group_too(spark, topic, send, stream, read, committed, tmp_path):
    send(messages(topic, 40))
    options = {"maxOffsetsPerTrigger": "15", "commitOffsets": "true", "group": f"{topic}-group"}
    assert stream(**options) == [15, 15, 10]
    assert committed(f"{topic}-group") == 40

    send(messages(topic, 3))
    assert read(startingOffsets=f"committed:{topic}-group").count() == 3
    assert read(endingOffsets="committed", group=f"{topic}-group").count() == 40


@pytest.mark.proof
def test_the_bytes_of_a_streams_batches_are_limited(topic, send, stream):
    send([Message(topic, b"x" * 4000) for _ in range(40)])  # more would be compressed

    sizes = stream(maxBytesPerTrigger="43000", minOffsetsPerTrigger="30")
    assert sum(sizes) == 40
    assert max(sizes) <= 10


@since("4.2", "shows a source's newest offsets")
def test_a_streams_progress_has_its_lag(spark, rocketmq_session, topic, send, tmp_path):
    send(messages(topic, 40))
    options = {"nameServer": rocketmq_session.name_servers, "topic": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger="15").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    latest = [json.loads(progress["sources"][0]["latestOffset"]) for progress in query.recentProgress]
    assert [found["lagTotal"] for found in latest] == [25, 10, 0]
    assert sum(latest[0]["lag"][topic]["broker-a"].values()) == 25


def test_brokers_evaluate_sql92(spark):
    with LocalCluster.running(settings={"enable_property_filter": True}) as cluster:
        with Producer("spark-tests", cluster.name_servers) as producer:
            producer.send_all(messages("orders", 40))
        options = {"nameServer": cluster.name_servers, "topic": "orders", "expressionType": "SQL92"}
        frame = spark.read.format("rocketmq").options(**options, subscription="n >= 30 AND TAGS = 'a'").load()

        assert numbers(frame) == [30, 33, 36, 39]


def test_queues_columns_and_sizes_of_tasks_are_chosen(topic, send, read):
    send(messages(topic, 40))
    frame = read(columns="body,queueId,physicalOffset", maxRecordsPerPartition="5")
    assert frame.columns == ["body", "queueId", "physicalOffset"]
    assert frame.rdd.getNumPartitions() >= 8
    assert numbers(frame) == list(range(40))


def test_a_query_reads_the_queues_that_are_assigned_to_it(spark, rocketmq_session, topic, send):
    send(messages(topic, 40))
    options = {"nameServer": rocketmq_session.name_servers, "assign": json.dumps({topic: {"broker-a": [1, 2]}})}

    found = spark.read.format("rocketmq").options(**options).load().select("queueId").distinct().collect()
    assert sorted(row.queueId for row in found) == [1, 2]
