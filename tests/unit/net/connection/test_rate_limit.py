"""Claims about a rate limit: how long a peer pauses after how many requests."""

from __future__ import annotations

import pytest

from orbitmq.net.connection.rate_limit import RateLimit


def test_a_rate_allows_a_burst_of_a_second_and_then_its_rate():
    limit = RateLimit(10)
    assert limit.spend(10, now=100.0) == 0
    assert limit.spend(5, now=100.0) == pytest.approx(0.5)
    assert limit.spend(0, now=100.5) == 0
    assert limit.spend(1, now=100.5) == pytest.approx(0.1)
    assert limit.spend(10, now=200.0) == 0


def test_the_burst_is_there_from_the_clocks_first_second_on():
    assert RateLimit(10).spend(10, now=0.0) == 0
