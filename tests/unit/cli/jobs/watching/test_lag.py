from __future__ import annotations

import pytest

from orbitmq.cli.jobs.watching import lag as module
from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs import lag as job
from orbitmq.spark.jobs.frame.cluster import Cluster
from orbitmq.spark.jobs.lag import LagPlan


@pytest.fixture
def asked(monkeypatch):
    """Return what the job is asked for by the command."""
    found: list[tuple] = []
    monkeypatch.setattr(job, "watch_lag", lambda spark, *arguments: found.append(arguments))
    monkeypatch.setattr(
        module, "run_job", lambda name, master, output, work: found.append((name, master, output, work(None, "screen")))
    )
    return found


def test_options_become_a_plan(orbitmq, asked, tmp_path, rocketmq_session):
    words = ("--count", 7, "--every", "0.5", "--master", "local[1]", "-o", "json")
    assert orbitmq("job", "lag", "g", "t", tmp_path / "a" / ".." / "b", *words).code == 0

    (cluster, plan, _), (name, master, output, _) = asked
    assert cluster == Cluster(rocketmq_session.name_servers)
    assert plan == LagPlan("g", "t", tmp_path / "b", 7, 0.5)
    assert (name, master, output) == ("lag", "local[1]", Format.JSON)


def test_a_run_looks_for_ten_minutes_unless_told_otherwise(orbitmq, asked, tmp_path):
    assert orbitmq("job", "lag", "g", "t", tmp_path).code == 0
    assert asked[0][1] == LagPlan("g", "t", tmp_path, 60, 10.0)


@pytest.mark.parametrize("words", [("--count", 0), ("--every", 0)], ids=["never", "without a pause"])
def test_a_run_that_cannot_be_is_told_before_spark_starts(orbitmq, asked, tmp_path, words):
    assert orbitmq("job", "lag", "g", "t", tmp_path, *words).code == 2
    assert not asked
