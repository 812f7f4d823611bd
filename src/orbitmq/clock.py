"""The wall clock and the monotonic one, read in this one place: modules that decide get `now_ms` as an argument."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns milliseconds: since 1970-01-01 UTC, or of a monotonic clock since any moment."""


def now_ms() -> int:
    """Return milliseconds since 1970-01-01 UTC, as RocketMQ's timestamps count them."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return milliseconds since any moment; no administrator sets this clock, and it never goes back."""
    return time.monotonic_ns() // 1_000_000
