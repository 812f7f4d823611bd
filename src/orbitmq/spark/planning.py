"""Offsets to partitions: what a batch reads, how it is split, how much a trigger may take. Pure.

Offsets travel as JSON, from users and in Spark's checkpoints, as `{"topic": {"broker": {"queue id": offset}}}`: the
old connector's form. Keys are strings because JSON's are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise
from typing import Any, NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue

Offsets = Mapping[MessageQueue, int]
OffsetsJson = dict[str, dict[str, dict[str, int]]]

EARLIEST = -2
LATEST = -1
"""What stands for an offset that is not known yet, as in Kafka's connector."""


@dataclass(frozen=True, slots=True)
class Range:
    """The messages of one queue from `begin` up to, not including, `end`."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def count(self) -> int:
        """How many messages, if none is filtered out."""
        return max(0, self.end - self.begin)


class Position(NamedTuple):
    """How far a stream has come, as its checkpoint keeps it.

    `begins` says for some queues where the micro-batch that ends here began; it overrules the position before. The first
    batch of a stream lists all its queues there: a restart before that batch is committed asks for the initial offset
    again, and "latest" would have moved on by then. Later batches list queues that were new to them.
    """

    offsets: Offsets
    begins: Offsets = {}

    @property
    def is_initial(self) -> bool:
        """True for the position before the first batch."""
        return self.offsets == self.begins


def format_offsets(offsets: Offsets) -> OffsetsJson:
    """Return offsets as JSON values, sorted: Spark compares positions as text."""
    document: OffsetsJson = {}
    for (topic, broker_name, queue_id), offset in sorted(offsets.items()):
        document.setdefault(topic, {}).setdefault(broker_name, {})[str(queue_id)] = offset
    return document


def parse_offsets(document: Any, least: int = EARLIEST) -> dict[MessageQueue, int]:
    """Return the offsets that JSON values spell.

    Raises:
        InvalidArgument: another shape, a queue id that is no number, or an offset below `least`.
    """
    offsets: dict[MessageQueue, int] = {}
    for topic, brokers in _items("offsets", document):
        for broker_name, queues in _items(f"offsets of topic {topic}", brokers):
            for queue_id, offset in _items(f"offsets of broker {broker_name}", queues):
                if not queue_id.isdecimal():
                    raise InvalidArgument("queue id", queue_id, "a whole number as a string")
                if type(offset) is not int or offset < least:
                    raise InvalidArgument(f"offset of queue {queue_id}", offset, f"a whole number from {least} on")
                offsets[MessageQueue(topic, broker_name, int(queue_id))] = offset
    return offsets


def format_position(position: Position) -> dict[str, OffsetsJson]:
    """Return a position as the JSON object that Spark keeps in its checkpoint."""
    document = {"queues": format_offsets(position.offsets)}
    if position.begins or position.is_initial:
        document["begins"] = format_offsets(position.begins)
    return document


def parse_position(document: Any) -> Position:
    """Return the position that a checkpoint's JSON object spells.

    Raises:
        InvalidArgument: the object was not written by this connector.
    """
    fields = dict(_items("checkpointed position", document))
    if "queues" not in fields or not fields.keys() <= {"queues", "begins"}:
        raise InvalidArgument("checkpointed position", document, "an object with queues and begins")
    return Position(parse_offsets(fields["queues"], 0), parse_offsets(fields.get("begins", {}), 0))


def advance(start: Position, latest: Offsets, first: Offsets, count_max: int | None = None) -> Position:
    """Return the position at which the next micro-batch ends.

    Args:
        start: where it begins.
        latest: the end of every queue that could be asked; queues that could not stay where they are.
        first: where queues begin that `start` does not know, or that have lost what was before `start`.
        count_max: messages that the batch may take; None for all.

    Returns:
        `start` itself when there is nothing to read.
    """
    begins = dict(start.offsets)
    fresh = {queue: begin for queue, begin in first.items() if queue in latest}
    begins.update(fresh)
    ends = {queue: max(end, begins.get(queue, 0)) for queue, end in latest.items()}
    if count_max is not None:
        ends = limit(begins, ends, count_max)
    offsets = begins | ends
    if offsets == start.offsets:
        return start
    return Position(offsets, begins if start.is_initial else fresh)


def limit(begins: Offsets, ends: Offsets, count_max: int) -> dict[MessageQueue, int]:
    """Cut `ends` so that at most `count_max` messages lie between: each queue's share follows its backlog.

    No queue with a backlog is left out while there is one message for each, so that none starves behind the long ones.
    """
    backlog = {queue: end - begins.get(queue, 0) for queue, end in ends.items() if end > begins.get(queue, 0)}
    if sum(backlog.values()) <= count_max:
        return dict(ends)
    each = 1 if len(backlog) <= count_max else 0
    rest = {queue: count - each for queue, count in backlog.items()}
    shares = _apportion(rest, count_max - each * len(backlog))
    return {
        queue: begins.get(queue, 0) + each + shares[queue] if queue in shares else end for queue, end in ends.items()
    }


def ranges_between(start: Position, end: Position) -> list[Range]:
    """Return what a micro-batch reads, queue by queue; empty ranges are left out.

    Raises:
        InvalidArgument: a queue of `end` has no beginning.
    """
    begins = {**start.offsets, **end.begins}
    unknown = sorted(queue for queue in end.offsets if queue not in begins)
    if unknown:
        raise InvalidArgument("checkpointed position", unknown, "a beginning for every queue")
    ranges = (Range(queue, begins[queue], offset) for queue, offset in sorted(end.offsets.items()))
    return [found for found in ranges if found.count]


def split(ranges: Sequence[Range], partition_count_min: int | None) -> list[Range]:
    """Split the longest ranges until there are at least `partition_count_min`, if there are as many messages."""
    missing = min(partition_count_min or 0, sum(found.count for found in ranges)) - len(ranges)
    if missing <= 0:
        return list(ranges)
    # Largest part first; a heap of (-part size, place, parts).
    parts = [(-found.count, place, 1) for place, found in enumerate(ranges)]
    heapify(parts)
    for _ in range(missing):
        _, place, count = parts[0]
        heapreplace(parts, (-ranges[place].count // (count + 1), place, count + 1))
    counts = {place: count for _, place, count in parts}
    return [part for place, found in enumerate(ranges) for part in _even_parts(found, counts[place])]


def resolve_marks(offsets: Offsets, earliest: Offsets, latest: Offsets, option: str) -> dict[MessageQueue, int]:
    """Replace the marks for earliest and latest by offsets, and check that every queue is named.

    Raises:
        InvalidArgument: names the queues that are missing, or that do not exist.
    """
    missing, unknown = sorted(latest.keys() - offsets.keys()), sorted(offsets.keys() - latest.keys())
    if missing or unknown:
        reason = f"missing {_names(missing)}" if missing else f"not among the topic's queues: {_names(unknown)}"
        raise InvalidArgument(option, format_offsets(offsets), f"an offset for each queue that exists ({reason})")
    marks = {EARLIEST: earliest, LATEST: latest}
    return {queue: marks[offset][queue] if offset in marks else offset for queue, offset in offsets.items()}


def _apportion(weights: Mapping[MessageQueue, int], total: int) -> dict[MessageQueue, int]:
    """Return whole shares of `total` in proportion to `weights`; what rounding leaves goes to the largest rests."""
    whole = sum(weights.values())
    shares = {queue: total * weight // whole for queue, weight in weights.items()}
    left = total - sum(shares.values())
    by_rest = sorted(weights, key=lambda queue: (-(total * weights[queue] % whole), queue))
    for queue in by_rest[:left]:
        shares[queue] += 1
    return shares


def _even_parts(found: Range, count: int) -> Iterable[Range]:
    cuts = [found.begin + found.count * part // count for part in range(count + 1)]
    return (Range(found.queue, begin, end) for begin, end in pairwise(cuts))


def _items(what: str, document: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise InvalidArgument(what, document, "a JSON object")
    return document.items()


def _names(queues: Iterable[MessageQueue]) -> str:
    return ", ".join(f"{topic}/{broker_name}/{queue_id}" for topic, broker_name, queue_id in queues)
