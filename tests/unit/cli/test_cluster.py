"""`orbitmq cluster`."""

import pytest

from orbitmq.admin import AdminClient
from orbitmq.errors import RequestTimeout
from orbitmq.model.route import BrokerData, ClusterInfo


def test_every_broker_is_shown_with_what_it_does(orbitmq, rocketmq_session):
    (row,) = orbitmq("cluster", "-o", "json").json
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert row["address"] == rocketmq_session.brokers["broker-a"]
    assert row["version"].startswith("V")
    assert row["messages_today"] >= 0
    assert orbitmq("cluster").rows[0][:3] == ["DefaultCluster", "broker-a", "0"]


def test_a_broker_that_does_not_answer_is_shown_all_the_same(orbitmq, monkeypatch):
    async def fail(self, address):
        raise RequestTimeout(f"{address} did not answer")

    monkeypatch.setattr(AdminClient, "broker_runtime_info", fail)
    result = orbitmq("cluster", "-o", "json")
    assert result.code == 0
    assert "did not answer" in result.json[0]["problem"]
    assert "broker-a: " in result.err
    assert result.err.count("did not answer") == 1


def test_a_broker_that_is_gone_is_named_wherever_its_part_is_missing(orbitmq, topic, monkeypatch):
    async def miss(self, *_topic):
        return {"broker-b": "it is gone"}

    orbitmq("group", "create", topic)
    monkeypatch.setattr(AdminClient, "missing_masters", miss)
    monkeypatch.setattr(AdminClient, "missing_masters_of", miss)
    assert orbitmq("cluster").err == "broker-b: it is gone\n"
    asked = orbitmq("topic", "delete", topic, "--dry-run")
    assert (asked.code, "; broker-b is gone, and brings the topic back" in asked.err) == (0, True)
    for words in (
        ("topic", "show", topic),
        ("group", "list"),
        ("dlq", "list"),
        ("group", "reset", topic, topic, "--to", "latest", "--yes"),
        ("group", "delete", topic, "--yes"),
        ("topic", "delete", topic, "--yes"),
        ("user", "delete", "none"),
        ("acl", "delete", "none"),
    ):
        done = orbitmq(*words)
        assert (done.code, "without broker-b: it is gone" in done.err) == (1, True), words


def test_what_a_broker_warns_of_is_said(orbitmq, monkeypatch):
    async def warn(self, address):
        return {"warnings": "the door is open"}

    monkeypatch.setattr(AdminClient, "broker_runtime_info", warn)
    result = orbitmq("cluster")
    assert result.code == 0
    assert result.err == "broker-a: the door is open\n"


def test_controllers_that_do_not_answer_are_named(orbitmq, monkeypatch):
    async def tell(self, address):
        return {"controllers": "127.0.0.1:1"}

    monkeypatch.setattr(AdminClient, "broker_runtime_info", tell)
    said = orbitmq("cluster").err
    assert "controller 127.0.0.1:1: does not answer" in said
    assert "0 of 1 are there, no master can be elected before more are there; start it again" in said


def test_copies_are_shown_with_how_far_they_are(orbitmq, monkeypatch):
    brokers = {"a": BrokerData(cluster="c", broker_name="a", addresses={0: "m:1", 2: "s:1", 3: "t:1"})}

    async def know(self):
        return ClusterInfo(brokers=brokers, clusters={"c": ("a",)})

    async def tell(self, address):
        if address == "t:1":
            raise RequestTimeout("t:1 did not answer")
        ends = {"m:1": "1000", "s:1": "900"}
        return {"commitLogMaxOffset": ends[address], "masterEpoch": "7", "syncStateSet": "0 2"}

    monkeypatch.setattr(AdminClient, "cluster_info", know)
    monkeypatch.setattr(AdminClient, "broker_runtime_info", tell)
    rows = orbitmq("cluster", "-o", "json").json
    wanted = ("role", "behind", "in_sync", "epoch")
    assert [tuple(row.get(name) for name in wanted) for row in rows] == [
        ("master", None, True, 7), ("slave", 100, True, 7), ("slave", None, False, None),
    ]  # fmt: skip
    assert "did not answer" in rows[2]["problem"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (
            {
                "brokerVersionDesc": "V5_3_3",
                "putTps": "1.26 22.0 333.0",
                "getTransferredTps": "0.04 1 1",
                "msgPutTotalTodayNow": "17",
                "msgPutTotalTodayMorning": "7",
            },
            ["V5_3_3", "1.3", "0.0", "10"],
        ),
        ({"putTps": "", "getTransferredTps": "much", "msgPutTotalTodayNow": "x"}, ["-", "-", "-", "-"]),
        ({"msgPutTotalTodayNow": "17"}, ["-", "-", "-", "-"]),
    ],
)
def test_figures_are_the_latest_and_todays_and_strange_ones_are_left_out(orbitmq, monkeypatch, values, shown):
    async def tell(self, address):
        return values

    monkeypatch.setattr(AdminClient, "broker_runtime_info", tell)
    result = orbitmq("cluster")
    assert result.out.splitlines()[0].split() == [
        "CLUSTER", "BROKER", "ID", "ROLE", "BEHIND", "IN_SYNC", "EPOCH", "ADDRESS", "VERSION", "PUT_PER_S", "GET_PER_S", "MESSAGES_TODAY",
    ]  # fmt: skip
    assert result.rows[0][8:] == shown
