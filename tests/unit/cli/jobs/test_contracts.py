from __future__ import annotations

import pytest

from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs.cluster import Cluster


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.ddl"
    path.write_text("a int")
    return path


def test_options_become_a_plan(orbitmq, asked, file, tmp_path, rocketmq_session):
    words = ("--contract", file, "--quarantine", "q", "--start", "2026-11-23", "--rows-per-batch", 7, "-o", "json")
    assert orbitmq("job", "contracts", "t", tmp_path / "x" / ".." / "b", *words).code == 0

    (cluster, plan, _), (name, master, output, settings) = asked
    assert cluster == Cluster(rocketmq_session.name_servers)
    assert plan[:2] + plan[3:] == ("t", tmp_path / "b", "q", "2026-11-23", 7)
    assert plan.contract.text == "a int"
    assert (name, master, output, settings) == ("contracts", "local[*,2]", Format.JSON, {})


def test_a_contract_that_is_not_there_is_told_before_spark_starts(orbitmq, asked, tmp_path):
    words = ("--contract", tmp_path / "none", "--quarantine", "q")
    assert orbitmq("job", "contracts", "t", tmp_path, *words).code == 2
    assert not asked
