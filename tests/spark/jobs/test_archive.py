"""`orbitmq job archive` on real flights: killed again and again, the archive has every message once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spark.jobs.killing import kill_when, start_job
from spark.jobs.publishing import publish_flights

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JANUARY = 27_004


def start(name_servers: str, topic: str, directory: Path, *options: str) -> subprocess.Popen[str]:
    return start_job(name_servers, "archive", topic, directory, "--rows-per-batch", "3000", *options)


def finish(job: subprocess.Popen[str]) -> str:
    told = job.communicate()[0]
    assert job.returncode == 0, told
    return told


@pytest.mark.timeout(1_200)  # it starts Spark five times, which takes a minute each where much else runs
def test_every_flight_is_archived_once_though_the_job_is_killed(spark, rocketmq_session, topic, tmp_path):
    name_servers = rocketmq_session.name_servers
    assert publish_flights(name_servers, topic, 0, 20_000) == 20_000
    archive = tmp_path / "archive"
    # While a micro-batch is written, when one was written, while it is noted as done, and while files are merged.
    for pattern, count in (
        (".spark-staging-*/**/*.parquet", 1),
        ("date=*/batch=b00000001", 1),
        ("_checkpoint/commits/3", 1),
        ("_merging/**/*.parquet", 1),
    ):
        kill_when(start(name_servers, topic, archive), archive, pattern, count)
    assert publish_flights(name_servers, topic, 20_000, None) == JANUARY - 20_000

    told = finish(start(name_servers, topic, archive))

    assert f"rows = different messages: {JANUARY:,} = {JANUARY:,}" in told
    assert "all 3 checks hold" in told
    rows = spark.read.parquet(str(archive))
    flights = rows.selectExpr("from_json(cast(body as string), 'carrier string, dep_time int') as flight", "tags")
    assert flights.where("flight.carrier = tags").count() == JANUARY
    assert len(list(archive.glob("date=*/batch=*/*.parquet"))) == len(list(archive.glob("date=*")))
    assert not list(archive.glob("_merging*")) + list(archive.glob(".spark-staging-*"))


def test_a_second_run_adds_what_came_since_and_a_run_of_another_topic_is_refused(rocketmq_session, topic, tmp_path):
    name_servers = rocketmq_session.name_servers
    publish_flights(name_servers, topic, 0, 100)
    finish(start(name_servers, topic, tmp_path / "archive"))
    publish_flights(name_servers, topic, 100, 150)

    told = finish(start(name_servers, topic, tmp_path / "archive", "-o", "json"))

    assert "100 messages are there already" in told
    assert '"claim":"rows = different messages: 150 = 150"' in told
    other = start(name_servers, f"{topic}-2", tmp_path / "archive")
    told = other.communicate()[0]
    assert other.returncode == 2
    assert "which is for" in told.splitlines()[-1]
