"""`orbitmq topic …` and `orbitmq route`."""

import pytest

from orbitmq.admin import AdminClient
from orbitmq.errors import PartlyDone
from orbitmq.model.route import ClusterInfo, MessageQueue
from orbitmq.wire.bodies.topics import QueueStats


def test_a_created_topic_is_listed_routed_and_empty(orbitmq, topic, rocketmq_session):
    address = rocketmq_session.brokers["broker-a"]
    assert [topic] in orbitmq("topic", "list").rows
    assert [topic, "1", "2", "rw", "0", "-", "-"] in orbitmq("topic", "list", "-v").rows
    (row,) = (row for row in orbitmq("topic", "list", "-v", "-o", "json").json if row["topic"] == topic)
    assert (row["brokers"], row["queues"], row["permission"], row["messages"]) == (1, 2, "rw", 0)
    assert orbitmq("route", topic).rows == [["broker-a", "DefaultCluster", "2", "2", "rw", f"0={address}"]]
    status = orbitmq("topic", "show", topic)
    assert status.rows == [["broker-a", str(queue), "0", "0", "0", "-"] for queue in (0, 1)]
    assert "0 messages in 2 queues" in status.err


def test_topic_route_and_route_are_one(orbitmq, topic):
    assert orbitmq("topic", "route", topic, "-o", "json").json == orbitmq("route", topic, "-o", "json").json


def test_creating_again_changes_the_topic(orbitmq, topic):
    changed = orbitmq("topic", "create", topic, "--queues", 5, "--permission", "r", "-o", "json")
    assert [(row["broker"], row["queues"]) for row in changed.json] == [("broker-a", 5)]
    (queues,) = orbitmq("route", topic, "-o", "json").json["queues"]
    assert (queues["read_queue_count"], queues["perm"]) == (5, 4)


@pytest.mark.parametrize("command", [("create", "-q"), ("config", "set", "--read-queues")])
def test_queues_that_hold_messages_are_not_taken_from_consumers_unasked(orbitmq, topic, command):
    *words, option = command
    orbitmq("send", topic, "x", "--count", 8)
    fewer = ("topic", *words, topic, option, 1)
    refused = orbitmq(*fewer)
    assert refused.code == 2
    assert "4 messages on broker-a would be hidden" in refused.err
    assert orbitmq("topic", "config", "show", topic, "-o", "json").json[0]["read_queues"] == 2
    forced = orbitmq(*fewer, "--force")
    assert "4 messages on broker-a are in queues that no consumer reads now" in forced.err
    assert "8 messages in 2 queues" in orbitmq("topic", "show", topic).err


@pytest.mark.parametrize(("permission", "perm"), [("rw", 6), ("r", 4), ("w", 2)])
def test_permissions_are_spelt_in_letters(orbitmq, topic, permission, perm):
    orbitmq("topic", "create", topic, "--permission", permission)
    assert [row[4] for row in orbitmq("route", topic).rows] == [permission]
    assert [queue["perm"] for queue in orbitmq("route", topic, "-o", "json").json["queues"]] == [perm]


def test_a_topic_without_any_permission_says_so(orbitmq, topic):
    orbitmq("topic", "create", topic, "--permission", "w")
    orbitmq("route", "wipe-write-perm", "broker-a")
    try:
        assert [row[4] for row in orbitmq("route", topic).rows] == ["none"]
    finally:
        orbitmq("route", "add-write-perm", "broker-a")


def test_status_tells_what_was_sent(orbitmq, topic):
    orbitmq("send", topic, "x", "--count", 5)
    rows = orbitmq("topic", "show", topic, "-o", "json").json
    assert sum(row["messages"] for row in rows) == 5
    assert all(row["max_offset"] - row["min_offset"] == row["messages"] for row in rows)


def test_expired_messages_are_not_counted(orbitmq, monkeypatch):
    async def stats(self, topic):
        return {MessageQueue(topic, "broker-a", 3): QueueStats(5, 12, 1_700_000_000_123)}, {}

    monkeypatch.setattr(AdminClient, "known_topic_stats", stats)
    result = orbitmq("topic", "show", "t")
    assert result.rows == [["broker-a", "3", "5", "12", "7", "2023-11-14T22:13:20.123Z"]]
    assert result.err == "7 messages in 1 queues\n"


def test_a_deleted_topic_has_no_route(orbitmq, topic):
    assert orbitmq("topic", "delete", "--yes", topic).code == 0
    gone = orbitmq("route", topic)
    assert gone.code == 1
    assert topic in gone.err
    assert "Traceback" not in gone.err
    assert [topic] not in orbitmq("topic", "list").rows


def test_rocketmqs_own_topics_are_shown_on_request_only(orbitmq, topic):
    assert ["TBW102"] not in orbitmq("topic", "list").rows
    assert ["TBW102"] in orbitmq("topic", "list", "--all").rows
    assert [topic] in orbitmq("topic", "list", "--all").rows


def test_topics_of_a_cluster_that_does_not_exist_are_none(orbitmq, topic):
    assert [topic] in orbitmq("topic", "list", "--cluster", "DefaultCluster").rows
    assert orbitmq("topic", "list", "--cluster", "Elsewhere").rows == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("create", "a b"), "topic"),
        (("create", "t", "--queues", 0), "queues"),
        (("create", "t", "--permission", "x"), "--permission"),
        (("create", "t", "--broker", "broker-z"), "broker-a"),
        (("create", "t", "--cluster", "Elsewhere"), "DefaultCluster"),
        (("vanish", "t"), "vanish"),
    ],
)
def test_usage_errors_name_what_is_wrong_and_end_with_2(orbitmq, arguments, named):
    result = orbitmq("topic", *arguments)
    assert result.code == 2
    assert named in result.err
    assert result.out == ""


@pytest.mark.parametrize("command", [("topic", "delete"), ("topic", "show"), ("topic", "route"), ("consume",)])
def test_an_unknown_topic_is_a_negative_answer(orbitmq, command):
    result = orbitmq(*command, "no-such-topic")
    assert result.code == 1
    assert "no-such-topic" in result.err


@pytest.mark.parametrize(
    "command",
    [("topic", "list"), ("topic", "create", "t"), ("route", "t"), ("cluster",), ("send", "t", "x"), ("consume", "t")],
)
def test_a_missing_server_ends_with_3_and_one_sentence(orbitmq, command):
    result = orbitmq(*command, "-n", "127.0.0.1:1")
    assert result.code == 3
    assert "127.0.0.1:1" in result.err
    assert result.err.startswith("orbitmq: ")
    assert result.err.count("\n") == 1


def test_a_topic_is_not_deleted_unasked(orbitmq, topic):
    orbitmq("send", topic, "x", "--count", 3)
    orbitmq("consume", topic, "--group", topic)
    refused = orbitmq("topic", "delete", topic)
    loss = f"delete the topic {topic} with 3 messages in 2 queues, read by {topic}"
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"orbitmq: this would {loss}: --yes does it, --dry-run only says so\n"
    planned = orbitmq("topic", "delete", topic, "--dry-run")
    assert (planned.code, planned.err) == (0, f"would {loss}\n")
    assert "3 messages in 2 queues" in orbitmq("topic", "show", topic).err


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_a_lost_broker_is_named_also_where_a_part_of_the_others_has_not_deleted(orbitmq, monkeypatch, kind):
    async def missing(*_):
        return {"broker-x": "it is gone"}

    async def delete(*_, **__):
        raise PartlyDone("done on a; not done on b: no", ["a"])

    for name, stub in {"missing_masters": missing, "missing_masters_of": missing, f"delete_{kind}": delete}.items():
        monkeypatch.setattr(AdminClient, name, stub)
    partly = orbitmq(kind, "delete", "orders", "--yes")
    said = "orbitmq: done on a; not done on b: no. without broker-x: it is gone\n"
    assert (partly.code, partly.out, partly.err) == (1, "", said)


def test_a_topic_that_is_not_there_is_not_said_to_be_deleted(orbitmq):
    missed = orbitmq("topic", "delete", "--yes", "nope")
    assert (missed.code, missed.out) == (1, "")
    assert missed.err.startswith("orbitmq: topic nope has no route")


def test_attributes_are_set_when_a_topic_is_made(orbitmq, topic):
    made = orbitmq("topic", "create", f"{topic}-fifo", "--attribute", "message.type=FIFO")
    assert made.code == 0
    assert "message.type=FIFO" in orbitmq("topic", "config", "show", f"{topic}-fifo").out
    assert orbitmq("topic", "create", topic, "--attribute", "message.type").code == 2


@pytest.mark.parametrize("words", [("topic", "create", "t"), ("group", "create", "g")])
def test_with_several_clusters_a_change_has_to_say_which(orbitmq, monkeypatch, words):
    async def clusters(self):
        return ClusterInfo(brokers={}, clusters={"west": (), "east": ()})

    monkeypatch.setattr(AdminClient, "cluster_info", clusters)
    asked = orbitmq(*words)
    assert (asked.code, asked.out) == (2, "")
    assert "of east, west, say which" in asked.err
    assert "say which" not in orbitmq(*words, "--cluster", "east").err


def test_javas_command_makes_eight_queues_and_ours_four(orbitmq):
    """As Java's UpdateTopicSubCommand, and its producers."""
    name = "counts-of-queues"
    assert orbitmq("mqadmin", "updateTopic", "-c", "DefaultCluster", "-t", f"{name}-java").code == 0
    assert orbitmq("topic", "create", name).code == 0
    counts = [orbitmq("route", topic, "-o", "json").json["queues"][0] for topic in (f"{name}-java", name)]
    assert [(found["read_queue_count"], found["write_queue_count"]) for found in counts] == [(8, 8), (4, 4)]
