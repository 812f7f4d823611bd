"""Samples of a group's lag as lines of JSON, and what all of them say together: by queue, and in total. Pure.

What is unknown is null in a line, never 0.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import orjson

from orbitmq.errors import JobFailed
from orbitmq.model.group import unread_count
from orbitmq.model.route import MessageQueue


class GroupPosition(NamedTuple):
    """How far a group is in a queue at some moment; None: unknown.

    Args:
        committed: None also where the group has not committed any offset.
        begin: the queue's first offset.
    """

    committed: int | None
    end: int | None
    begin: int = 0

    @property
    def lag(self) -> int | None:
        """Messages that are still to come; unknown where one of the two is."""
        if self.committed is None or self.end is None:
            return None
        return unread_count(self.committed, self.begin, self.end)


LINE_START = b'{"at_ms":'
_YEAR_9999_MS = 253_370_764_800_000
UNKNOWN = GroupPosition(None, None)


class LagSample(NamedTuple):
    """Where a group is in its queues at one moment.

    Args:
        issue: why something is not known of this moment.
    """

    at_ms: int
    positions: Mapping[MessageQueue, GroupPosition]
    issue: str | None


class QueueValue(NamedTuple):
    """One queue at one moment, as a line says it."""

    at_ms: int
    broker: str
    queue: int
    committed: int | None
    end: int | None
    lag: int | None


class QueueSummary(NamedTuple):
    """The lag of one queue over all samples; None: it was unknown."""

    queue: str
    moments: int
    unknown: int
    median: float | None
    most: int | None
    last: int | None


class Point(NamedTuple):
    """The lag of all queues together at a moment; None: unknown."""

    at_ms: int
    lag: int | None


def encode_sample(sample: LagSample) -> bytes:
    """Return the line of one moment."""
    queues = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "committed": position.committed,
            "end": position.end,
            "lag": position.lag,
        }
        for queue, position in sorted(sample.positions.items())
    ]
    return orjson.dumps({"at_ms": sample.at_ms, "queues": queues, "trouble": sample.issue}) + b"\n"


def decode_samples(lines: Iterable[bytes], name: str) -> Iterator[list[QueueValue]]:
    """Yield what each line says of each queue.

    Args:
        name: of their file, for errors.

    Raises:
        JobFailed: a line is none of ours.
    """
    for number, line in enumerate(lines, 1):
        try:
            sample = orjson.loads(line)
            values = [_checked(QueueValue(sample["at_ms"], **queue)) for queue in sample["queues"]]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise JobFailed(f"line {number} of {name} is not a sample: remove it, or take a new directory") from None
        yield values


def total_lags(samples: Iterable[Sequence[QueueValue]]) -> list[Point]:
    """Return the lag of all queues together at each moment, in the order of time."""
    points = (Point(sample[0].at_ms, _total([value.lag for value in sample])) for sample in samples if sample)
    return sorted(points, key=lambda point: point.at_ms)


def summarise_queues(samples: Iterable[Sequence[QueueValue]]) -> list[QueueSummary]:
    """Return the lag of each queue over all moments."""
    known: dict[tuple[str, int], array[int]] = defaultdict(lambda: array("q"))
    moments: Counter[tuple[str, int]] = Counter()
    last: dict[tuple[str, int], int | None] = {}
    for sample in samples:
        for value in sample:
            queue = value.broker, value.queue
            moments[queue] += 1
            last[queue] = value.lag
            if value.lag is not None:
                known[queue].append(value.lag)
    return [
        QueueSummary(
            f"{queue[0]} {queue[1]}",
            count,
            count - len(known[queue]),
            median(known[queue]) if known[queue] else None,
            max(known[queue], default=None),
            last[queue],
        )
        for queue, count in sorted(moments.items())
    ]


def _checked(value: QueueValue) -> QueueValue:
    """Return a value whose fields have their types, and whose time can be drawn.

    Raises:
        TypeError: another one.
    """
    numbers = [number for number in (value.committed, value.end, value.lag) if number is not None]
    are_ints = all(isinstance(number, int) and abs(number) < 2**63 for number in (value.at_ms, value.queue, *numbers))
    if not (are_ints and isinstance(value.broker, str) and 0 <= value.at_ms < _YEAR_9999_MS):
        raise TypeError
    return value


def _total(lags: Sequence[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None
