"""Claims about counts by topic, and what they were in the last minute, hour and day."""

from __future__ import annotations

import tracemalloc
from random import Random

from cases import each_case
from orbitmq.broker.monitoring.flows import StatsItems
from orbitmq.wire.bodies.stats import BrokerStatsItem

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def test_what_was_never_counted_has_no_figures() -> None:
    flows: StatsItems[str] = StatsItems(10)
    assert flows.counts("t") is None
    assert (flows.rate("t"), flows.total("t")) == (0.0, 0)


def test_what_has_just_come_is_seen_when_a_step_of_ten_seconds_ends() -> None:
    flows: StatsItems[str] = StatsItems(10)
    flows.add("t", 30, 600, times=3)
    assert flows.counts("t") == (BrokerStatsItem(), BrokerStatsItem(), BrokerStatsItem())
    flows.sample(9_999)
    assert flows.rate("t") == 0.0
    flows.sample(10_000)
    counts, sizes = flows.counts("t"), flows.sizes("t")
    assert counts is not None
    assert sizes is not None
    assert counts.minute == BrokerStatsItem(30, 3.0, 10.0)
    assert sizes.minute == BrokerStatsItem(600, 60.0, 200.0)
    assert counts.hour == counts.day == BrokerStatsItem()


def test_windows_forget_what_is_older_than_they_are() -> None:
    flows: StatsItems[str] = StatsItems(10)
    flows.add("t", 5, 0)
    sums = {}
    for now_ms in range(0, 2 * DAY, 10_000):
        flows.sample(now_ms)
        stats_of = flows.counts("t")
        assert stats_of is not None
        sums[now_ms] = tuple(window.sum for window in stats_of)
    assert (sums[10_000], sums[MINUTE], sums[MINUTE + 10_000]) == ((5, 0, 0), (5, 0, 0), (0, 0, 0))
    assert (sums[10 * MINUTE], sums[HOUR]) == ((0, 5, 0), (0, 5, 5))
    assert (sums[HOUR + 10 * MINUTE], sums[DAY]) == ((0, 0, 5), (0, 0, 5))
    assert sums[DAY + HOUR] == (0, 0, 0)


@each_case(*range(20))
def test_every_window_tells_what_came_in_it(seed: int) -> None:
    random = Random(seed)
    flows: StatsItems[str] = StatsItems(10)
    came: list[tuple[int, int]] = []
    for second in range(1, 9_000):
        if random.random() < 0.01:
            count = random.randrange(1, 50)
            flows.add("t", count, 0)
            came.append((second, count))
        flows.sample(second * 1000)
    if not came:
        return
    stats_of = flows.counts("t")
    assert stats_of is not None
    for window, step, steps in ((stats_of.minute, 10, 6), (stats_of.hour, 600, 6)):
        end = 8_999 // step * step
        assert window.sum == sum(count for second, count in came if end - step * steps < second <= end), seed


def test_no_more_are_kept_than_may_be_and_those_of_what_is_deleted_go() -> None:
    flows: StatsItems[tuple[str, str]] = StatsItems(2)
    for key in (("t", "g"), ("u", "g"), ("v", "g")):
        flows.add(key, 1, 1)
    assert len(flows) == 2
    flows.forget(lambda key: key[0] == "t")
    assert [flows.total(key) for key in (("t", "g"), ("u", "g"))] == [0, 1]
    flows.sample(10_000)


def test_a_step_is_taken_note_of_once() -> None:
    flows: StatsItems[str] = StatsItems(10)
    flows.add("t", 1, 0)
    flows.sample(10_000)
    flows.add("t", 1, 0)
    flows.sample(10_500)
    stats_of = flows.counts("t")
    assert stats_of is not None
    assert stats_of.minute.sum == 1


def test_a_flow_takes_a_kilobyte_until_it_has_a_past() -> None:
    """There may be fifty thousand of each kind."""
    flows: StatsItems[str] = StatsItems(1_000)
    names = [f"t{number}" for number in range(1_000)]
    tracemalloc.start()
    try:
        for name in names:
            flows.add(name, 1, 1_000)
        flows.sample(10_000)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 1_500 * len(names)
