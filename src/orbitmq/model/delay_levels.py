"""Delay levels: how long the messages wait that ask for one of a broker's steps instead of a time of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orbitmq.errors import InvalidArgument

DELAY_LEVELS_TEXT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""Those that a broker has out of the box."""
DELAY_LEVELS_MAX = 1_000
"""Each level has a queue, and is looked at ten times a second while messages wait."""
DELAY_DAYS_MAX = 36_500

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,15})([smhd])")
_ALLOWED = (
    f"1 to {DELAY_LEVELS_MAX} delays with one blank between them, each a whole number and one of s m h d, "
    f"at most {DELAY_DAYS_MAX}d"
)


@dataclass(frozen=True, slots=True)
class DelayLevels:
    """The delays of levels 1, 2 and so on, in milliseconds."""

    delays_ms: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.delays_ms)

    def nearest(self, level: int) -> int:
        """Return the level that a message waits in: one above the highest means the highest."""
        return min(level, len(self.delays_ms))

    def delay_ms(self, level: int) -> int:
        """Return how long messages of a level wait, which is at least 1."""
        return self.delays_ms[self.nearest(level) - 1]


def parse_delay_levels(text: str) -> DelayLevels:
    """Parse messageDelayLevel, `1s 5s 10s`.

    Raises:
        InvalidArgument: it is no such text. Java's broker does not start with it, or delays by a negative time.

    Source: Java ScheduleMessageService.parseDelayLevel.
    """
    found = [_LEVEL.fullmatch(part) for part in text.split(" ")]
    delays = tuple(int(part[1]) * _UNITS_MS[part[2]] for part in found if part is not None)
    longest_ms = DELAY_DAYS_MAX * _UNITS_MS["d"]
    if not len(delays) == len(found) <= DELAY_LEVELS_MAX or max(delays) > longest_ms:
        raise InvalidArgument("messageDelayLevel", text, _ALLOWED)
    return DelayLevels(delays)


DELAY_LEVELS = parse_delay_levels(DELAY_LEVELS_TEXT)
