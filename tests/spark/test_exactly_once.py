"""Exactly once into a topic, through Spark: of our brokers and of Java's, over failed tasks and killed drivers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import functions as f

from interop.peers import java_servers, wait_until_dispatched
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark.exactly_once.marker_topic import read_options
from orbitmq.spark.options import parse_write_options
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.testing import LocalCluster
from spark.kills import run_killed
from spark.older import limited_to
from unit.spark.exactly_once.topics import create, stored

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ours():
    settings = {"transaction_time_out": 4_000, "transaction_check_interval": 1_000, "transaction_check_max": 1000}
    with LocalCluster.running(settings=settings, processes=True) as cluster:
        yield cluster.name_servers


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    """Java's NameServer with a Java broker that asks about transactions after 12 s."""
    asks = {"transactionTimeOut": 12_000, "transactionCheckInterval": 3_000}
    asks |= {"transactionOpBatchInterval": 500, "transactionCheckMax": 1000}
    with java_servers(tmp_path_factory.mktemp("java"), **asks) as (address, _):
        yield address


@pytest.fixture(params=["ours", pytest.param("java", marks=pytest.mark.java)])
def name_servers(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def options(name_servers, topic):
    """The options of an exactly-once write, with its topics made."""
    create(name_servers, topic, 4)
    create(name_servers, f"{topic}-in", 4)
    create(name_servers, f"{topic}-markers", 1)
    return {
        "nameServer": name_servers,
        "topic": topic,
        "delivery": "exactly-once",
        "markerTopic": f"{topic}-markers",
        "commitTimeoutMs": "60000",
    }


def once(options) -> Counter[int]:
    """Return how often each number is in the topic, when its queues show all that was committed."""
    parsed, topic = parse_write_options(options), options["topic"]
    with MetadataClient.of(read_options(parsed, topic)) as client:
        addresses = {*client.queues([topic]).values()}
    for address in addresses:
        wait_until_dispatched(address)
    return stored(parsed)


@pytest.mark.interop
def test_a_batch_arrives_once_although_its_tasks_fail_at_first(spark, options):
    def fail_once(batches):
        """Fail a task's first attempt when all of its rows have been handed to the sink."""
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails after its rows")

    rows = spark.range(8_000).repartition(2).selectExpr("cast(id as string) as body")
    rows.mapInArrow(fail_once, "body string").write.format("rocketmq").options(**options, runId="r").mode(
        "append"
    ).save()

    assert once(options) == Counter(range(8_000))


@pytest.mark.proof
def test_rows_go_to_the_queue_that_they_name_and_have_no_time(spark, options, topic):
    source = spark.read.format("rocketmq").option("nameServer", options["nameServer"])
    with Producer("spark-tests", options["nameServer"]) as producer:
        producer.send_all(Message(f"{topic}-in", b"%d" % n) for n in range(40))
    rows = (
        source.option("topic", f"{topic}-in")
        .load()
        .withColumn("queue", f.struct("brokerName", "queueId"))
        .drop("topic")
    )
    sink = rows.write.format("rocketmq").mode("append")
    sink.options(**options, runId="r").save()

    found = [
        {bytes(row.body): row.queueId for row in source.option("topic", at).load().collect()}
        for at in (f"{topic}-in", topic)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 40
    with pytest.raises(
        Exception, match=r"delayMs: 1 is not allowed, expected none with exactly-once.*; row run-t/0/\d+"
    ):
        rows.withColumn("delayMs", f.lit(1)).write.format("rocketmq").mode("append").options(
            **options, runId="t"
        ).save()


@pytest.mark.interop
def test_a_batch_that_fails_for_good_leaves_nothing(spark, options):
    rows = spark.range(1000).repartition(2).selectExpr("if(id = 999, null, cast(id as string)) as body")
    with pytest.raises(Exception, match=r"body.*null"):
        rows.write.format("rocketmq").options(**options, runId="r").mode("append").save()

    assert not once(options)


@pytest.mark.interop
def test_a_stream_arrives_once(spark, options, topic, tmp_path):
    with Producer("spark-tests", options["nameServer"]) as producer:
        producer.send_all(Message(f"{topic}-in", b"%d" % n) for n in range(400))
    source = {"nameServer": options["nameServer"], "topic": f"{topic}-in", "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**source, **limited_to(150)).load().select("body")
    writer = frame.writeStream.format("rocketmq").options(**options).option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert once(options) == Counter(range(400))


@pytest.mark.proof
def test_a_stream_that_is_killed_at_any_moment_arrives_once(options, topic, tmp_path):
    with Producer("spark-tests", options["nameServer"]) as producer:
        producer.send_all(Message(f"{topic}-in", b"%d" % n) for n in range(8_000))
    arguments = [
        options["nameServer"],
        f"{topic}-in",
        topic,
        options["markerTopic"],
        str(tmp_path / "checkpoint"),
        "1000",
    ]
    kills = run_killed(Path(__file__).with_name("exactly_once_job.py"), arguments, kills=3, random=Random(7))

    assert kills > 0
    assert once(options) == Counter(range(8_000))
