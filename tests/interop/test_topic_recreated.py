"""A stream of Spark's tells a topic that was recreated from its older one, at our broker and at Java's."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from interop.conftest import JavaCluster
from interop.peers import JavaClients, wait_until_dispatched
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark.options import parse_read_options
from orbitmq.spark.reading import metadata_client
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.reading.readers import StreamReader
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema
from orbitmq.testing import BlockingCluster

ALL = ReadAllAvailable()


def clusters(java_cluster: JavaCluster, ours: BlockingCluster) -> dict[str, tuple[str, str]]:
    """Return the NameServers and the name of each cluster."""
    return {
        "java": (java_cluster.name_server.address, java_cluster.broker.cluster),
        "ours": (ours.name_servers, "DefaultCluster"),
    }


@pytest.mark.parametrize("peer", ["java", "ours"])
def test_a_topic_that_was_recreated_with_as_many_messages_is_another(
    java_cluster: JavaCluster, ours: BlockingCluster, java: JavaClients, name: str, peer: str
) -> None:
    servers, cluster = clusters(java_cluster, ours)[peer]
    topic = f"{name}-{peer}"

    def make_and_fill() -> None:
        java.mqadmin("updateTopic", "-n", servers, "-c", cluster, "-t", topic, "-r", "1", "-w", "1")
        with Producer("makers", servers, send_timeout_ms=30_000) as producer:
            for number in range(5):
                producer.send(Message(topic, b"%d" % number))
        wait_until_dispatched(java_cluster.broker.address)

    def stream(**options: str) -> StreamReader:
        given = {"nameServer": servers, "topic": topic, "startingOffsets": "earliest", "offsetPollMs": "0"} | options
        return StreamReader(spark_schema(COLUMN_NAMES), parse_read_options(given, streaming=True))

    make_and_fill()
    first = stream()
    read = first.latestOffset(first.initialOffset(), ALL)
    assert first.latestOffset(read, ALL) is read
    first.stop()
    java.mqadmin("deleteTopic", "-n", servers, "-c", cluster, "-t", topic)
    make_and_fill()
    again = stream()
    with pytest.raises(DataLoss, match="recreated"):
        again.latestOffset(read, ALL)
    again.stop()
    again = stream(failOnDataLoss="false")
    (partition,) = again.partitions(read, again.latestOffset(read, ALL))
    assert (partition.wanted.begin, partition.wanted.end) == (0, 5)
    again.stop()


@pytest.mark.parametrize("peer", ["java", "ours"])
def test_a_broker_tells_where_all_queues_of_a_topic_end_as_it_tells_of_each(
    java_cluster: JavaCluster,
    ours: BlockingCluster,
    java: JavaClients,
    name: str,
    peer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers, cluster = clusters(java_cluster, ours)[peer]
    topic = f"{name}-{peer}"
    java.mqadmin("updateTopic", "-n", servers, "-c", cluster, "-t", topic, "-r", "8", "-w", "8")
    with Producer("makers", servers, send_timeout_ms=30_000) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%d" % number))
    wait_until_dispatched(java_cluster.broker.address)
    with MetadataClient([servers], timeout_ms=10_000) as client:
        queues = client.queues([topic])
        told = client.latest(queues)
        monkeypatch.setattr(metadata_client, "MANY_QUEUES", 100)
        assert client.latest(queues) == told
    assert (len(told), sum(told.values())) == (8, 20)
