"""The wall clock."""

from __future__ import annotations

import time

from orbitmq.clock import now_ms


def test_the_clock_counts_milliseconds_since_1970() -> None:
    before = int(time.time() * 1000)
    assert before <= now_ms() <= int(time.time() * 1000)
