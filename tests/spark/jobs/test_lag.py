"""`orbitmq job lag` on real flights: two groups, one of which has never been there; killed, and through an outage."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.errors import ConfigError, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.spark.jobs.lag import LagPlan, watch_lag
from orbitmq.spark.jobs.lag_samples import UNKNOWN, append_sample, encode_sample
from orbitmq.spark.jobs.runtime.cluster import Cluster
from orbitmq.spark.jobs.runtime.screen import Screen
from orbitmq.wire.bodies.groups import GroupConfig
from spark.jobs.killing import is_killed, kill_when, start_job
from spark.jobs.publishing import publish_flights

pytestmark = pytest.mark.spark

FLIGHTS = 400


def commit(name_servers, group, topic, queue_count):
    """Let a group commit the offset 0 in some queues of a topic."""

    async def work():
        async with AdminClient(name_servers) as admin:
            await admin.create_group(GroupConfig(group=group))
        async with PullConsumer(group, name_servers) as consumer:
            queues = sorted(await consumer.queues(topic))[:queue_count]
            consumer.assign(queues)
            for queue in queues:
                consumer.seek(queue, 0)
            await consumer.commit()

    run(work())


@is_killed
def test_what_is_unknown_stays_null_though_the_job_is_killed(
    spark, rocketmq_session, topic, tmp_path, capsys, is_killed
):
    name_servers, directory = rocketmq_session.name_servers, tmp_path / "lag"
    assert publish_flights(name_servers, topic, 0, FLIGHTS) == FLIGHTS
    group = f"{topic}-billing"
    commit(name_servers, group, topic, 3)
    plan = LagPlan(group, topic, directory, 2, 0.0)
    if is_killed:
        job = start_job(name_servers, "lag", group, topic, directory, "--every", "0.1", "--count", "100000")
        kill_when(job, directory, "lag.jsonl", 1)
    else:
        watch_lag(spark, Cluster(name_servers), plan, Screen())
    with plan.file.open("ab") as file:
        file.write(b'{"at_ms":1')  # and here power was cut
    queue = MessageQueue(topic, "broker-a", 0)
    append_outage = encode_sample(4_000_000_000_000, {queue: UNKNOWN}, "the broker does not answer")

    verdicts = watch_lag(spark, Cluster(name_servers), plan, Screen())

    assert all(verdict.holds for verdict in verdicts), verdicts
    values = spark.read.json(str(plan.file)).selectExpr("inline(queues)")
    assert values.where("committed is null").select("queue").distinct().count() == 1
    assert values.where("lag is null and committed is not null").count() == 0
    assert values.where("lag = end and committed = 0").select("queue").distinct().count() == 3
    assert values.groupBy("queue").agg({"end": "max"}).agg({"max(end)": "sum"}).collect()[0][0] == FLIGHTS
    append_sample(plan.file, append_outage)
    again = watch_lag(spark, Cluster(name_servers), plan._replace(moments=1), Screen())
    assert all(verdict.holds for verdict in again), again
    assert "?" in capsys.readouterr().out
    line = ET.fromstring((directory / "lag.svg").read_text()).find(".//*[@id='lag']")
    assert line is not None
    assert line.findall(".//{*}use") == []  # one queue has no offset: the whole is unknown at every moment

    with pytest.raises(ConfigError, match="which is for"):
        watch_lag(spark, Cluster(name_servers), plan._replace(group="other"), Screen())
    with pytest.raises(RouteNotFound):
        watch_lag(spark, Cluster(name_servers), LagPlan("g", f"{topic}-none", tmp_path / "x", 1, 0.0), Screen())
