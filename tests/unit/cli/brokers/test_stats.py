"""`orbitmq stats` and `orbitmq broker stats`."""

import pytest

from orbitmq.admin import AdminClient, Traffic
from orbitmq.errors import RemoteRefused
from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem


def test_every_value_that_a_broker_tells_is_shown(orbitmq, rocketmq_session):
    rows = {row[1]: row[2:] for row in orbitmq("broker", "status").rows}
    assert {"brokerVersionDesc", "putTps", "commitLogMaxOffset", "bootTimestamp"} <= rows.keys()
    (shown,) = orbitmq("broker", "status", "-o", "json").json
    assert (shown["broker"], shown["address"]) == ("broker-a", rocketmq_session.brokers["broker-a"])
    assert shown["values"].keys() == rows.keys()


def test_some_values_are_asked_for_by_their_names(orbitmq):
    assert [row[:2] for row in orbitmq("broker", "status", "runtime", "brokerVersion").rows] == [
        ["broker-a", "brokerVersion"],
        ["broker-a", "runtime"],
    ]
    missing = orbitmq("broker", "status", "brokerVersion", "putTpz")
    assert (missing.code, len(missing.rows)) == (1, 1)
    assert missing.err == "orbitmq: broker-a has no value putTpz\n"


def stats(minute, hour, day):
    return BrokerStatsData(*(BrokerStatsItem(count, count / 60) for count in (minute, hour, day)))


@pytest.fixture
def traffic(monkeypatch):
    """Three things that were counted, one that was not; returns what was asked for."""
    asked = []

    async def find(self, topic=None, group=None, *, cluster=None, broker=None):
        asked.append((topic, group, cluster, broker))
        return [
            Traffic("broker-a", "orders", None, stats(1, 2, 30)),
            Traffic("broker-a", "orders", "billing", stats(6, 2, 6)),
            Traffic("broker-b", "bills", None, stats(3, 3, 3)),
            Traffic("broker-b", "quiet", None, stats(0, 0, 0)),
        ], {}

    monkeypatch.setattr(AdminClient, "known_traffic", find)
    return asked


def test_the_busiest_come_first(orbitmq, traffic):
    assert orbitmq("stats").rows == [
        ["sent", "orders", "-", "broker-a", "1", "2", "30", "0.02"],
        ["got", "orders", "billing", "broker-a", "6", "6", "6", "0.1"],
        ["sent", "bills", "-", "broker-b", "3", "3", "3", "0.05"],
    ]
    assert [row[1] for row in orbitmq("stats", "--by", "hour").rows] == ["orders", "bills", "orders"]
    assert [row[0] for row in orbitmq("stats", "--by", "minute", "--top", 1).rows] == ["got"]
    assert len(orbitmq("stats", "--top", 0, "-o", "json").json) == 3


def test_what_is_too_new_for_a_days_figure_is_shown_by_its_shorter_ones(orbitmq, monkeypatch):
    async def find(self, topic=None, group=None, *, cluster=None, broker=None):
        counts = {"slow": (1, 0, 0), "past": (0, 9, 0), "fast": (2, 0, 0)}
        return [Traffic("broker-a", name, None, stats(*sums)) for name, sums in counts.items()], {}

    monkeypatch.setattr(AdminClient, "known_traffic", find)
    assert [row[1] for row in orbitmq("stats").rows] == ["past", "fast", "slow"]


def test_what_is_chosen_is_asked_for(orbitmq, traffic):
    orbitmq("stats", "-t", "orders", "-g", "billing", "--cluster", "east", "--broker", "broker-a")
    assert traffic == [("orders", "billing", "east", "broker-a")]


def test_a_group_that_reads_is_found_with_its_topic(orbitmq, topic):
    orbitmq("send", topic, "x", "--count", 3)
    orbitmq("consume", topic, "--group", topic)
    # What was counted is summed once a second or less often: that it was counted is known immediately.
    assert orbitmq("stats", "--topic", topic).code == 0
    assert orbitmq("broker", "stats", "TOPIC_PUT_NUMS", topic).rows[0][:3] == ["broker-a", "TOPIC_PUT_NUMS", topic]
    assert orbitmq("broker", "stats", "GROUP_GET_SIZE", f"{topic}@{topic}", "--name", "broker-a").code == 0


def test_a_broker_tells_what_it_took_and_gave(orbitmq, rocketmq_session):
    address = rocketmq_session.brokers["broker-a"]
    for words, name in (((), "broker-a"), (("--address", address), address)):
        rows = orbitmq("broker", "stats", *words).rows
        assert [row[:3] for row in rows] == [[name, f"BROKER_{what}_NUMS", "DefaultCluster"] for what in ("PUT", "GET")]


def test_a_broker_that_took_nothing_yet_has_taken_nothing(orbitmq, monkeypatch):
    async def refuse(self, address, name, key):
        raise RemoteRefused(1 if name == "BROKER_PUT_NUMS" else 16, "not exist", address)

    monkeypatch.setattr(AdminClient, "broker_stats", refuse)
    result = orbitmq("broker", "stats")
    assert (result.code, "code 16" in result.err) == (1, True)

    async def refuse_all(self, address, name, key):
        raise RemoteRefused(1, "not exist", address)

    monkeypatch.setattr(AdminClient, "broker_stats", refuse_all)
    assert [row[3:] for row in orbitmq("broker", "stats").rows] == [["0", "0", "0", "0.0"]] * 2


def test_a_figure_that_is_not_there_is_a_negative_answer(orbitmq):
    missing = orbitmq("broker", "stats", "TOPIC_PUT_NUMS", "no-such-topic")
    assert (missing.code, missing.out, "no-such-topic" in missing.err) == (1, "", True)
    wrong = orbitmq("broker", "stats", "TOPIC_PUT_NUMS")
    assert (wrong.code, "KEY" in wrong.err) == (2, True)
