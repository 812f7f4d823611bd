"""The judgement of a consume queue by its entries: can it be what the log says? Pure.

Entries follow the log's order, and lead to records of their queue. Not all of them are looked at: all queues together
share what a start may spend on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from orbitmq.store.queues.consume_queue import Entry

_ENTRIES_MAX, _ENTRIES_MIN = 4_096, 64
_SAMPLES_MAX, _SAMPLES_MIN = 128, 1


class Shares(NamedTuple):
    """How much of each queue is looked at."""

    entries: int
    """Its first and its last entries, without their records."""
    samples: int
    """Entries whose records are looked at, the first among them."""

    @classmethod
    def of(cls, queue_count: int) -> Shares:
        """Divide what a start may spend among the queues."""
        count = max(queue_count, 1)
        return cls(max(_ENTRIES_MAX // count, _ENTRIES_MIN), max(_SAMPLES_MAX // count, _SAMPLES_MIN))


def is_rising(entries: Iterable[Entry]) -> bool:
    """Return True if entries follow the log's order, none of them empty. Where messages are missing, some are equal."""
    before = 0
    for physical_offset, size, _tag_code in entries:
        if physical_offset < before or size <= 0:
            return False
        before = physical_offset
    return True


def has_hole(entries: Iterable[Entry], start: int) -> bool:
    """Return True if entries behind a queue's end lead to records before `start`: what lay between is gone.

    Entries of later records may be torn, or lie behind ones that never reached the disk: those are written again.
    """
    return any(size > 0 and physical_offset < start for physical_offset, size, _tag_code in entries)
