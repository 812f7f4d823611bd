"""The cluster of a job, for Spark and for administrators' calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.errors import ConfigError, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import Perm, TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.cluster import Cluster


def test_spark_is_told_of_the_cluster_and_its_security_file():
    assert Cluster("n:9876").options("t") == {"nameServer": "n:9876", "topic": "t"}
    assert Cluster("n:9876", Path("/s")).options("t")["securityFile"] == "/s"


def test_a_topics_queues_are_asked_for(rocketmq_session):
    cluster = Cluster(rocketmq_session.name_servers)
    with pytest.raises(RouteNotFound):
        cluster.topic_stats("jobs-no-such-topic")

    assert not cluster.has_topic("jobs-no-such-topic")
    assert cluster.has_topic("TBW102")
    stats = cluster.topic_stats("TBW102")

    assert MessageQueue("TBW102", "broker-a", 0) in stats
    assert all(queue.max_offset == 0 for queue in stats.values())


def test_queues_that_cannot_be_read_are_left_out(rocketmq_session):
    async def make():
        async with AdminClient(rocketmq_session.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="jobs-wide", read_queue_count=1, write_queue_count=3))
            await admin.create_topic(TopicConfig(topic="jobs-closed", perm=Perm.WRITE))

    run(make())
    cluster = Cluster(rocketmq_session.name_servers)
    assert len(cluster.topic_stats("jobs-wide")) == 3
    assert [queue.queue_id for queue in cluster.readable_stats("jobs-wide")] == [0]
    assert cluster.topic_stats("jobs-closed")
    assert not cluster.readable_stats("jobs-closed")


def test_a_security_file_that_is_not_there_is_told(rocketmq_session, tmp_path):
    with pytest.raises(ConfigError):
        Cluster(rocketmq_session.name_servers, tmp_path / "none").topic_stats("TBW102")
