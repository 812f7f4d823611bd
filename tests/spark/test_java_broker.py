"""Spark reads from and writes to a Java broker, found through Java's NameServer."""

from __future__ import annotations

import os

import pytest

from interop.peers import JavaBroker, JavaNameServer, why_unavailable
from orbitmq import Message
from orbitmq.blocking import Producer

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def java_name_servers(tmp_path_factory):
    """Java's NameServer with a Java broker; its address."""
    reason = why_unavailable()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    name_server = JavaNameServer(tmp_path_factory.mktemp("java-nameserver"))
    name_server.start()
    broker = JavaBroker(tmp_path_factory.mktemp("java-broker"), name_server.address)
    try:
        broker.start()
        yield name_server.address
    finally:
        broker.kill()
        name_server.kill()


@pytest.fixture
def read(spark, java_name_servers, topic):
    def load(**options: str):
        return spark.read.format("rocketmq").options(nameServer=java_name_servers, topic=topic, **options).load()

    return load


def numbers(frame) -> list[int]:
    return sorted(int(bytes(row.body).rstrip(b".")) for row in frame.select("body").collect())


def test_every_message_of_a_java_broker_is_read(java_name_servers, topic, read):
    # Java gives at most 32 messages or 256 KiB per pull, or far fewer from the disk: blocks take many pulls.
    with Producer("spark-tests", java_name_servers) as producer:
        producer.send_all(Message(topic, b"%d" % n, tag="abc"[n % 3]) for n in range(5000))

    assert numbers(read()) == list(range(5000))
    assert numbers(read(minPartitions="7")) == list(range(5000))
    assert numbers(read(subscription="a || c")) == [n for n in range(5000) if n % 3 != 1]


def test_large_and_compressed_bodies_of_a_java_broker_are_read(java_name_servers, topic, read):
    with Producer("spark-tests", java_name_servers, compress_over=100_000) as producer:
        for n in range(40):
            producer.send(Message(topic, (b"%d" % n).ljust(60_000 + 60_000 * (n % 2), b".")))

    assert numbers(read()) == list(range(40))


def test_a_stream_follows_a_java_broker(spark, java_name_servers, topic, tmp_path):
    def run() -> None:
        options = {"nameServer": java_name_servers, "topic": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger="70").load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()

    with Producer("spark-tests", java_name_servers) as producer:
        for first in (0, 100):
            producer.send_all(Message(topic, b"%d" % n) for n in range(first, first + 100))
            run()

    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(200))


def test_rows_reach_a_java_broker(spark, java_name_servers, topic, read):
    rows = spark.createDataFrame([(f"{n}", "t", f"k{n}") for n in range(300)], "body string, tags string, keys string")
    rows.write.format("rocketmq").options(nameServer=java_name_servers, topic=topic).mode("append").save()

    assert numbers(read(subscription="t")) == list(range(300))
