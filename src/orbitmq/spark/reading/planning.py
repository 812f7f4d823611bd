"""Ranges of queues to read: what a batch takes, how much a trigger may take, how it is split into tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Offsets, queue_names
from orbitmq.spark.reading.checkpoint import Origins, StreamPosition

TASK_COUNT = 64
"""More parts than that share tasks: where thousands of queues have a few messages each, tasks cost more than messages."""
PART_WEIGHT = 1000
"""A part counts for so many messages more, for the connection and the pulls that it needs."""


@dataclass(frozen=True, slots=True)
class Range:
    """The messages of one queue from `begin` up to, not including, `end`."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def count(self) -> int:
        """Messages in the range, if none is filtered out."""
        return max(0, self.end - self.begin)


def advance(
    start: StreamPosition, latest: Offsets, first: Offsets, count_max: int | None = None, origins: Origins | None = None
) -> StreamPosition:
    """Return the position at which the next micro-batch ends.

    Args:
        start: where it begins.
        latest: the end of every queue that could be asked; queues that could not stay where they are.
        first: where queues begin that `start` does not know, or that have lost what was before `start`.
        count_max: messages that the batch may take; None for all.
        origins: what queues hold first now, of those that were asked; of others, what is known stays.

    Returns:
        `start` itself when there is nothing to read.
    """
    # A queue in `first` overrules the position: one that was recreated begins at its own first offset.
    begins = dict(start.offsets)
    fresh = {queue: begin for queue, begin in first.items() if queue in latest}
    begins.update(fresh)
    # A slave may lag behind what was read from its master: positions never move back.
    ends = {queue: max(end, begins.get(queue, 0)) for queue, end in latest.items()}
    if count_max is not None:
        ends = limit(begins, ends, count_max)
    offsets = begins | ends
    is_recreated = any(begin < ends[queue] for queue, begin in fresh.items())
    if offsets == start.offsets and not is_recreated:
        return start
    return StreamPosition(offsets, begins if start.is_initial else fresh, {**start.origins, **(origins or {})})


def limit(begins: Offsets, ends: Offsets, count_max: int) -> dict[MessageQueue, int]:
    """Cut `ends` so that at most `count_max` messages lie between: each queue's share follows its backlog.

    No queue with a backlog is left out while there is one message for each, so that none starves behind the long ones. With
    fewer messages the queues take turns, one message each: a queue is read before `count_max` of the batches that leave it
    out add up to the number of all queues.
    """
    backlog = {queue: end - begins.get(queue, 0) for queue, end in ends.items() if end > begins.get(queue, 0)}
    if sum(backlog.values()) <= count_max:
        return dict(ends)
    if len(backlog) > count_max:
        taken = dict.fromkeys(_turn(begins, ends, backlog, count_max), 1)
    else:  # one message for each queue first, then shares of what is left in proportion to what each has left
        shares = _apportion({queue: count - 1 for queue, count in backlog.items()}, count_max - len(backlog))
        taken = {queue: 1 + share for queue, share in shares.items()}
    return {
        queue: begins.get(queue, 0) + taken.get(queue, 0) if queue in backlog else end for queue, end in ends.items()
    }


class TriggerGate:
    """Holds micro-batches back that are too small, for a while.

    Args:
        count_min: messages that a batch should have; None: any number.
        delay_s: after this long the next one comes with what there is. The first one of a query does not wait.
    """

    def __init__(self, count_min: int | None, delay_s: float) -> None:
        self._count_min = count_min
        self._delay_s = delay_s
        self._opened_at = -float("inf")

    def opens(self, count: int, now_s: float) -> bool:
        """Return True if a batch of `count` messages goes now."""
        if self._count_min is not None and count < self._count_min and now_s - self._opened_at < self._delay_s:
            return False
        self._opened_at = now_s
        return True


def backlog(begins: Offsets, ends: Offsets) -> dict[MessageQueue, int]:
    """Return how many messages lie between, by queue; queues without any are left out."""
    counts = {queue: end - begins[queue] for queue, end in ends.items() if queue in begins}
    return {queue: count for queue, count in counts.items() if count > 0}


def count_of_size(counts: dict[MessageQueue, int], sizes: dict[MessageQueue, float], size_max: int) -> int:
    """Return how many messages of a backlog have about `size_max` bytes, at least one.

    Args:
        counts: messages of each queue; a batch takes the same share of each.
        sizes: mean bytes of a message of each queue, where it is known: others are like the rest.
    """
    total = sum(counts.values())
    known = [(count, sizes[queue]) for queue, count in counts.items() if queue in sizes]
    known_count = sum(count for count, _ in known)
    if not known_count:
        return total
    mean = sum(count * size for count, size in known) / known_count
    return max(1, min(total, int(size_max / mean)))


def ranges_between(start: StreamPosition, end: StreamPosition) -> list[Range]:
    """Return the ranges that a micro-batch reads, sorted by queue; empty ones are left out.

    Raises:
        InvalidArgument: a queue of `end` has no start.
    """
    begins = {**start.offsets, **end.begins}
    unknown = sorted(queue for queue in end.offsets if queue not in begins)
    if unknown:
        raise InvalidArgument("checkpointed position", queue_names(unknown), "a start for every queue")
    ranges = (Range(queue, begins[queue], offset) for queue, offset in sorted(end.offsets.items()))
    return [found for found in ranges if found.count]


def split(ranges: Sequence[Range], partition_count_min: int | None, record_count_max: int | None = None) -> list[Range]:
    """Split ranges into tasks.

    Args:
        partition_count_min: the longest are split until there are so many, if there are as many messages.
        record_count_max: no task has more messages.
    """
    if record_count_max is not None:
        ranges = [part for found in ranges for part in _even_parts(found, -(-found.count // record_count_max))]
    missing = min(partition_count_min or 0, sum(found.count for found in ranges)) - len(ranges)
    if missing <= 0:
        return list(ranges)
    # A heap of (-part size, index of the range, parts): the range whose parts are largest now gets one more of them.
    parts = [(-found.count, index, 1) for index, found in enumerate(ranges)]
    heapify(parts)
    for _ in range(missing):
        _, index, count = parts[0]
        heapreplace(parts, (-ranges[index].count // (count + 1), index, count + 1))
    counts = {index: count for _, index, count in parts}
    return [part for index, found in enumerate(ranges) for part in _even_parts(found, counts[index])]


def pack(
    parts: Sequence[Range], partition_count_min: int | None, record_count_max: int | None = None
) -> list[list[Range]]:
    """Return what each task reads: one part, or several short ones where there are more parts than `TASK_COUNT`.

    Args:
        parts: as `split` returns them.
        partition_count_min: there are at least so many tasks, if there are as many parts.
        record_count_max: no task has more messages.
    """
    task_count = max(TASK_COUNT, partition_count_min or 0)
    if len(parts) <= task_count:
        return [[part] for part in parts]
    tasks: list[list[Range]] = [[] for _ in range(task_count)]
    # A heap of (weight, messages, index of the task): the next longest part goes to the task with the least to do.
    lightest = [(0, 0, index) for index in range(task_count)]
    for part in sorted(parts, key=lambda part: (-part.count, *_place(part))):
        weight, count, index = lightest[0]
        if count and record_count_max is not None and count + part.count > record_count_max:
            tasks.append([part])
            continue
        tasks[index].append(part)
        heapreplace(lightest, (weight + part.count + PART_WEIGHT, count + part.count, index))
    return sorted((sorted(task, key=_place) for task in tasks), key=lambda task: _place(task[0]))


def _place(part: Range) -> tuple[MessageQueue, int]:
    return part.queue, part.begin


def _turn(begins: Offsets, ends: Offsets, backlog: Mapping[MessageQueue, int], count: int) -> list[MessageQueue]:
    """Return the next `count` queues with a backlog, in the circle of all queues.

    Where to begin follows from the position alone: the sum of its offsets grows by `count` with every batch, so that the next
    batch begins `count` queues further.
    """
    circle = sorted(begins.keys() | ends.keys())
    first = sum(begins.values()) % len(circle)
    return [queue for queue in circle[first:] + circle[:first] if queue in backlog][:count]


def _apportion(weights: Mapping[MessageQueue, int], total: int) -> dict[MessageQueue, int]:
    """Return whole shares of `total` in proportion to `weights`; what rounding down leaves goes to the largest remainders."""
    whole = sum(weights.values())
    shares = {queue: total * weight // whole for queue, weight in weights.items()}
    left = total - sum(shares.values())
    by_remainder = sorted(weights, key=lambda queue: (-(total * weights[queue] % whole), queue))
    for queue in by_remainder[:left]:
        shares[queue] += 1
    return shares


def _even_parts(found: Range, count: int) -> Iterable[Range]:
    cuts = [found.begin + found.count * part // count for part in range(count + 1)]
    return (Range(found.queue, begin, end) for begin, end in pairwise(cuts))
