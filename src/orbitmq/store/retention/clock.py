"""The ages of messages, whatever happens to the wall clock. Pure: all times come in.

A message's store time is the wall clock's, and that clock may be set: by hand, by NTP, by a machine that was suspended. A
clock that is days ahead would make every message an old one. So only time counts that has passed by the monotonic clock
since the start; before the start, the time up to the newest message that it found.

Source: docs/explain/durability.md, "What is deleted".
"""

from __future__ import annotations

from typing import NamedTuple

_JUMP_MS = 60_000
"""The wall clock may move so far from the monotonic one, by being slewed, before that counts as a jump."""


class _Jump(NamedTuple):
    since_ms: int
    """Messages whose store time is not later have not lived through the time that was skipped."""
    skipped_ms: int


class RetentionClock:
    """The ages of one run's messages. The clocks are read first.

    Args:
        wall_ms: the wall clock at the start.
        monotonic_ms: the monotonic clock then.
    """

    def __init__(self, wall_ms: int, monotonic_ms: int) -> None:
        self._wall_ms = wall_ms
        self._ahead_ms = wall_ms - monotonic_ms
        self._jumps: list[_Jump] = []

    def found(self, newest_ms: int) -> int:
        """Take note of the newest message that the start found; return how long before the start it was stored.

        That time does not count: the broker was not there to see it pass, and the clock may have been set meanwhile.

        Args:
            newest_ms: its store time, 0 without a message.
        """
        skipped_ms = self._wall_ms - newest_ms if 0 < newest_ms < self._wall_ms else 0
        if skipped_ms:
            self._jumps.insert(0, _Jump(newest_ms, skipped_ms))
        return skipped_ms

    def look(self, wall_ms: int, monotonic_ms: int) -> int:
        """Look at both clocks; return how far the wall clock was set ahead since the last look, negative: back."""
        ahead_ms = wall_ms - monotonic_ms
        jumped_ms = ahead_ms - self._ahead_ms
        self._wall_ms = wall_ms
        if abs(jumped_ms) < _JUMP_MS:
            return 0
        self._ahead_ms = ahead_ms
        if jumped_ms > 0:
            self._jumps.append(_Jump(wall_ms - jumped_ms, jumped_ms))
        else:
            self._take_back(-jumped_ms)
        return jumped_ms

    def age_ms(self, stored_at_ms: int) -> int:
        """Return for how long a message has been kept at the last look, by the time that it counts as stored."""
        skipped_ms = sum(jump.skipped_ms for jump in self._jumps if stored_at_ms <= jump.since_ms)
        return self._wall_ms - stored_at_ms - skipped_ms

    def stored_before_ms(self, age_ms: int) -> int:
        """Return the store time before which messages are older than `age_ms`: the inverse of `age_ms()`."""
        time_ms = self._wall_ms - age_ms
        for jump in reversed(self._jumps):
            # What was stored while the clock was skipping stays older than what was stored before.
            if time_ms <= jump.since_ms + jump.skipped_ms:
                time_ms -= jump.skipped_ms
        return time_ms

    def _take_back(self, back_ms: int) -> None:
        """Let a clock that is set right again undo the newest jumps."""
        while back_ms and self._jumps:
            since_ms, skipped_ms = self._jumps.pop()
            undone_ms = min(back_ms, skipped_ms)
            back_ms -= undone_ms
            if undone_ms < skipped_ms:
                self._jumps.append(_Jump(since_ms, skipped_ms - undone_ms))
