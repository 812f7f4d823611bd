"""Rows of a live screen: rates between two collections, and the order of the rows."""

from __future__ import annotations

from typing import Any

from orbitmq.exporter.collection import (
    BrokerKey,
    BrokerValues,
    Collection,
    GroupValues,
    ReaderKey,
    ReaderValues,
    TopicKey,
    TopicValues,
)
from orbitmq.exporter.rows import (
    BROKER_COLUMNS,
    GROUP_COLUMNS,
    TOPIC_COLUMNS,
    broker_rows,
    group_rows,
    topic_rows,
)
from orbitmq.wire.bodies.groups import ClientConnection
from orbitmq.wire.bodies.stats import BrokerStatsItem

MASTER = BrokerKey("c", "broker-a", 0, "a:10911")
SLAVE = BrokerKey("c", "broker-a", 1, "b:10911")


def collection(at_s: int = 0, **values: Any) -> Collection:
    nothing: dict[str, Any] = {"brokers": {}, "topics": {}, "readers": {}, "groups": {}}
    return Collection(**{"at_ms": at_s * 1000, "seconds": 0.1, "known": (MASTER, SLAVE), **nothing, **values})


def broker(at_s: int, **runtime: str) -> Collection:
    return collection(at_s, brokers={MASTER: BrokerValues(runtime=runtime, producers={})})


def topic(at_s: int, **ends: int) -> Collection:
    topics = {
        TopicKey("c", name, topic.replace("_", "%")): TopicValues(begin=0, end=end, put=BrokerStatsItem(60, 7.0, 1))
        for topic, end in ends.items()
        for name in ("broker-a", "broker-b")
    }
    return collection(at_s, topics=topics)


def group(at_s: int, *, end: int, committed: int, name: str = "billing") -> dict[ReaderKey, ReaderValues]:
    values = ReaderValues(end=end, committed=committed, pulled=committed, got=BrokerStatsItem(60, 7.0, 1))
    return {ReaderKey("c", "broker-a", "orders", name): values}


def test_a_brokers_rates_are_those_between_two_collections() -> None:
    before = broker(0, msgPutTotalTodayNow="100", msgGetTotalTodayNow="50")
    found = broker(2, msgPutTotalTodayNow="300", msgGetTotalTodayNow="60", commitLogDiskRatio="0.42")
    master, slave = broker_rows(before, found)
    assert (master["in_per_s"], master["out_per_s"], master["disk_used"], master["role"]) == (100, 5, "42%", "master")
    assert (slave["in_per_s"], slave["disk_used"], slave["role"]) == (None, None, "slave, silent")
    assert set(BROKER_COLUMNS) <= master.keys()


def test_without_a_collection_before_rates_are_those_that_brokers_tell() -> None:
    master, _ = broker_rows(None, broker(0, msgPutTotalTodayNow="100", putTps="1.25 2 3", commitLogDiskRatio="-1"))
    assert (master["in_per_s"], master["out_per_s"], master["disk_used"]) == (1.2, None, None)


def test_a_slave_is_behind_its_master_in_bytes() -> None:
    values = {
        MASTER: BrokerValues(runtime={"commitLogMaxOffset": "500"}, producers={}),
        SLAVE: BrokerValues(runtime={"commitLogMaxOffset": "200"}, producers={}),
    }
    master, slave = broker_rows(None, collection(brokers=values))
    assert (master["behind"], slave["behind"]) == (None, 300)


def test_a_broker_that_was_not_there_before_has_the_rate_that_it_tells() -> None:
    master, _ = broker_rows(collection(0), broker(1, msgPutTotalTodayNow="100", putTps="3"))
    assert master["in_per_s"] == 3


def test_the_busiest_topic_comes_first_and_topics_that_users_did_not_make_are_left_out() -> None:
    rows = topic_rows(topic(0, quiet=1, busy=1), topic(10, quiet=1, busy=51, TBW102=9, _RETRY_billing=9))
    assert [(row["topic"], row["in_per_s"], row["messages"], row["brokers"]) for row in rows] == [
        ("busy", 10, 102, 2),
        ("quiet", 0, 2, 2),
    ]
    assert list(rows[0]) == list(TOPIC_COLUMNS)


def test_a_topic_seen_once_has_the_rate_of_the_last_minute() -> None:
    (row,) = topic_rows(None, topic(0, orders=5))
    assert row["in_per_s"] == 14


def test_the_group_that_is_furthest_behind_comes_first_with_what_its_lag_does() -> None:
    client = ClientConnection("c1", "10.0.0.1:5", "JAVA", 1)
    before = collection(0, readers=group(0, end=100, committed=90))
    readers = {**group(4, end=200, committed=110), **group(4, end=200, committed=200, name="audit")}
    first, second = group_rows(before, collection(4, readers=readers, groups={"billing": GroupValues((client,))}))
    assert first == {"group": "billing", "topic": "orders", "lag": 90, "lag_per_s": 20, "out_per_s": 5, "consumers": 1}
    assert (second["group"], second["lag"], second["lag_per_s"], second["out_per_s"]) == ("audit", 0, None, 7)
    assert list(first) == list(GROUP_COLUMNS)
