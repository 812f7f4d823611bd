"""Spark reads a broker's log directory by itself: the same rows as from the broker, while it runs and after it has stopped."""

from __future__ import annotations

import pytest

from interop.peers import java_servers
from orbitmq import Message
from orbitmq.blocking import Producer
from waiting import wait_for

pytestmark = pytest.mark.spark


@pytest.fixture
def files(spark):
    """Return a function that makes a DataFrame of a store's log."""

    def load(store, **options: str):
        given = {"commitLogPath": str(store)} | options
        return spark.read.format("rocketmq").options(**given).load()

    return load


def messages(topic: str, count: int) -> list[Message]:
    return [
        Message(topic, b"%d" % n * (n % 50 + 1), tag="abc"[n % 3], keys=[f"k{n}"], properties={"n": str(n)}, flag=n)
        for n in range(count)
    ]


def rows(frame) -> list[tuple]:
    wanted = frame.drop("brokerName", "physicalOffset").collect()
    return sorted(tuple(sorted(value.items()) if isinstance(value, dict) else value for value in row) for row in wanted)


def test_files_have_the_rows_of_the_pull_path_live_and_stopped(spark, rocketmq, files):
    store = rocketmq.data_dir / "broker-a"
    with Producer("spark-tests", rocketmq.name_servers) as producer:
        for topic in ("orders", "bills"):
            producer.send_all(messages(topic, 200))
    options = {"nameServer": rocketmq.name_servers, "topics": "orders,bills"}
    pulled = rows(spark.read.format("rocketmq").options(**options).load())
    assert len(pulled) == 400

    wait_for(lambda: files(store, topics="orders,bills").count() >= 400, "all messages in the broker's files")
    assert rows(files(store, topics="orders,bills")) == pulled
    rocketmq.stop_broker()

    assert rows(files(store, topics="orders,bills", minPartitions="9")) == pulled
    assert files(store, topic="orders", subscription="a").count() == 67
    offsets = [row.physicalOffset for row in files(store).select("physicalOffset").collect()]
    assert len(set(offsets)) == len(offsets) >= 400


def test_a_bad_path_or_a_stream_is_an_error(spark, files, tmp_path):
    with pytest.raises(Exception, match="commitLogPath"):
        files(tmp_path).count()
    frame = spark.readStream.format("rocketmq").options(commitLogPath=str(tmp_path)).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match=r"commitLogPath.*batch query"):
        query.awaitTermination()


@pytest.mark.proof
@pytest.mark.java
def test_a_java_brokers_files_have_the_rows_of_the_pull_path(spark, files, tmp_path):
    # Segments of 1 MiB: several of them, with fillers, and one that is made ahead.
    with java_servers(tmp_path, mappedFileSizeCommitLog=1 << 20) as (address, broker):
        with Producer("spark-tests", address) as producer:
            producer.send_all(messages("orders", 8000))
        pulled = rows(spark.read.format("rocketmq").options(nameServer=address, topic="orders").load())

        assert len(pulled) == 8000
        assert rows(files(broker.store, topic="orders")) == pulled
        broker.kill()
        assert rows(files(broker.store, topic="orders", minPartitions="20")) == pulled
