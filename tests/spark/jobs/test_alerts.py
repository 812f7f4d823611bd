"""`orbitmq job alerts` on a cluster of its own, of which a broker is killed: one alert, though the job is killed as well."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.errors import ConfigError
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.alerts import AlertPlan, Watcher, read_notices, watch
from orbitmq.spark.jobs.runtime.cluster import Cluster
from orbitmq.spark.jobs.runtime.screen import Screen
from orbitmq.testing.cluster import LocalCluster
from spark.jobs.killing import is_killed, kill_as_soon_as, start_job

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster():
    """Run a NameServer and a broker, which has the topic of notices."""
    with LocalCluster.running() as local:

        async def make():
            async with AdminClient(local.name_servers) as admin:
                await admin.create_topic(TopicConfig(topic="notices", read_queue_count=2, write_queue_count=2))

        run(make())
        yield Cluster(local.name_servers)


@contextmanager
def broker(cluster, directory):
    """Run a broker more, which may be killed."""
    words = ("broker", "-n", cluster.name_servers, "--name", "broker-b", "--host", "127.0.0.1", "--port", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq", *words, "--data-dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        yield process
    finally:
        process.kill()
        process.communicate()


def told(spark, cluster):
    return [(notice.state, notice.rule, notice.subject) for notice in read_notices(spark, cluster, "notices")]


@is_killed
def test_a_broker_that_is_killed_is_one_incident_though_the_job_is_killed_as_well(spark, cluster, tmp_path, is_killed):
    plan = AlertPlan("notices", 1, 3)
    vanished = "RocketmqNameServerBrokerCountDropped", "DefaultCluster/broker-b:0"

    def all_hold():
        verdicts = watch(spark, cluster, plan, Screen())
        assert all(verdict.holds for verdict in verdicts), verdicts

    with broker(cluster, tmp_path / "b") as second:
        all_hold()
        assert told(spark, cluster) == []
        second.kill()
        if is_killed:
            job = start_job(cluster.name_servers, "alerts", "notices", "--every", "1")
            kill_as_soon_as(job, lambda: bool(told(spark, cluster)), 0.2)
        all_hold()
        assert told(spark, cluster) == [("begun", *vanished)]
    with broker(cluster, tmp_path / "b"):
        all_hold()
    assert sorted(told(spark, cluster)) == [("begun", *vanished), ("over", *vanished)]


def test_brokers_that_take_no_notice_do_not_end_the_watch(spark, cluster, monkeypatch, capsys):
    from pyspark.errors import PySparkException

    from orbitmq.spark.jobs import alerts as module

    watcher = Watcher(spark, cluster, AlertPlan("notices", 1, 2), Screen())
    with monkeypatch.context() as patch:
        patch.setattr(module, "look_at", lambda cluster: (_ for _ in ()).throw(PySparkException("no broker\nat x")))
        watcher.look(None, 0)
    assert watcher.opened is None
    watcher.look(None, 1)
    assert watcher.opened == {}
    shown = capsys.readouterr().out
    assert "tried again: no broker" in shown
    assert "at x" not in shown
    with pytest.raises(ConfigError, match="orbitmq topic create none"):
        watch(spark, cluster, AlertPlan("none", 1, 1), Screen())
