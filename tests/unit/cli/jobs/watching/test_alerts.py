from __future__ import annotations

import pytest

from orbitmq.cli.jobs.watching import alerts as module
from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs import alerts as job
from orbitmq.spark.jobs.alerts import AlertPlan
from orbitmq.spark.jobs.frame.cluster import Cluster


@pytest.fixture
def asked(monkeypatch):
    """Return what the job is asked for by the command."""
    found: list[tuple] = []
    monkeypatch.setattr(job, "watch", lambda spark, *arguments: found.append(arguments))
    monkeypatch.setattr(
        module, "run_job", lambda name, master, output, work: found.append((name, master, output, work(None, "screen")))
    )
    return found


def test_options_become_a_plan(orbitmq, asked, rocketmq_session):
    assert orbitmq("job", "alerts", "t", "--every", 3, "--looks", 7, "-o", "json").code == 0
    (cluster, plan, _), (name, master, output, _) = asked
    assert (cluster, plan) == (Cluster(rocketmq_session.name_servers), AlertPlan("t", 3, 7))
    assert (name, master, output) == ("alerts", "local[*,2]", Format.JSON)


def test_it_watches_until_it_is_ended(orbitmq, asked):
    assert orbitmq("job", "alerts", "t").code == 0
    assert asked[0][1] == AlertPlan("t", 10, 0)
