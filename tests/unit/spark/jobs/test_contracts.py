"""Refusals of the job before it begins; tests/spark/jobs/test_contracts.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import ConfigError, RouteNotFound
from orbitmq.spark.jobs import contracts as module
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.contract_checks import Contract
from orbitmq.spark.jobs.contracts import ContractPlan, hold_to_contract


@pytest.fixture
def plan(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "check_contract", lambda spark, contract: None)
    contract = Contract(Path("a.ddl"), "a int", "0")
    return ContractPlan("t", tmp_path / "judged", contract, "q", "earliest", 1)


def test_good_and_bad_messages_have_directories_of_their_own(plan, tmp_path):
    assert (plan.good, plan.bad) == (tmp_path / "judged" / "good", tmp_path / "judged" / "bad")


def test_a_quarantine_that_does_not_exist_is_told_with_what_to_type(monkeypatch, plan):
    def unknown(cluster, topic):
        raise RouteNotFound(topic)

    monkeypatch.setattr(Cluster, "topic_stats", unknown)
    with pytest.raises(ConfigError, match="orbitmq topic create q"):
        hold_to_contract(None, Cluster("n:1"), plan, None)
    assert not plan.directory.exists()


def test_a_topic_is_not_its_own_quarantine(plan):
    with pytest.raises(ConfigError, match="another topic"):
        hold_to_contract(None, Cluster("n:1"), plan._replace(quarantine="t"), None)
