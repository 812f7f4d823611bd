from __future__ import annotations

import pytest

from orbitmq.broker.monitoring.stats import BrokerStats

DAY_MS = 86_400_000


def test_rates_look_back_ten_seconds_a_minute_and_ten_minutes() -> None:
    stats = BrokerStats(now_ms=0)
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


def test_a_rate_of_ten_minutes_looks_back_no_further_and_no_less() -> None:
    stats = BrokerStats(now_ms=0)
    for second in range(1, 1_000):
        stats.put_count = second**2
        stats.sample(second * 1_000)
    assert stats.rates("put_count", 999_000)[2] == (999**2 - 399**2) / 600
