"""`orbitmq job archive` on real flights: killed again and again, the archive has every message once."""

from __future__ import annotations

import subprocess

import orjson
import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs.archive import ArchivePlan, archive
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.screen import Screen
from spark.jobs.killing import is_killed, kill_when, start_job
from spark.jobs.publishing import publish_flights

pytestmark = pytest.mark.spark

FLIGHTS, AT_KILLS = 8_000, 6_000
ROWS_PER_BATCH = 1_000


@pytest.fixture
def plan(topic, tmp_path):
    return ArchivePlan(topic, tmp_path / "archive", "earliest", ROWS_PER_BATCH, True)


def start(name_servers: str, plan: ArchivePlan, *options: str) -> subprocess.Popen[str]:
    words = (plan.topic, plan.directory, "--rows-per-batch", plan.rows_per_batch, *options)
    return start_job(name_servers, "archive", *words)


@is_killed
def test_every_flight_is_archived_once_though_the_job_is_killed(spark, rocketmq_session, topic, plan, is_killed):
    name_servers = rocketmq_session.name_servers
    assert publish_flights(name_servers, topic, 0, AT_KILLS) == AT_KILLS
    # While a micro-batch is written, when one was written, while it is noted as done, and while files are merged.
    for pattern, count in (
        (".spark-staging-*/**/*.parquet", 1),
        ("date=*/batch=b00000001", 1),
        ("_checkpoint/commits/3", 1),
        ("_merging/**/*.parquet", 1),
    )[: 4 * is_killed]:
        kill_when(start(name_servers, plan), plan.directory, pattern, count)
    publish_flights(name_servers, topic, AT_KILLS, FLIGHTS)

    verdicts = archive(spark, Cluster(name_servers), plan, Screen())

    assert f"rows = different messages: {FLIGHTS:,} = {FLIGHTS:,}" in [verdict.claim for verdict in verdicts]
    assert [verdict.holds for verdict in verdicts] == [True] * 3, verdicts
    rows = spark.read.parquet(str(plan.directory))
    flights = rows.selectExpr("from_json(cast(body as string), 'carrier string, dep_time int') as flight", "tags")
    assert flights.where("flight.carrier = tags").count() == FLIGHTS
    assert len(list(plan.directory.glob("date=*/batch=*/*.parquet"))) == len(list(plan.directory.glob("date=*")))
    assert not list(plan.directory.glob("_merging*")) + list(plan.directory.glob(".spark-staging-*"))


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_second_run_adds_what_came_since_and_a_run_of_another_topic_is_refused(spark, rocketmq_session, topic, plan):
    name_servers = rocketmq_session.name_servers
    publish_flights(name_servers, topic, 0, 100)
    assert all(verdict.holds for verdict in archive(spark, Cluster(name_servers), plan, Screen()))
    publish_flights(name_servers, topic, 100, 150)

    job = start(name_servers, plan, "-o", "json")
    told = job.communicate()[0]

    assert job.returncode == 0, told
    assert "100 messages are there already" in told
    assert "all 3 checks hold" in told
    (shown,) = (orjson.loads(line) for line in told.splitlines() if line.startswith("{"))
    assert {"holds": True, "claim": "rows = different messages: 150 = 150"} in shown["checks"]
    with pytest.raises(ConfigError, match="which is for"):
        archive(spark, Cluster(name_servers), plan._replace(topic=f"{topic}-2"), Screen())
