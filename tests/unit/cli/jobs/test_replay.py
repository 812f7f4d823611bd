"""Orders of the jobs between topics and files: `orbitmq job replay` and `archive`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs.archive import ArchivePlan
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.replay import ReplayPlan


def test_options_become_a_plan_of_a_replay(orbitmq, asked, tmp_path, rocketmq_session):
    words = ("--from-topic", "old", "--rate", 7, "--rows-per-checkpoint", 9, "--master", "local[1]", "-o", "json")
    assert orbitmq("job", "replay", tmp_path, "new", tmp_path / "a" / ".." / "b", *words).code == 0

    (cluster, plan, _), (name, master, output, _) = asked
    assert cluster == Cluster(rocketmq_session.name_servers)
    assert plan == ReplayPlan(tmp_path, "new", "old", tmp_path / "b", 7, 9)
    assert plan.subject == {"job": "replay", "source": str(tmp_path), "topic": "new", "from": "old"}
    assert (name, master, output) == ("replay", "local[1]", Format.JSON)


def test_all_that_the_files_have_is_replayed_unless_told_otherwise(orbitmq, asked, tmp_path):
    assert orbitmq("job", "replay", tmp_path, "new", tmp_path / "b").code == 0
    assert asked[0][1] == ReplayPlan(tmp_path, "new", None, tmp_path / "b", 1_000, 10_000)


def test_a_range_of_times_belongs_to_what_a_directory_is_for(orbitmq, asked, tmp_path):
    times = ("--from", "2026-11-21T12:00", "--to", "1795266000000")
    assert orbitmq("job", "replay", tmp_path, "new", tmp_path / "b", *times).code == 0

    plan = asked[0][1]
    assert (plan.begin, plan.end) == (datetime(2026, 11, 21, 12, tzinfo=UTC), datetime(2026, 11, 21, 13, tzinfo=UTC))
    assert (plan.subject["begin"], plan.subject["end"]) == ("2026-11-21T12:00:00+00:00", "2026-11-21T13:00:00+00:00")


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_what_is_no_time_is_told(orbitmq, asked, tmp_path, option):
    told = orbitmq("job", "replay", tmp_path, "new", tmp_path / "b", option, "2h")
    assert told.code == 2
    assert option in told.err
    assert not asked


@pytest.mark.parametrize("words", [("--rate", 0), ("--rows-per-checkpoint", 0)])
def test_a_rate_is_at_least_one(orbitmq, asked, tmp_path, words):
    assert orbitmq("job", "replay", tmp_path, "new", tmp_path / "b", *words).code == 2
    assert not asked


def test_files_that_are_not_there_are_told_before_spark_starts(orbitmq, asked, tmp_path):
    assert orbitmq("job", "replay", tmp_path / "none", "new", tmp_path / "b").code == 2
    assert not asked


def test_options_become_a_plan_of_an_archive(orbitmq, asked, tmp_path, rocketmq_session):
    words = ("--start", "2026-11-23", "--rows-per-batch", 7, "--no-merge", "--master", "local[1]", "-o", "json")
    assert orbitmq("job", "archive", "t", tmp_path / "a" / ".." / "b", *words).code == 0

    (cluster, plan, _), (name, master, output, _) = asked
    assert cluster == Cluster(rocketmq_session.name_servers)
    assert plan == ArchivePlan("t", tmp_path / "b", "2026-11-23", 7, merges=False)
    assert (name, master, output) == ("archive", "local[1]", Format.JSON)


def test_an_archive_begins_at_the_topics_begin_unless_told_otherwise(orbitmq, asked, tmp_path):
    assert orbitmq("job", "archive", "t", tmp_path).code == 0
    assert asked[0][1] == ArchivePlan("t", tmp_path, "earliest", 500_000, merges=True)


def test_an_archive_in_another_file_system_is_given_by_its_uri_and_is_not_merged(orbitmq, asked, tmp_path):
    assert orbitmq("job", "archive", "t", "s3a://lake/orders/").code == 0
    assert asked[0][1].directory == "s3a://lake/orders"
    assert orbitmq("job", "archive", "t", f"file://{tmp_path}/a%20b").code == 0
    assert asked[-2][1].directory == tmp_path / "a b"
    refused = orbitmq("job", "archive", "t", "s3a://lake/orders", "--merge")
    assert (refused.code, "--merge" in refused.err) == (2, True)


def test_an_archive_in_another_file_system_is_replayed_by_its_uri(orbitmq, asked, tmp_path):
    assert orbitmq("job", "replay", "hdfs:///lake/orders", "new", tmp_path / "b").code == 0
    assert asked[0][1].source == "hdfs:///lake/orders"
