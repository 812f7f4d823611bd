"""The pause-aware clock: milliseconds during which this process could read from its brokers. Pure: time comes in.

A broker is silent when nothing came from it while the process listened. A process that was stopped, swapped out or busy
with one long task has not listened: what the brokers said meanwhile waits in the sockets. So leases are measured on
this clock. It follows the machine's monotonic clock (setting the wall clock changes no lease), and it stands
still while the event loop does.
"""

from __future__ import annotations

from collections.abc import Callable

TICK_MS = 250
"""How often the loop shows that it is alive; the most that the clock runs ahead of that."""
LATE_MAX_MS = 1_000
"""A tick that comes later than this after the last one: the process did not listen in between."""


class PauseAwareClock:
    """A clock (see `orbitmq.clock.Clock`) that only runs while `tick` is called.

    Args:
        monotonic_ms: milliseconds since any moment; never goes back.
    """

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._listened_ms = 0
        self._ticked_ms = monotonic_ms()

    def __call__(self) -> int:
        """Return for how many milliseconds this process has listened."""
        return self._listened_ms + min(self._monotonic_ms() - self._ticked_ms, TICK_MS)

    def tick(self) -> int:
        """Count the time since the last tick; return how much of it the process did not listen, in milliseconds."""
        now_ms = self._monotonic_ms()
        elapsed_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        listened_ms = elapsed_ms if elapsed_ms <= LATE_MAX_MS else TICK_MS
        self._listened_ms += listened_ms
        return elapsed_ms - listened_ms
