"""The wall clock, read in this one place: modules that decide get `now_ms` as an argument instead."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns milliseconds since 1970-01-01 UTC."""


def now_ms() -> int:
    """Return milliseconds since 1970-01-01 UTC, as RocketMQ's timestamps count them."""
    return time.time_ns() // 1_000_000
