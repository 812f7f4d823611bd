"""Figures of one thing and places of all groups, as a Java broker tells them."""

from __future__ import annotations

import orjson
import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import stats
from orbitmq.wire.bodies.topics import QueueProgress


def test_figures_travel() -> None:
    statistics = stats.BrokerStatsData(
        stats.BrokerStatsItem(6, 0.1, 1.5), stats.BrokerStatsItem(600, 1.0, 2.0), stats.BrokerStatsItem()
    )
    assert stats.decode_stats(stats.encode_stats(statistics)) == statistics


def test_they_have_the_form_of_javas() -> None:
    body = golden("315-view-broker-stats-data-answer").body
    statistics = stats.decode_stats(body)
    assert orjson.loads(stats.encode_stats(statistics)) == orjson.loads(body)


@each_case(b"{}", b"[]", b'{"statsMinute":{},"statsHour":{},"statsDay":{}}')
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(HeaderError):
        stats.decode_stats(body)


def test_the_answer_has_the_names_of_javas() -> None:
    java = fastjson.loads(golden("317-get-broker-consume-stats-answer").body)
    queue = MessageQueue("golden", "broker-a", 0)
    body = stats.encode_broker_consume_stats(
        "127.0.0.2:1", {"g": [stats.TopicProgress({queue: QueueProgress(5, 2, 3, 9)}, 0.5)]}
    )
    ours = fastjson.loads(body)
    assert ours.keys() == java.keys()
    group = next(topics for groups in java["consumeStatsList"] for topics in groups.values() if topics)
    assert ours["consumeStatsList"][0]["g"][0].keys() == group[0].keys()
    (place,) = ours["consumeStatsList"][0]["g"][0]["offsetTable"].values()
    assert place.keys() == next(iter(group[0]["offsetTable"].values())).keys()


def test_the_sums_are_those_of_all_queues() -> None:
    places = {MessageQueue("t", "a", number): QueueProgress(5 + number, 2, 4) for number in range(2)}
    document = fastjson.loads(
        stats.encode_broker_consume_stats("a:1", {"g": [stats.TopicProgress(places)], "idle": []})
    )
    assert (document["totalDiff"], document["totalInflightDiff"], document["brokerAddr"]) == (7, 4, "a:1")
    assert document["consumeStatsList"][1] == {"idle": []}


def test_a_master_without_slaves_looks_as_javas_does() -> None:
    java = orjson.loads(golden("907-get-broker-ha-status-answer").body)
    assert orjson.loads(stats.encode_replication_status(java["masterCommitLogMaxOffset"])) == java


def test_the_places_of_all_groups_round_trip() -> None:
    queue, place = MessageQueue("t", "a", 0), QueueProgress(5, 2, 3, 9)
    body = stats.encode_broker_consume_stats("a:1", {"g": [stats.TopicProgress({queue: place})], "idle": []})
    assert stats.decode_broker_consume_stats(body) == ({"g": [{queue: place}], "idle": []}, 3)
    assert stats.decode_broker_consume_stats(b"{}") == ({}, 0)
