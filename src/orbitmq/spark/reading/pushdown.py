"""Limits that a query's own filters set: fewer queues, shorter ranges, fewer tags. Pure.

Spark evaluates every filter again, so a limit may be wider than its filter, and must never be narrower.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Offsets
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.versions import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

CLOCK_MARGIN_MS = 60_000
"""Brokers find a time by halving a queue; where a clock was set back meanwhile, messages lie a little before or behind it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ColumnLimits:
    """What a column's values are limited to: some of them, and numbers from `low` up to, not including, `high`.

    Times are microseconds since 1970.
    """

    values: frozenset[Any] | None = None
    low: int | None = None
    high: int | None = None

    def admits(self, value: Any) -> bool:
        """Say whether a row with this value may be wanted."""
        return (
            (self.values is None or value in self.values)
            and (self.low is None or value >= self.low)
            and (self.high is None or value < self.high)
        )

    def both(self, other: ColumnLimits) -> ColumnLimits:
        """Return the limits that two filters make together."""
        named = [values for values in (self.values, other.values) if values is not None]
        values = frozenset.intersection(*named) if named else None
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return ColumnLimits(values, max(lows, default=None), min(highs, default=None))

    @property
    def range(self) -> tuple[int | None, int | None]:
        """Where the numbers begin that are admitted, and where they end; None where nothing limits them."""
        if self.values is None:
            return self.low, self.high
        if not self.values:
            return 0, 0
        low, high = min(self.values), max(self.values) + 1
        return (low if self.low is None else max(low, self.low)), (high if self.high is None else min(high, self.high))


ANYTHING = ColumnLimits()


@dataclass(frozen=True)
class Narrowing:
    """The limits of a query, by column."""

    columns: Mapping[str, ColumnLimits] = field(default_factory=dict)

    def of(self, column: str) -> ColumnLimits:
        """Return the limits of a column."""
        return self.columns.get(column, ANYTHING)

    @property
    def stored_ms(self) -> tuple[int | None, int | None]:
        """The store times, in ms, that wanted messages have: from the first on, before the second."""
        low, high = self.of("storeTimestamp").range
        return (None if low is None else low // 1000), (None if high is None else -(-high // 1000))


def narrow(filters: Iterable[Filter]) -> Narrowing:
    """Return the limits that filters make together; those that say nothing of one column are passed over."""
    columns: dict[str, ColumnLimits] = {}
    for condition in filters:
        attribute: tuple[str, ...] = getattr(condition, "attribute", ())
        limits = _limits(condition)
        if len(attribute) == 1 and limits is not None:
            columns[attribute[0]] = columns.get(attribute[0], ANYTHING).both(limits)
    return Narrowing(columns)


def wants_queue(narrowing: Narrowing, queue: MessageQueue) -> bool:
    """Say whether a queue may have messages that are wanted."""
    named = (("topic", queue.topic), ("brokerName", queue.broker_name), ("queueId", queue.queue_id))
    return all(narrowing.of(column).admits(value) for column, value in named)


def narrow_ranges(
    ranges: Iterable[Range], wanted: Container[MessageQueue], narrowing: Narrowing, first: Offsets, last: Offsets
) -> list[Range]:
    """Return what is left of ranges.

    Args:
        wanted: the queues to read.
        first: where the store times that are wanted begin in each queue, if anything limits them.
        last: where they end.
    """
    if narrowing.of("tags").values == frozenset():
        return []
    low, high = narrowing.of("queueOffset").range
    found = []
    for queue, begin, end in ((one.queue, one.begin, one.end) for one in ranges if one.queue in wanted):
        begin = max(begin, first.get(queue, begin), begin if low is None else low)
        end = min(end, last.get(queue, end), end if high is None else high)
        found.append(Range(queue, begin, end))
    return [one for one in found if one.count]


def _limits(condition: Filter) -> ColumnLimits | None:
    match condition:
        case In():
            found = [_plain(value) for value in condition.value if value is not None]
            return None if None in found else ColumnLimits(frozenset(found))
        case EqualTo() | EqualNullSafe():
            value = _plain(condition.value)
            return None if value is None else ColumnLimits(frozenset((value,)))
        case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            value = _plain(condition.value)
            if not isinstance(value, int):
                return None
            match condition:
                case GreaterThan():
                    return ColumnLimits(low=value + 1)
                case GreaterThanOrEqual():
                    return ColumnLimits(low=value)
                case LessThan():
                    return ColumnLimits(high=value)
            return ColumnLimits(high=value + 1)
    return None


def _plain(value: Any) -> int | str | None:
    """Return a value as it is compared here; None for what is not."""
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(microseconds=1)
    return value if type(value) in (int, str) else None
