"""Counters of the broker's work, and the progress of groups."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.progress import group_progress
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.model.route import MessageQueue
from orbitmq.store import Draft
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.topics import QueueProgress

from ..parts import memory_store

DAY_MS = 86_400_000


@pytest.fixture
def stats() -> BrokerStats:
    return BrokerStats(now_ms=0)


def test_rates_look_back_ten_seconds_a_minute_and_ten_minutes(stats: BrokerStats) -> None:
    for second in range(1, 1201):
        stats.put_count += 100 if second > 1190 else 10
        stats.sample(second * 1000)
    assert stats.rates("put_count", 1_200_000) == pytest.approx((100.0, 25.0, 11.5))


def test_a_broker_that_just_started_has_no_rate() -> None:
    stats = BrokerStats(now_ms=5)
    stats.put_count = 3
    assert stats.rates("put_count", 5) == (0.0, 0.0, 0.0)


def test_the_morning_begins_with_the_day() -> None:
    stats = BrokerStats(now_ms=DAY_MS - 1)
    stats.put_count = 5
    stats.sample(DAY_MS)
    stats.put_count = 7
    assert (stats.yesterday_morning.put_count, stats.this_morning.put_count) == (0, 5)
    stats.sample(2 * DAY_MS)
    assert (stats.yesterday_morning.put_count, stats.this_morning.put_count) == (5, 7)


def test_a_rate_of_ten_minutes_looks_back_no_further_and_no_less(stats: BrokerStats) -> None:
    for second in range(1, 1_000):
        stats.put_count = second**2
        stats.sample(second * 1_000)
    assert stats.rates("put_count", 999_000)[2] == (999**2 - 399**2) / 600


def test_flows_are_found_under_javas_names(stats: BrokerStats) -> None:
    stats.put("t", 3, 300, times=2)
    stats.got("t", "g", 2, 200)
    stats.send_backs.add(("t", "g"), 1, 0)
    stats.acknowledged("t", "g", 4)
    stats.checkpointed("t", "g")
    stats.sample_flows(10_000)
    sums = {}
    for name, key in (
        ("TOPIC_PUT_NUMS", "t"),
        ("TOPIC_PUT_SIZE", "t"),
        ("GROUP_GET_NUMS", "t@g"),
        ("GROUP_GET_SIZE", "t@g"),
        ("SNDBCK_PUT_NUMS", "t@g"),
        ("GROUP_ACK_NUMS", "t@g"),
        ("GROUP_CK_NUMS", "t@g"),
        ("BROKER_ACK_NUMS", "c"),
        ("BROKER_CK_NUMS", "c"),
        ("BROKER_PUT_NUMS", "c"),
        ("BROKER_GET_NUMS", "c"),
    ):
        stats_of = stats.stats_of(name, key, "c")
        assert stats_of is not None
        sums[name] = stats_of.minute.sum
    assert list(sums.values()) == [3, 300, 2, 200, 1, 4, 1, 4, 1, 3, 2]
    assert (stats.put_count, stats.put_size, stats.get_count, stats.get_size) == (3, 300, 2, 200)


@each_case(("TOPIC_PUT_NUMS", "u"), ("GROUP_GET_NUMS", "t"), ("BROKER_PUT_NUMS", "t"), ("TOPIC_PUT", "t"))
def test_other_names_and_keys_have_no_figures(name: str, key: str, stats: BrokerStats) -> None:
    stats.put("t", 1, 1)
    stats.got("t", "g", 1, 1)
    stats.sample_flows(10_000)
    assert stats.stats_of(name, key, "c") is None


def test_what_is_deleted_is_not_counted_any_more(stats: BrokerStats) -> None:
    for topic in ("t", "u"):
        stats.put(topic, 1, 1)
        for group in ("g", "h"):
            stats.got(topic, group, 1, 1)
    stats.forget_topic("t")
    stats.forget_group("g")
    assert [stats.puts.total(topic) for topic in ("t", "u")] == [0, 1]
    assert [stats.gets.total((topic, group)) for topic in ("t", "u") for group in ("g", "h")] == [0, 0, 0, 1]


def test_sizes_are_counted_by_their_bits(stats: BrokerStats) -> None:
    stats.put("t", 1, 1_024)
    stats.put("t", 1, 1_025)
    stats.put("t", 3, 300)
    assert {bits: count for bits, count in enumerate(stats.put_bits) if count} == {7: 3, 10: 1, 11: 1}


def test_the_places_of_readers_are_bounded_and_forgotten() -> None:
    stats = BrokerStats(now_ms=0, flows_max=1)
    for queue_id in range(6):
        stats.pulled_to("t", "g", queue_id, 5)
    stats.pulled_to("t", "g", 0, 9)
    assert stats.pulled == {("t", "g", 0): 9, ("t", "g", 1): 5, ("t", "g", 2): 5, ("t", "g", 3): 5}
    stats.forget_group("g")
    stats.pulled_to("u", "h", 0, 1)
    stats.forget_topic("u")
    assert stats.pulled == {}


def test_the_brokers_own_topics_are_left_out_of_two_figures() -> None:
    stats = BrokerStats(now_ms=0, system_topics=["own", "silent"])
    for topic, count in (("own", 5), ("t", 2)):
        stats.put(topic, count, count)
        stats.got(topic, "g", count + 1, count)
    stats.sample_flows(20_000)
    expected = {
        "BROKER_PUT_NUMS": 7,
        "BROKER_GET_NUMS": 9,
        "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": 2,
        "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": 3,
    }
    found = {name: stats.stats_of(name, "c", "c") for name in expected}
    assert {name: stats_of and stats_of.minute.sum for name, stats_of in found.items()} == expected


def test_a_group_stands_in_every_queue_also_where_it_has_no_offset() -> None:
    clock = FakeClock()
    store = memory_store(clock=clock)
    for _ in range(3):
        clock.advance(1)
        store.append(Draft("t", 0, b"x"))
    offsets = GroupOffsets()
    offsets.commit("g", "t", 0, 2, offset_max=3)
    stored_at_ms = store.message_at("t", 0, 1).stored_at_ms
    assert group_progress(store, offsets, {}, "a", "g", "t", 2) == {
        MessageQueue("t", "a", 0): QueueProgress(3, 2, 2, stored_at_ms),
        MessageQueue("t", "a", 1): QueueProgress(0, 0, 0, 0),
    }
    for pulled, read in ((3, 3), (1, 2)):  # who was set back has consumed all the same
        places = group_progress(store, offsets, {("t", "g", 0): pulled, ("t", "other", 0): 1}, "a", "g", "t", 1)
        assert places[MessageQueue("t", "a", 0)].pull_offset == read
