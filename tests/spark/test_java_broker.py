"""Spark reads from and writes to a Java broker, found through Java's NameServer."""

from __future__ import annotations

import pytest

from interop.peers import java_servers
from orbitmq import Message
from orbitmq.blocking import Producer
from spark.older import limited_to
from waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.java]


@pytest.fixture(scope="module")
def java_name_servers(tmp_path_factory):
    """Java's NameServer with a Java broker; its address."""
    with java_servers(tmp_path_factory.mktemp("java")) as (address, _):
        yield address


@pytest.fixture
def read(spark, java_name_servers, topic):
    def load(**options: str):
        return spark.read.format("rocketmq").options(nameServer=java_name_servers, topic=topic, **options).load()

    return load


def numbers(frame) -> list[int]:
    return sorted(int(bytes(row.body).rstrip(b".")) for row in frame.select("body").collect())


def wait_for_entries(read, count: int) -> None:
    """Wait for the queue entries of messages: Java's broker makes them some time after it has answered a send."""
    wait_for(lambda: read(columns="queueOffset").count() == count, f"{count} messages in the queues")


def test_every_message_of_a_java_broker_is_read(java_name_servers, topic, read):
    # Java gives at most 32 messages or 256 KiB per pull, or far fewer from the disk: blocks take many pulls.
    with Producer("spark-tests", java_name_servers) as producer:
        producer.send_all(Message(topic, b"%d" % n, tag="abc"[n % 3]) for n in range(5000))
    wait_for_entries(read, 5000)

    assert numbers(read()) == list(range(5000))
    assert numbers(read(minPartitions="7")) == list(range(5000))
    assert numbers(read(subscription="a || c")) == [n for n in range(5000) if n % 3 != 1]


def test_large_and_compressed_bodies_of_a_java_broker_are_read(java_name_servers, topic, read):
    with Producer("spark-tests", java_name_servers, compress_over=100_000) as producer:
        for n in range(40):
            producer.send(Message(topic, (b"%d" % n).ljust(60_000 + 60_000 * (n % 2), b".")))
    wait_for_entries(read, 40)

    assert numbers(read()) == list(range(40))


def test_a_stream_follows_a_java_broker(spark, java_name_servers, topic, read, tmp_path):
    def run() -> None:
        options = {"nameServer": java_name_servers, "topic": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("rocketmq").options(**options, **limited_to(70)).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()

    with Producer("spark-tests", java_name_servers) as producer:
        for first in (0, 100):
            producer.send_all(Message(topic, b"%d" % n) for n in range(first, first + 100))
            wait_for_entries(read, first + 100)
            run()

    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(200))


def test_rows_reach_a_java_broker(spark, java_name_servers, topic, read):
    columns = {
        "body": "cast(id as string)",
        "tags": "if(id % 2 = 0, 'even', null)",
        "keys": "array(concat('k', id), 'all')",
        "properties": "map('third', cast(id % 3 as string))",
        "shardingKey": "if(id % 5 = 0, null, concat('s', id % 5))",
        "flag": "int(id)",
    }
    rows = spark.range(5000).coalesce(1).selectExpr(*(f"{column} as {name}" for name, column in columns.items()))
    rows.write.format("rocketmq").options(nameServer=java_name_servers, topic=topic).mode("append").save()

    wait_for_entries(read, 5000)
    assert numbers(read(subscription="even")) == list(range(0, 5000, 2))
    found = sorted(read().collect(), key=lambda row: row.flag)
    assert [int(row.body) for row in found] == [row.flag for row in found] == list(range(5000))
    assert all(row.keys == f"k{row.flag} all" and row.properties["third"] == f"{row.flag % 3}" for row in found)
    assert {row.properties["SPARK_ROW_ID"].partition("/")[2] for row in found} == {f"0/{n}" for n in range(5000)}
    assert len({row.msgId for row in found}) == 5000
    for key in range(1, 5):
        of_key = [row for row in found if row.properties.get("__SHARDINGKEY") == f"s{key}"]
        assert len(of_key) == 1000
        assert len({row.queueId for row in of_key}) == 1
        assert [row.queueOffset for row in of_key] == sorted(row.queueOffset for row in of_key)
