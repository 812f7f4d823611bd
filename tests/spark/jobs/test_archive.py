"""`orbitmq job archive` on real flights: killed again and again, the archive has every message once."""

from __future__ import annotations

import subprocess

import orjson
import pytest

from orbitmq.errors import ConfigError, JobFailed, RouteNotFound
from orbitmq.spark.jobs.archive import ArchivePlan, archive
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.directories import HadoopDirectory, opened
from orbitmq.spark.jobs.replay import ReplayPlan, replay
from orbitmq.spark.jobs.screen import Screen
from spark.jobs.killing import is_killed, kill_when, start_job
from spark.jobs.publishing import make_topic, publish_flights

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
@pytest.mark.interop
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


@pytest.fixture
def elsewhere(spark, topic, tmp_path, monkeypatch):
    """Return the URI of a directory in a file system that is no disk to orbitmq: Hadoop's viewfs, which links to one."""
    (tmp_path / "bucket").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    link = f"fs.viewfs.mounttable.{topic}.link./lake"
    spark._jsc.hadoopConfiguration().set(link, f"file://{tmp_path}/bucket")
    return f"viewfs://{topic}/lake/orders"


@pytest.mark.proof
def test_an_archive_in_another_file_system_grows_and_is_replayed(spark, rocketmq_session, topic, tmp_path, elsewhere):
    cluster = Cluster(rocketmq_session.name_servers)
    plan = ArchivePlan(topic, elsewhere, "earliest", 100, True)
    bucket = tmp_path / "bucket" / "orders"
    for begin, end in ((0, 200), (200, 250)):
        publish_flights(cluster.name_servers, topic, begin, end)
        assert [verdict.holds for verdict in archive(spark, cluster, plan, Screen())] == [True] * 3
        # As a run leaves it that is killed while it writes, and when its micro-batch is written and not noted as done.
        (bucket / ".spark-staging-1").mkdir()
        newest = max((bucket / "_checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink()
    verdicts = archive(spark, cluster, plan, Screen())

    assert verdicts[0].claim == "rows = different messages: 250 = 250"
    assert [verdict.holds for verdict in verdicts] == [True] * 3
    assert not list(bucket.glob(".spark-staging-*"))
    assert not list(bucket.glob("date=*/batch=*-*"))
    make_topic(cluster, f"{topic}-2")
    with pytest.raises(ConfigError, match="which is for"):
        archive(spark, cluster, plan._replace(start="2026-11-23"), Screen())
    make_topic(cluster, f"{topic}-again")
    replayed = ReplayPlan(elsewhere, f"{topic}-again", None, tmp_path / "replay", 100_000, 1_000)
    assert all(verdict.holds for verdict in replay(spark, cluster, replayed, Screen()))
    assert sum(queue.max_offset for queue in cluster.topic_stats(f"{topic}-again").values()) == 250


@pytest.mark.proof
def test_a_file_system_that_cannot_be_used_is_one_sentence(spark, rocketmq_session, plan, elsewhere, tmp_path):
    def told(directory):
        with pytest.raises((ConfigError, JobFailed)) as raised:
            archive(spark, Cluster(rocketmq_session.name_servers), plan._replace(directory=directory), Screen())
        return str(raised.value)

    make_topic(Cluster(rocketmq_session.name_servers), plan.topic)
    assert "No FileSystem for scheme" in told("gopher://lake/orders")
    assert "--conf gives it packages and settings" in told("viewfs://nowhere/lake")
    assert "Expected scheme-specific part" in told("s3a:")
    assert "is not within a mount point" in told(f"{elsewhere.removesuffix('/lake/orders')}/other")
    (tmp_path / "bucket" / "orders").mkdir()
    (tmp_path / "bucket" / "orders" / "other").touch()
    assert "which holds other files" in told(elsewhere)
    (tmp_path / "bucket" / "orders" / "_job.json").write_bytes(b"{")
    assert "can be read" in told(elsewhere)
    (tmp_path / "bucket" / "orders-2").mkdir()
    (tmp_path / "bucket" / "orders-2" / "_job.json").touch()  # of a run that was killed
    with HadoopDirectory(spark, f"{elsewhere}-2").claimed({}):
        assert "another run is under way" in told(f"{elsewhere}-2")
        assert "another run is under way" in told(f"{elsewhere.removesuffix('/orders')}//a/../orders-2")
    (tmp_path / "bucket" / "orders-3").mkdir()
    (tmp_path / "bucket" / "orders-3" / "_job.json").write_bytes(b" " * 1_000_000 + b"[]")
    assert "can be read" in told(f"{elsewhere}-3")


def test_a_topic_that_is_not_there_claims_no_directory(spark, rocketmq_session, plan):
    with pytest.raises(RouteNotFound):
        archive(spark, Cluster(rocketmq_session.name_servers), plan, Screen())
    assert not plan.directory.exists()


@pytest.mark.proof
def test_a_topic_that_is_not_there_claims_no_directory_elsewhere(spark, rocketmq_session, plan, elsewhere, tmp_path):
    with pytest.raises(RouteNotFound):
        archive(spark, Cluster(rocketmq_session.name_servers), plan._replace(directory=elsewhere), Screen())
    assert list((tmp_path / "bucket").iterdir()) == []


@pytest.mark.proof
def test_an_archive_that_is_written_or_unfinished_is_not_replayed(spark, rocketmq_session, topic, tmp_path, elsewhere):
    cluster = Cluster(rocketmq_session.name_servers)
    publish_flights(cluster.name_servers, topic, 0, 50)
    on_disk = tmp_path / "archive"
    for place, disk in ((elsewhere, tmp_path / "bucket" / "orders"), (on_disk, on_disk)):
        plan = ArchivePlan(topic, place, "earliest", 100, False)
        assert all(verdict.holds for verdict in archive(spark, cluster, plan, Screen()))
        replayed = ReplayPlan(place, topic, None, tmp_path / "replay", 100_000, 1_000)
        with opened(spark, place, {"job": "archive", "topic": topic, "start": "earliest"}):
            with pytest.raises(JobFailed, match="run is under way"):
                replay(spark, cluster, replayed, Screen())
        (disk / "_checkpoint" / "commits" / "0").unlink()  # as a run leaves it that is killed in a micro-batch
        with pytest.raises(ConfigError, match="whose micro-batch 0 is unfinished"):
            replay(spark, cluster, replayed, Screen())
    assert not (tmp_path / "replay").exists()


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_second_run_adds_what_came_since_and_one_with_another_start_is_refused(spark, rocketmq_session, topic, plan):
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
    make_topic(Cluster(name_servers), f"{topic}-2")
    with pytest.raises(ConfigError, match="which is for"):
        archive(spark, Cluster(name_servers), plan._replace(start="2026-11-23"), Screen())
