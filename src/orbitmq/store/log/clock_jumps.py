"""The file `jumps`: where store times of the CommitLog go back by more than a minute, for the broker's clock was set back.

One line per place: the place, the last store time before it, the first one behind it (ms). Between two of these places
store times never go back, so each part of the log can be searched by bisection. Which clock was wrong is not written down:
a message whose store time lies in the future shows it. Such a message counts as stored when the clock was set right.

Source: docs/adr/0023-store-times-that-go-back.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from orbitmq.store.disk import Disk, write_whole

log = logging.getLogger(__name__)

JUMP_MS = 60_000
"""A clock that is set back by up to this much stands still in store times; what is not further ahead is no future."""
_COUNT_MAX = 1000
_DIGITS_MAX = 19


class ClockJump(NamedTuple):
    """A place (bytes of the log) at which store times go back."""

    position: int
    before_ms: int
    after_ms: int


class ClockJumps(Sequence[ClockJump]):
    """The places, in the order of the log, read when it is made."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._jumps = parse_clock_jumps(disk.read(path))

    def __len__(self) -> int:
        return len(self._jumps)

    def __getitem__(self, index: int) -> ClockJump:  # type: ignore[override]  # no slices are needed
        return self._jumps[index]

    def note(self, position: int, before_ms: int, after_ms: int) -> bool:
        """Take note of a place, durably, before a record is appended there.

        Returns:
            False: it is not written down, because the disk does not take it or there are too many; times must not go back.
        """
        if len(self._jumps) >= _COUNT_MAX:
            return False
        try:
            self._write([*self._jumps, ClockJump(position, before_ms, after_ms)])
        except OSError as error:
            log.warning("that the clock was set back cannot be noted, store times stand still: %s", error)
            return False
        log.warning(
            "the clock is %.1f h behind the last message: store times go back at %d of the commitlog",
            (before_ms - after_ms) / 3_600_000,
            position,
        )
        return True

    def fit(self, log_min: int, log_end: int) -> None:
        """Forget places that are not in the log any more. Raises OSError."""
        fitting = [jump for jump in self._jumps if log_min < jump.position <= log_end]
        if fitting != self._jumps:
            self._write(fitting)

    def set_right_ms(self, position: int, now_ms: int) -> int | None:
        """Return when the clock was set right after a future message was stored at a place; None: that is unknown."""
        return next(
            (
                jump.after_ms
                for jump in self._jumps
                if jump.position > position and not is_future(jump.after_ms, now_ms)
            ),
            None,
        )

    def counted_ms(self, position: int, stored_at_ms: int, now_ms: int) -> int:
        """Return when the message at a place counts as stored: now at the latest."""
        if not is_future(stored_at_ms, now_ms):
            return stored_at_ms
        set_right_ms = self.set_right_ms(position, now_ms)
        return now_ms if set_right_ms is None else set_right_ms

    def newest_before_ms(self, position: int, now_ms: int) -> int:
        """Return how late messages before a place may have been stored by the jumps before it; 0 without one."""
        times_ms = (
            self.counted_ms(jump.position - 1, jump.before_ms, now_ms)
            for jump in self._jumps
            if jump.position <= position
        )
        return max(times_ms, default=0)

    def furthest(self, log_min: int, now_ms: int) -> ClockJump | None:
        """Return the place before which messages have the store times that lie furthest in the future; None: none do."""
        ahead = [jump for jump in self._jumps if jump.position > log_min and is_future(jump.before_ms, now_ms)]
        return max(ahead, key=lambda jump: jump.before_ms, default=None)

    def _write(self, jumps: list[ClockJump]) -> None:
        if jumps:
            content = "".join(f"{jump.position} {jump.before_ms} {jump.after_ms}\n" for jump in jumps)
            write_whole(self._disk, self._path, content.encode())
        else:
            self._disk.remove(self._path)
        self._jumps = jumps


def is_future(stored_at_ms: int, now_ms: int) -> bool:
    """Return True if a store time is more than a minute ahead of the clock."""
    return stored_at_ms > now_ms + JUMP_MS


def parse_clock_jumps(content: bytes) -> list[ClockJump]:
    """Return the places, in the order of the log; lines that are damaged are passed over."""
    found = []
    for line in content.decode("latin-1").splitlines():
        words = line.split(" ")
        if len(words) == len(ClockJump._fields) and all(
            word.isascii() and word.isdecimal() and len(word) <= _DIGITS_MAX for word in words
        ):
            found.append(ClockJump(*map(int, words)))
    return sorted(found)
