"""`orbitmq group …`."""

import pytest

from orbitmq.blocking import PushConsumer


def read_all(orbitmq, topic):
    """Let a group of the topic's name read five messages."""
    assert orbitmq("send", topic, "x", "--count", 5).code == 0
    assert orbitmq("consume", topic, "--group", topic).code == 0


def test_a_groups_lag_is_shown_and_set(orbitmq, topic):
    read_all(orbitmq, topic)
    assert [topic, "user", "0", "0", "-", "-"] in orbitmq("group", "list").rows
    assert [topic, "0"] in orbitmq("group", "lag").rows
    assert [topic, "0"] in orbitmq("group", "lag", "--topic", topic).rows
    lag = orbitmq("group", "lag", topic, "--topic", topic)
    assert [row[5] for row in lag.rows] == ["0", "0"]
    assert "0 messages in 2 queues" in lag.err
    planned = orbitmq("group", "reset", topic, topic, "--to", "earliest", "--dry-run")
    assert "5 messages would come again, 0 would be skipped" in planned.err
    assert "0 messages in" in orbitmq("group", "lag", topic).err
    assert "5 messages come again" in orbitmq("group", "reset", "--yes", topic, topic, "--to", "10m").err
    skipped = orbitmq("group", "reset", "--yes", topic, topic, "--to", "latest", "-o", "json").json
    assert sum(row["skipped"] for row in skipped) == 5
    ahead = orbitmq("group", "reset", topic, topic, "--to", "2999-01-01")
    assert (ahead.code, "is ahead of now" in ahead.err) == (2, True)
    assert orbitmq("group", "reset", topic, topic, "--to", "2999-01-01", "--yes").code == 0
    one = orbitmq("group", "reset", "--yes", topic, topic, "--to", "offset:1", "--queue", 0).rows
    assert [row[2:5] for row in one] == [["0", one[0][3], "1"]]


def test_a_group_is_neither_set_nor_deleted_unasked(orbitmq, topic):
    read_all(orbitmq, topic)
    orbitmq("send", topic, "y", "--count", 2)
    for words, loss in (
        (("reset", topic, topic, "--to", "latest"), "0 messages would come again, 2 would be skipped, in 2 queues"),
        (("clone", topic, f"{topic}-new"), "0 messages would come again, 5 would be skipped"),
        (("delete", topic), "with its offsets in 2 queues, where it has 2 messages that it has not read"),
    ):
        refused = orbitmq("group", *words)
        assert (refused.code, refused.out, loss in refused.err) == (2, "", True), refused.err
    assert orbitmq("group", "delete", topic, "--dry-run").err.startswith(f"would delete the group {topic} with")
    assert "2 messages in" in orbitmq("group", "lag", topic).err


def test_a_group_that_is_not_there_is_an_error_and_nothing_else(orbitmq, topic):
    for words in (("lag", topic), ("delete", topic, "--yes"), ("delete", topic, "--dry-run")):
        shown = orbitmq("group", *words)
        assert (shown.code, shown.out, "no broker knows" in shown.err) == (1, "", True), shown


def test_groups_of_our_own_tools_are_marked(orbitmq, topic):
    assert orbitmq("group", "create", "orbitmq-dlq").code == 0
    assert ["orbitmq-dlq", "tool"] in [row[:2] for row in orbitmq("group", "list").rows]
    assert orbitmq("group", "delete", "orbitmq-dlq", "--yes").code == 0


def test_a_group_shows_who_is_online(orbitmq, topic, rocketmq_session):
    with PushConsumer(topic, rocketmq_session.name_servers) as consumer:
        consumer.subscribe(topic)
        consumer.assigned()
        shown = orbitmq("group", "show", topic)
        assert [row[0] for row in shown.rows] == [consumer.client_id]
        assert f"subscribes to {topic}: *" in shown.err
        document = orbitmq("group", "show", topic, "-o", "json").json
        assert (document["model"], document["subscriptions"][topic]) == ("clustering", "*")
        refused = orbitmq("group", "delete", "--yes", topic)
        assert (refused.code, "online" in refused.err) == (1, True)


def test_a_group_is_made_copied_and_deleted(orbitmq, topic):
    read_all(orbitmq, topic)
    assert orbitmq("group", "create", f"{topic}-made", "--retries", 3, "--no-broadcast").code == 0
    settings = orbitmq("group", "show", f"{topic}-made", "-o", "json").json["settings"]["broker-a"]
    assert (settings["retry_times_max"], settings["consume_broadcast_enable"]) == (3, False)
    assert "5 are skipped" in orbitmq("group", "clone", "--yes", topic, f"{topic}-made", "--topic", topic).err
    assert orbitmq("group", "delete", "--yes", f"{topic}-made", "--with-topics").code == 0
    gone = orbitmq("group", "show", f"{topic}-made")
    assert (gone.code, "no broker knows" in gone.err) == (1, True)
    missing = orbitmq("group", "lag", f"{topic}-made")
    assert (missing.code, "still to come" in missing.err) == (1, False)
    assert f"no broker knows where group {topic}-made is" in missing.err


@pytest.mark.parametrize("where", ["later", "offset:", "offset:-1", "offset:x"])
def test_a_place_that_is_none_is_a_wrong_argument(orbitmq, topic, where):
    wrong = orbitmq("group", "reset", "--yes", topic, topic, "--to", where)
    assert (wrong.code, "--to" in wrong.err) == (2, True)


def test_a_group_and_a_topic_of_rocketmq_itself_are_changed_by_force_alone(orbitmq, topic):
    words = ("group", "reset", "--yes", "CID_RMQ_SYS_TRANS", topic, "--to", "latest")
    refused = orbitmq(*words)
    assert (refused.code, "--force does it all the same" in refused.err) == (2, True)
    forced = orbitmq(*words, "--force")
    assert (forced.code, "forced, though group" in forced.err) == (0, True)
    for others in (
        ("group", "clone", "--yes", topic, "CID_RMQ_SYS_REVIVE_GROUP"),
        ("group", "create", "CID_RMQ_SYS_NEW"),
        ("group", "delete", "--yes", "TOOLS_CONSUMER"),
        ("topic", "delete", "--yes", "%DLQ%billing"),
        ("topic", "create", "RMQ_SYS_TRANS_HALF_TOPIC"),
        ("topic", "config", "set", "RMQ_SYS_TRANS_HALF_TOPIC", "--permission", "r"),
    ):
        assert "--force does it" in orbitmq(*others).err, others
