"""Refusals of the job before it begins, and what it remembers of letters; tests/spark/jobs/test_dead_letters.py runs it."""

from __future__ import annotations

import pytest

from orbitmq.errors import ClientError, ConfigError, JobFailed, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs import dead_letters as module
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.dead_letters import FixPlan, fix_letters, inspect_letters
from orbitmq.wire.bodies.topics import QueueStats


@pytest.fixture
def plan(tmp_path):
    return FixPlan("billing", lambda *_: None, "a:b", "hopeless", tmp_path / "fixed", 1, 1)


def unknown(cluster, topic):
    raise RouteNotFound(topic)


def test_a_group_without_dead_letters_is_told_so(monkeypatch, plan):
    monkeypatch.setattr(Cluster, "topic_stats", unknown)
    for work in (lambda: inspect_letters(None, Cluster("n:1"), "billing", None), lambda: fix(plan)):
        with pytest.raises(RouteNotFound, match=r"billing has no dead letters: .* topic %DLQ%billing"):
            work()
    assert not plan.directory.exists()


def test_unreadable_dead_letters_are_told_with_what_to_type(monkeypatch, plan):
    monkeypatch.setattr(Cluster, "topic_stats", lambda *_: {MessageQueue("%DLQ%billing", "b", 0): QueueStats(0, 1)})
    monkeypatch.setattr(Cluster, "readable_stats", lambda *_: {})
    with pytest.raises(
        ClientError, match=r"write-only there .*orbitmq topic create '%DLQ%billing' --queues 1 --broker b"
    ):
        fix(plan)


def letter(offset, body=b"body", origin="orders"):
    properties = {"RETRY_TOPIC": origin}
    place = {"topic": "%DLQ%billing", "brokerName": "b", "queueId": 0, "queueOffset": offset}
    return {**place, "body": body, "tags": None, "keys": None, "properties": properties, "flag": 0, "decodeError": None}


def refuse(body, properties):
    raise ValueError(body.decode())


def test_what_became_of_letters_is_counted_and_not_kept_for_each_of_them(plan):
    fixer = module._LetterFixer(plan._replace(fix=refuse), frozenset(["orders"]))
    for number in range(5_000):
        fixer.message(letter(number, b"fault %d" % number))

    assert len(fixer.told) <= module.REASONS_MAX + 1
    assert sum(fixer.told.values()) == 5_000


def test_a_letter_that_is_sent_once_more_after_a_failure_is_counted_once(plan):
    fixer = module._LetterFixer(plan._replace(fix=lambda body, properties: body), frozenset(["orders"]))
    for offset in (0, 1, 2, 1, 2, 3):
        fixer.message(letter(offset))

    assert fixer.told == {"to orders": 4}


def test_only_a_letter_whose_topic_may_come_back_ends_the_job(plan):
    fixer = module._LetterFixer(plan, frozenset(["orders"]))
    assert fixer.message(letter(0, origin="a b")).topic == "hopeless"
    with pytest.raises(JobFailed, match="no NameServer knows the topic gone"):
        fixer.message(letter(1, origin="gone"))


def fix(plan):
    return fix_letters(None, Cluster("n:1"), plan, None)


def test_a_quarantine_that_does_not_exist_is_told_with_what_to_type(monkeypatch, plan):
    monkeypatch.setattr(module, "find_letters", lambda *_: {})
    monkeypatch.setattr(Cluster, "topic_stats", unknown)
    with pytest.raises(ConfigError, match="orbitmq topic create hopeless"):
        fix(plan)
    with pytest.raises(ConfigError, match="another topic"):
        fix(plan._replace(quarantine="%DLQ%billing"))
    assert not plan.directory.exists()
