"""Bounds and turns that the families of a broker's metrics have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

from orbitmq.errors import StoreError
from orbitmq.monitoring.families import Series

WORK_PER_PART = 500
"""Queues, or clients, that are looked at in one turn of the loop: less than a millisecond's worth."""
_SYSTEM_GROUPS = "cid_rmq_sys_"

K = TypeVar("K")
V = TypeVar("V")


class SeriesWork:
    """What was looked at since the last part."""

    def __init__(self) -> None:
        self._count = 0

    def is_a_part_done(self, count: int) -> bool:
        """Add what was looked at; True when others should have their turn."""
        self._count += count
        if self._count < WORK_PER_PART:
            return False
        self._count = 0
        return True


def first_of(table: Mapping[K, V], count_max: int) -> Iterable[tuple[K, V]]:
    """Return a table's first entries, as many as may be shown; others may change it meanwhile."""
    return tuple(islice(table.items(), count_max))


def by_topic(table: Mapping[str, float], count_max: int) -> Series:
    """Yield what is counted of each topic."""
    work = SeriesWork()
    for topic, count in first_of(table, count_max):
        yield (topic,), count
        if work.is_a_part_done(1):
            yield None


def look(ask: Callable[[], int]) -> int:
    """Return a time that stands in the log; 0 where its file cannot be read: a damaged store has metrics all the same."""
    try:
        return ask()
    except (StoreError, OSError):
        return 0


def is_system_group(group: str) -> bool:
    """Say whether a group is the broker's own."""
    return group.lower().startswith(_SYSTEM_GROUPS)


def truth(value: bool) -> str:
    """Return a label's text."""
    return "true" if value else "false"
