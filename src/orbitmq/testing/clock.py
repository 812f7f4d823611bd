"""A clock that moves when a test says so."""

from __future__ import annotations

START_MS = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC: a time that no test can mistake for now."""


class FakeClock:
    """Stands where `orbitmq.clock.now_ms` would: call it for the time.

    >>> clock = FakeClock(1_000)
    >>> clock.advance(500)
    1500
    >>> clock()
    1500
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now_ms = start_ms

    def __call__(self) -> int:
        """Return the time, in milliseconds since 1970."""
        return self._now_ms

    def advance(self, duration_ms: int) -> int:
        """Move on and return the new time."""
        if duration_ms < 0:
            raise ValueError(f"time does not run backwards: {duration_ms} ms")
        self._now_ms += duration_ms
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Set the clock, as an administrator would: back as well."""
        self._now_ms = now_ms
