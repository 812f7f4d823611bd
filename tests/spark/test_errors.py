"""Errors of queries as their users read them: Spark's words, then one sentence of ours, and no trace of our calls."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from orbitmq import Message
from orbitmq.admin.client import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run

pytestmark = pytest.mark.spark


def told(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """Return the error's text without the trace of the JVM, which Spark adds to some."""
    return str(error.value).split("\nJVM stacktrace")[0]


def test_a_misspelt_option_is_one_sentence(read):
    with pytest.raises(PySparkException) as error:
        read(startingOfsets="earliest")

    assert "option: 'startingofsets' is not allowed, expected startingOffsets (did you mean that?)" in told(error)
    assert "Traceback" not in told(error)


@pytest.mark.interop
def test_a_nameserver_that_is_not_there_is_one_sentence(read):
    with pytest.raises(PySparkException) as error:
        read(nameServer="127.0.0.1:1").collect()

    assert "NoNameServer: no NameServer could be asked: cannot connect to 127.0.0.1:1" in told(error)
    assert "Traceback" not in told(error)


@pytest.mark.interop
def test_so_is_what_a_task_finds(spark, rocketmq_session, topic, send):
    send([Message(topic, b"one")])
    frame = spark.createDataFrame([("no-such/topic", b"x")], "topic string, body binary")

    with pytest.raises(PySparkException) as error:
        frame.write.format("rocketmq").option("nameServer", rocketmq_session.name_servers).mode("append").save()

    assert "no-such/topic" in told(error)
    assert "sender.py" not in told(error)


@pytest.mark.proof
def test_so_is_what_ends_a_stream(stream):
    with pytest.raises(PySparkException) as error:
        stream(nameServer="127.0.0.1:1")

    assert "NoNameServer: no NameServer could be asked" in told(error)
    assert "metadata_client.py" not in told(error)


def test_traces_can_be_had(spark, read):
    spark.conf.set("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "false")
    try:
        with pytest.raises(PySparkException) as error:
            read(startingOfsets="earliest")
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled")

    assert "Traceback" in told(error)


@pytest.mark.proof
def test_a_run_does_not_end_without_the_messages_of_queues_that_the_topic_lost(
    spark, rocketmq_session, topic, send, stream
):
    def resize(count: int) -> None:
        async def ask() -> None:
            config = TopicConfig(topic=topic, read_queue_count=count, write_queue_count=count)
            async with AdminClient(rocketmq_session.name_servers) as admin:
                await admin.create_topic(config, broker="broker-a")

        run(ask())

    resize(4)
    send(Message(topic, b"first") for _ in range(40))
    stream()
    send(Message(topic, b"second") for _ in range(40))
    resize(2)
    with pytest.raises(
        PySparkException, match=r"20 messages are left in queues that their topic's route names no more"
    ):
        stream()
    resize(4)
    assert sum(stream()) == 40
