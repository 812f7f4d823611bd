from __future__ import annotations

import pytest

from orbitmq.cli.jobs import archive as module
from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs import archive as job
from orbitmq.spark.jobs.archive import ArchivePlan
from orbitmq.spark.jobs.frame.cluster import Cluster


@pytest.fixture
def asked(monkeypatch):
    """Return what the job is asked for by the command."""
    found: list[tuple] = []
    monkeypatch.setattr(job, "archive", lambda spark, *arguments: found.append(arguments))
    monkeypatch.setattr(
        module, "run_job", lambda name, master, output, work: found.append((name, master, output, work(None, "screen")))
    )
    return found


def test_options_become_a_plan(orbitmq, asked, tmp_path, rocketmq_session):
    words = ("--start", "2026-11-23", "--rows-per-batch", 7, "--no-merge", "--master", "local[1]", "-o", "json")
    assert orbitmq("job", "archive", "t", tmp_path / "a" / ".." / "b", *words).code == 0

    (cluster, plan, _), (name, master, output, _) = asked
    assert cluster == Cluster(rocketmq_session.name_servers)
    assert plan == ArchivePlan("t", tmp_path / "b", "2026-11-23", 7, merges=False)
    assert (name, master, output) == ("archive", "local[1]", Format.JSON)


def test_an_archive_begins_at_the_topics_begin_unless_told_otherwise(orbitmq, asked, tmp_path):
    assert orbitmq("job", "archive", "t", tmp_path).code == 0
    assert asked[0][1] == ArchivePlan("t", tmp_path, "earliest", 500_000, merges=True)
