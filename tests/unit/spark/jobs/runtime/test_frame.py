"""The frame of a job: its Spark session and its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.errors import ConfigError, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import Perm, TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.runtime import session as module
from orbitmq.spark.jobs.runtime.cluster import Cluster
from orbitmq.spark.jobs.runtime.session import job_session


class Spark:
    stopped = False

    def stop(self):
        self.stopped = True


def test_a_missing_package_is_told_with_what_to_type(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'orbitmq\[spark\]'"), job_session("archive", "local"):
        pass


def test_spark_is_stopped_however_the_job_ends(monkeypatch):
    spark, asked = Spark(), []
    monkeypatch.setattr(module, "local_session", lambda name, **options: asked.append((name, options)) or spark)
    session = job_session("archive", "local[3]", {"spark.jars": "a.jar"})
    assert session.__enter__() is spark
    assert not spark.stopped
    interrupt = KeyboardInterrupt()
    assert not session.__exit__(type(interrupt), interrupt, None)
    assert spark.stopped
    assert asked[0][0] == "orbitmq job archive"
    assert asked[0][1]["master"] == "local[3]"
    assert asked[0][1]["settings"]["spark.jars"] == "a.jar"
    assert asked[0][1]["settings"]["spark.sql.windowExec.buffer.in.memory.threshold"] == "64"
    assert asked[0][1]["java_options"] == "", "jobs run for long: both of Java's compilers are worth their start"


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
