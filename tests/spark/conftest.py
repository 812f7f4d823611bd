"""One Spark session for all tests, and a cluster that they share: each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark.versions import LIMITS_STREAMS

_topic_numbers = count()


@pytest.fixture(scope="session")
def spark():
    from orbitmq.spark.driver.session import local_session

    session = local_session("orbitmq-tests")  # local[2,2]: a task that fails is tried once more
    yield session
    session.stop()
    _end_jvm()


def _end_jvm() -> None:
    """End Spark's JVM and wait for that: left alone, it begins to end when this process has ended."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@pytest.fixture
def topic() -> str:
    return f"spark-test-{next(_topic_numbers)}"


@pytest.fixture
def send(rocketmq_session):
    """Return a function that sends messages and waits for their answers."""
    with Producer("spark-tests", rocketmq_session.name_servers) as producer:

        def send_all(messages: Iterable[Message]) -> None:
            for message in messages:
                producer.send(message)

        yield send_all


@pytest.fixture
def read(spark, rocketmq_session, topic):
    """Return a function that makes a DataFrame of the test's topic."""

    def load(**options: str):
        given = {"nameServer": rocketmq_session.name_servers, "topic": topic} | options
        return spark.read.format("rocketmq").options(**given).load()

    return load


@pytest.fixture
def stream(spark, rocketmq_session, topic, tmp_path):
    """Return a function that runs a stream of the test's topic into Parquet until it has caught up."""

    def run(**options: str) -> list[int]:
        if not LIMITS_STREAMS and any("PerTrigger" in name for name in options):
            pytest.skip("Spark limits micro-batches since version 4.2")
        given = {"nameServer": rocketmq_session.name_servers, "topic": topic, "startingOffsets": "earliest"} | options
        frame = spark.readStream.format("rocketmq").options(**given).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    return run
