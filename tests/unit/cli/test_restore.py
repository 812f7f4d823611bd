"""`orbitmq restore DIR`."""

import os
import signal

import pytest

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.wire.headers import SendMessageV2


@pytest.fixture
def saved(orbitmq, topic, tmp_path):
    """A backup of a topic with three messages, which is deleted then."""
    for number in range(3):
        assert orbitmq("send", topic, f"body {number}").code == 0
    assert orbitmq("backup", tmp_path / "b", "--topic", topic).code == 0
    assert orbitmq("topic", "delete", "--yes", topic).code == 0
    return tmp_path / "b"


def messages(orbitmq, topic):
    return sum(row["messages"] for row in orbitmq("topic", "show", topic, "-o", "json").json)


def test_a_topic_comes_back_with_its_messages(orbitmq, topic, saved):
    done = orbitmq("restore", saved)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split() == [
        "BROKER",
        "TOPIC",
        "QUEUE_ID",
        "SAVED",
        "SENT",
        "SKIPPED",
        "END",
        "PROBLEM",
    ]
    assert sum(int(row[4]) for row in done.rows) == 3
    assert "1 topics, groups, users and rules made or changed" in done.err
    assert messages(orbitmq, topic) == 3


def test_a_dry_run_says_what_would_be_done_and_does_nothing(orbitmq, topic, saved):
    done = orbitmq("restore", saved, "--dry-run", "--topic", topic)  # groups of other tests have not read of it
    assert done.code == 0
    assert {(row[1], row[3]) for row in done.rows} == {("topic", "create"), ("messages", "send")}
    assert orbitmq("topic", "show", topic).code == 1


def test_a_document_tells_plan_and_result(orbitmq, topic, saved):
    document = orbitmq("restore", saved, "--topic", topic, "-o", "json").json
    assert (document["is_done"], document["problems"]) == (True, [])
    assert {row["kind"] for row in document["plan"]} == {"topic", "messages"}
    assert sum(row["sent"] for row in document["queues"]) == 3


def test_a_second_restore_is_refused_and_behind_the_messages_it_is_not(orbitmq, topic, saved):
    assert orbitmq("restore", saved).code == 0
    refused = orbitmq("restore", saved, "-o", "json")
    assert (refused.code, refused.json["is_done"]) == (1, False)
    assert "has messages already (--append" in refused.err
    assert orbitmq("restore", saved, "--append").code == 0
    assert messages(orbitmq, topic) == 6


def test_a_topic_with_other_settings_is_left_and_named(orbitmq, topic, saved):
    assert orbitmq("topic", "create", topic, "--queues", 5).code == 0
    done = orbitmq("restore", saved)
    assert done.code == 0
    assert f"the topic {topic} on broker-a is left: readQueueNums is 5, not 2" in done.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--map-broker", "broker-a"], "OLD=NEW"),
        (["--map-broker", "broker-a=none"], "a master of the cluster"),
        (["--resume"], "leave --resume out"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(orbitmq, saved, words, reason):
    done = orbitmq("restore", saved, *words)
    assert done.code == 2
    assert reason in done.err


def test_a_directory_without_manifest_is_no_backup(orbitmq, tmp_path):
    done = orbitmq("restore", tmp_path)
    assert done.code == 1
    assert "has no manifest.json" in done.err


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_restore_is_resumed_without_doubling_messages(orbitmq, topic, saved, monkeypatch):
    send = ClusterClients.request
    left = [signal.SIGINT]  # once: a second one ends the loop under those that are closing their files

    async def send_and_interrupt(self, address, header, body=b""):
        if isinstance(header, SendMessageV2) and left:
            os.kill(os.getpid(), left.pop())
        return await send(self, address, header, body)

    monkeypatch.setattr(ClusterClients, "request", send_and_interrupt)
    interrupted = orbitmq("restore", saved)
    assert interrupted.code == 130
    assert "--resume goes on there" in interrupted.err
    monkeypatch.setattr(ClusterClients, "request", send)
    refused = orbitmq("restore", saved)
    assert refused.code == 2
    assert "Go on with --resume" in refused.err
    done = orbitmq("restore", saved, "--resume")
    assert done.code == 0, done.err
    assert messages(orbitmq, topic) == 3
