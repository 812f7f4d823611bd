"""`orbitmq job trace`."""

from __future__ import annotations

from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.trace import TracePlan


def test_options_become_a_plan_of_traces(orbitmq, asked, tmp_path, rocketmq_session):
    words = ("--trace-topic", "t", "--since", "1970-01-01T00:01", "--start", "2026-11-23", "--rows-per-batch", 7)
    assert orbitmq("job", "trace", tmp_path / "a" / ".." / "b", *words, "-o", "json").code == 0

    (cluster, plan, _), (name, master, output, _) = asked
    assert cluster == Cluster(rocketmq_session.name_servers)
    assert plan == TracePlan("t", tmp_path / "b", "2026-11-23", 7, since_ms=60_000)
    assert (name, master, output) == ("trace", "local[*,2]", Format.JSON)


def test_all_that_was_told_counts_unless_told_otherwise(orbitmq, asked, tmp_path):
    assert orbitmq("job", "trace", tmp_path).code == 0
    assert asked[0][1] == TracePlan("RMQ_SYS_TRACE_TOPIC", tmp_path, "earliest", 500_000, 0)


def test_a_time_that_is_none_is_told_before_spark_starts(orbitmq, asked, tmp_path):
    assert orbitmq("job", "trace", tmp_path, "--since", "yesterday").code == 2
    assert not asked
