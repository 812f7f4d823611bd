"""Claims that a job makes of its own work at the end, and whether they hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class CheckResult(NamedTuple):
    """A claim, and whether it holds."""

    holds: bool
    claim: str


class QueueCount(NamedTuple):
    """The messages of one queue that a job has: how many, how many of them are different, and which offsets they span."""

    rows: int
    distinct: int
    first: int
    last: int

    @property
    def is_contiguous(self) -> bool:
        """Whether no message between the first and the last is missing, and none is there twice."""
        return self.last - self.first + 1 == self.rows == self.distinct


def check_queues(queues: Iterable[QueueCount]) -> list[CheckResult]:
    """Return whether the messages of all queues are there once each."""
    queues = list(queues)
    rows, distinct = sum(queue.rows for queue in queues), sum(queue.distinct for queue in queues)
    return [
        CheckResult(rows == distinct, f"rows = different messages: {rows:,} = {distinct:,}"),
        CheckResult(
            all(queue.is_contiguous for queue in queues), f"offsets are contiguous in each of {len(queues)} queues"
        ),
    ]
