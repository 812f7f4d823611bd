"""From the queue offsets of a backup to those that its messages got when they were restored. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from orbitmq.errors import InvalidArgument


class Run(NamedTuple):
    """Messages whose offsets follow one another, before as after: `length` of them from `old` on are at `new` and behind."""

    old: int
    new: int
    length: int


class OffsetMap:
    """The offsets of one queue's restored messages.

    Args:
        base: the target queue's end before the first of them.
        runs: what is known already, in the order of the offsets.
        skipped: messages that the target refused and that are left out: offset in the backup to the reason.

    Raises:
        InvalidArgument: runs that overlap, or go back.
    """

    def __init__(self, base: int, runs: Iterable[Run] = (), skipped: Mapping[int, str] = MappingProxyType({})) -> None:
        self.base = base
        self.skipped = dict(skipped)
        self._runs: list[Run] = []
        for run in runs:
            if run.length < 1 or run.old < self.next_old or run.new < self.next_new:
                raise InvalidArgument("runs", tuple(run), f"one from {self.next_old} and {self.next_new} on")
            self._runs.append(Run(*run))

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, in the order of the offsets."""
        return tuple(self._runs)

    @property
    def count(self) -> int:
        """Messages that are restored."""
        return sum(run.length for run in self._runs)

    @property
    def next_old(self) -> int:
        """The offset in the backup from which on no message is restored."""
        return self._runs[-1].old + self._runs[-1].length if self._runs else 0

    @property
    def next_new(self) -> int:
        """The target's offset behind the last restored message."""
        return self._runs[-1].new + self._runs[-1].length if self._runs else self.base

    def add(self, old: int, new: int) -> None:
        """Take note that the message at `old` is at `new` now.

        Raises:
            InvalidArgument: an offset that does not grow.
        """
        if old < self.next_old or new < self.next_new:
            raise InvalidArgument("offset", (old, new), f"one from {self.next_old} and {self.next_new} on")
        last = self._runs[-1] if self._runs else None
        if last is not None and old == self.next_old and new == self.next_new:
            self._runs[-1] = last._replace(length=last.length + 1)
        else:
            self._runs.append(Run(old, new, 1))

    def find(self, committed: int) -> int:
        """Return where a group goes on that had `committed`: at the first restored message that it had not read.

        That is the first message of all where the group was behind the beginning of its queue, and the end where it had
        read every message.
        """
        at = bisect_right(self._runs, committed, key=lambda run: run.old) - 1
        if at >= 0:
            run = self._runs[at]
            if committed < run.old + run.length:
                return run.new + committed - run.old
        return self._runs[at + 1].new if at + 1 < len(self._runs) else self.next_new
