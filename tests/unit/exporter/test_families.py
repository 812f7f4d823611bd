"""Families of a collection: names, labels and values as rocketmq-exporter and brokers have them."""

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
from orbitmq.exporter.families import families
from orbitmq.model.group import MessageModel
from orbitmq.wire.bodies.groups import ClientConnection
from orbitmq.wire.bodies.stats import BrokerStatsItem

MASTER = BrokerKey("c", "broker-a", 0, "a:10911")
SLAVE = BrokerKey("c", "broker-a", 1, "b:10911")
CLIENTS = (
    ClientConnection("10.0.0.1@1", "10.0.0.1:5", "JAVA", 1),
    ClientConnection("10.0.0.2@1", "10.0.0.2:5", "JAVA", 1),
)


def reader(broker: str, topic: str, **values: Any) -> dict[ReaderKey, ReaderValues]:
    given = {"end": 100, "committed": 60, "pulled": 70, **values}
    return {ReaderKey("c", broker, topic, "billing"): ReaderValues(**given)}


def collection(**values: Any) -> Collection:
    nothing: dict[str, Any] = {"brokers": {}, "topics": {}, "readers": {}, "groups": {}}
    return Collection(**{"at_ms": 10_000, "seconds": 0.1, "known": (), **nothing, **values})


def series(found: Collection, name: str) -> dict[tuple[str, ...], float]:
    (family,) = (family for family in families(found) if family.name == name)
    for labels, _ in family.series:
        assert len(labels) == len(family.labels)
    return dict(family.series)


def test_names_are_announced_once_with_or_without_values() -> None:
    names = [family.name for family in families(collection())]
    assert len(names) == len(set(names))
    assert {"broker_tps", "group_diff", "consumer_lag_messages", "brokeruntime_put_tps10"} <= set(names)


def test_rates_of_a_master_are_those_of_the_last_minute() -> None:
    values = BrokerValues(runtime={}, put=BrokerStatsItem(60, 1.5, 1), got=BrokerStatsItem(30, 0.5, 1), producers={})
    found = collection(brokers={MASTER: values})
    assert series(found, "broker_tps") == {("c", "a:10911", "broker-a"): 1.5}
    assert series(found, "broker_qps") == {("c", "a:10911", "broker-a"): 0.5}


def test_a_broker_that_does_not_answer_is_down() -> None:
    found = collection(known=(MASTER, SLAVE), brokers={MASTER: BrokerValues(runtime={}, producers={})})
    assert series(found, "broker_up") == {
        ("c", "a:10911", "broker-a", "master"): 1,
        ("c", "b:10911", "broker-a", "slave"): 0,
    }


def test_a_slave_is_behind_by_the_end_of_its_masters_log() -> None:
    found = collection(
        brokers={
            MASTER: BrokerValues(runtime={"commitLogMaxOffset": "500"}, producers={}),
            SLAVE: BrokerValues(runtime={"commitLogMaxOffset": "200"}, producers={}),
        }
    )
    assert series(found, "broker_commitlog_diff") == {("c", "b:10911", "broker-a"): 300}
    assert [labels[1] for labels in series(found, "brokeruntime_commitlog_maxoffset")] == ["a:10911"]


def test_topics_retries_and_dead_letters_have_families_of_their_own() -> None:
    topics = {
        TopicKey("c", "broker-a", "orders"): TopicValues(begin=5, end=9, put=BrokerStatsItem(1, 2.0, 1)),
        TopicKey("c", "broker-a", "%RETRY%billing"): TopicValues(begin=0, end=3),
        TopicKey("c", "broker-a", "%DLQ%billing"): TopicValues(begin=1, end=4),
    }
    found = collection(topics=topics)
    assert series(found, "producer_offset") == {("c", "broker-a", "orders"): 9}
    assert series(found, "producer_tps") == {("c", "broker-a", "orders"): 2}
    assert series(found, "producer_message_size") == {}
    assert series(found, "topic_retry_offset") == {("c", "broker-a", "%RETRY%billing"): 3}
    assert series(found, "topic_dlq_offset") == {("c", "broker-a", "billing"): 4}
    assert series(found, "group_dlqdiff") == {("billing", "%DLQ%billing", "0", "1"): 3}


def test_a_groups_lag_is_the_sum_over_its_brokers() -> None:
    readers = {**reader("broker-a", "orders"), **reader("broker-b", "orders"), **reader("broker-a", "%RETRY%billing")}
    found = collection(readers=readers, groups={"billing": GroupValues(CLIENTS)})
    assert series(found, "group_diff") == {("billing", "orders", "2", "1"): 80}
    assert series(found, "group_retrydiff") == {("billing", "%RETRY%billing", "2", "1"): 40}
    assert series(found, "group_count") == {("10.0.0.1:5,10.0.0.2:5", "10.0.0.1@1,10.0.0.2@1", "billing"): 2}


def test_sums_over_brokers_have_a_gap_while_one_of_them_is_silent() -> None:
    letters = {TopicKey("c", "broker-a", "%DLQ%billing"): TopicValues(begin=0, end=3)}
    readers, groups = reader("broker-a", "orders"), {"billing": GroupValues(CLIENTS)}
    found = collection(topics=letters, readers=readers, groups=groups, silent=frozenset([MASTER]))
    for name in ("group_diff", "group_retrydiff", "group_dlqdiff", "group_count"):
        assert series(found, name) == {}, name
    assert series(found, "consumer_offset") == {("c", "broker-a", "orders", "billing"): 60}


def test_a_broadcasting_group_has_no_lag_at_brokers() -> None:
    values = GroupValues(CLIENTS[:1], MessageModel.BROADCASTING)
    found = collection(readers=reader("broker-a", "orders"), groups={"billing": values})
    assert series(found, "group_diff") == {}


def test_lag_is_split_into_what_consumers_have_and_what_they_have_not() -> None:
    found = collection(readers=reader("broker-a", "orders", waiting_since_ms=4_000))
    labels = ("c", "broker", "broker-a", "billing", "orders", "false", "false")
    assert series(found, "consumer_lag_messages") == {labels: 40}
    assert series(found, "consumer_inflight_messages") == {labels: 10}
    assert series(found, "consumer_ready_messages") == {labels: 30}
    assert series(found, "consumer_lag_latency_milliseconds") == {labels: 6_000}
    assert series(found, "group_get_latency_by_storetime") == {("c", "broker-a", "orders", "billing"): 6_000}


def test_a_group_without_lag_is_zero_milliseconds_behind_and_one_that_is_not_known_has_no_time() -> None:
    readers = {
        **reader("broker-a", "orders", waiting_since_ms=0),
        **reader("broker-b", "orders", waiting_since_ms=None),
    }
    found = collection(readers=readers)
    assert series(found, "group_get_latency_by_storetime") == {("c", "broker-a", "orders", "billing"): 0}


def test_what_consumers_get_and_send_back_is_of_the_last_minute() -> None:
    item = BrokerStatsItem(30, 0.5, 1)
    found = collection(readers=reader("broker-a", "orders", got=item, got_size=item, sent_back=item))
    labels = ("c", "broker-a", "orders", "billing")
    assert series(found, "consumer_offset") == {labels: 60}
    assert series(found, "consumer_tps") == series(found, "consumer_message_size") == {labels: 0.5}
    assert series(found, "send_back_nums") == {labels: 30}


def test_a_masters_storage_has_the_names_of_5_x() -> None:
    told = {
        "commitLogDirCapacity": "Total : 4.0 KiB, Free : 1.0 KiB.",
        "remainHowManyDataToFlush": "7 B",
        "dispatchBehindBytes": "5",
        "earliestMessageTimeStamp": "9000",
    }
    values = BrokerValues(runtime=told, topic_count=3, group_count=2, producers={"makers": 4})
    found = collection(brokers={MASTER: values})
    node = ("c", "broker", "broker-a")
    for name, value in (
        ("storage_size_bytes", 3072),
        ("storage_flush_behind_bytes", 7),
        ("storage_dispatch_behind_bytes", 5),
        ("storage_message_reserve_time_milliseconds", 1000),
    ):
        assert series(found, name) == {(*node, "local", "disk"): value}
    assert series(found, "topic_number") == {node: 3}
    assert series(found, "consumer_group_number") == {node: 2}
    assert series(found, "producer_count") == {("c", "broker-a", "makers"): 4}


def test_a_name_without_a_master_is_told() -> None:
    found = collection(known=(MASTER, SLAVE, BrokerKey("c", "broker-b", 1, "d:10911")))
    assert series(found, "broker_without_master") == {("c", "broker-a"): 0, ("c", "broker-b"): 1}


def test_values_that_a_broker_did_not_tell_have_no_series() -> None:
    found = collection(brokers={MASTER: BrokerValues(runtime={"earliestMessageTimeStamp": "-1"}, producers={})})
    for name in ("storage_size_bytes", "storage_message_reserve_time_milliseconds", "topic_number", "broker_tps"):
        assert series(found, name) == {}
