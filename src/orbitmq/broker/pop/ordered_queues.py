"""Queues that groups pop in order, one batch of a group at a time; and the file of the batches in flight.

State: the last batch of each queue that has messages left, and until when each of them is its consumer's. In: batches,
acks, changed times, the two clocks. Out: whether a queue may be read, how often its messages were tried, and where the
group goes on. Deadlines are counted on the monotonic clock, so that setting the wall clock moves none of them.

Source: Java ConsumerOrderInfoManager.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Sequence
from itertools import count, takewhile
from pathlib import Path

from orbitmq.clock import Clock
from orbitmq.errors import StoreError
from orbitmq.files import read_generations, replace_file, write_aside
from orbitmq.wire.pop.ordered_batches import (
    OrderedBatch,
    OrderedPlace,
    format_ordered_batches,
    parse_ordered_batches,
)

FORGOTTEN_AFTER_MS = 24 * 3_600_000
"""Of a batch that was not asked for since so long, the counts are not kept either (Java: CLEAN_SPAN_FROM_LAST)."""
LEFT_MS_MAX = 3 * 86_400_000
"""What an earlier run left blocks its queue no longer than a pop may: the wall clock may have been set since."""


_DUE_SLACK = 1_024
"""Entries of the heap of deadlines that do not hold any more, beyond as many as there are batches."""


class _Held:
    """A batch with unacknowledged messages; `due_ms` says by offset when they become visible again."""

    __slots__ = ("batch", "due_ms")

    def __init__(self, batch: OrderedBatch, due_ms: dict[int, int]) -> None:
        self.batch = batch
        self.due_ms = due_ms

    @property
    def over_ms(self) -> int:
        """When all of it is visible again."""
        return max(self.due_ms.values())


class OrderedQueues:
    """The batches of all groups that are out in order.

    Args:
        batches: what an earlier run left.
        count_max: batches that may be out; then those are forgotten first whose time is over.
        clock: the wall clock, in which batches speak.
        monotonic: the clock that deadlines are counted on.
    """

    def __init__(
        self,
        batches: Iterable[tuple[OrderedPlace, OrderedBatch]] = (),
        *,
        count_max: int,
        clock: Clock,
        monotonic: Clock,
    ) -> None:
        self._count_max = count_max
        self._clock = clock
        self._monotonic = monotonic
        self._held: dict[OrderedPlace, _Held] = {}
        self._due: list[tuple[int, int, OrderedPlace]] = []
        """When batches are over, a heap; every change of a batch's time adds an entry, and the one before is stale."""
        self._numbers = count()
        self.change_count = 0
        """Grows with every change: tells whether the file is out of date."""
        wall_ms, now_ms = clock(), monotonic()
        for place, batch in sorted(batches, key=lambda found: found[1].noted_at_ms):
            left = {offset: _visible_at_ms(batch, offset) - wall_ms for offset in _offsets_left(batch)}
            if left:
                due_ms = {offset: now_ms + max(0, min(ms, LEFT_MS_MAX)) for offset, ms in left.items()}
                self._hold(place, _Held(batch, due_ms))

    @property
    def count(self) -> int:
        """How many batches have messages left."""
        return len(self._held)

    @property
    def batches(self) -> list[tuple[OrderedPlace, OrderedBatch]]:
        """Every batch that has messages left, as it is kept."""
        return [(place, held.batch) for place, held in self._held.items()]

    def blocked_until_ms(self, place: OrderedPlace, attempt_id: str | None = None) -> int | None:
        """Return when a queue may be read again, by the monotonic clock; None: it may be now.

        Args:
            attempt_id: the attempt that a batch was given to gets it once more at any time.
        """
        held = self._held.get(place)
        if held is None or (attempt_id is not None and attempt_id == held.batch.attempt_id):
            return None
        due_ms = held.over_ms
        return due_ms if due_ms > self._monotonic() else None

    def has_room(self, place: OrderedPlace) -> bool:
        """Return True if a batch of a queue may be given; where there are too many, forgets one whose time is over."""
        if place in self._held or len(self._held) < self._count_max:
            return True
        now_ms = self._monotonic()
        while self._due and self._due[0][0] <= now_ms:
            over_ms, _, other = heapq.heappop(self._due)
            held = self._held.get(other)
            if held is not None and held.over_ms == over_ms:
                self._forget([other])
                return True
        return False

    def give(
        self, place: OrderedPlace, offsets: Sequence[int], pop_time_ms: int, invisible_ms: int, attempt_id: str | None
    ) -> OrderedBatch:
        """Note a batch that a consumer gets now; what was popped from the queue before is forgotten."""
        before = self._held.pop(place, None)
        counts = {} if before is None else _counts_again(before.batch, offsets, attempt_id)
        batch = OrderedBatch(
            tuple(offsets), pop_time_ms, invisible_ms, self._clock(), attempt_id=attempt_id, counts=counts
        )
        due_ms = self._monotonic() + invisible_ms
        self._hold(place, _Held(batch, dict.fromkeys(offsets, due_ms)))
        self.change_count += 1
        return batch

    def find(self, place: OrderedPlace) -> OrderedBatch | None:
        """Return the batch of a queue that is out, None without one."""
        held = self._held.get(place)
        return None if held is None else held.batch

    def acknowledge(self, place: OrderedPlace, queue_offset: int) -> int:
        """Strike a message out of the batch that is out; return where the group goes on: at the first one that is left."""
        held = self._held[place]
        batch = held.batch
        index = batch.offsets.index(queue_offset)
        held.batch = batch = batch._replace(acked=batch.acked | 1 << index)
        held.due_ms.pop(queue_offset, None)
        self.change_count += 1
        if not held.due_ms:
            del self._held[place]
            return batch.offsets[-1] + 1
        self._note_due(place, held)
        return min(held.due_ms)

    def change_time(self, place: OrderedPlace, queue_offset: int, pop_time_ms: int, invisible_ms: int) -> int | None:
        """Restart a message's invisible time, from now on.

        Returns:
            When it is visible again, by the wall clock; None: it is done, or of another pop.
        """
        held = self._held.get(place)
        if held is None or held.batch.pop_time_ms != pop_time_ms or queue_offset not in held.due_ms:
            return None
        visible_at_ms = self._clock() + invisible_ms
        held.due_ms[queue_offset] = self._monotonic() + invisible_ms
        self._note_due(place, held)
        held.batch = held.batch._replace(visible_at_ms={**held.batch.visible_at_ms, queue_offset: visible_at_ms})
        self.change_count += 1
        return visible_at_ms

    def forget_queue(self, place: OrderedPlace) -> None:
        """Forget what was popped from a queue: the group's offset was reset."""
        self._forget([place])

    def forget_topic(self, topic: str) -> None:
        """Forget what is out of a topic that was deleted."""
        self._forget([place for place in self._held if place[0] == topic])

    def forget_group(self, group: str) -> None:
        """Forget what a group has that was deleted."""
        self._forget([place for place in self._held if place[1] == group])

    def forget_old(self) -> None:
        """Forget the batches that were not asked for since long, and whose time is over; they stand first."""
        old_ms = self._clock() - FORGOTTEN_AFTER_MS
        old = takewhile(lambda place: self._held[place].batch.noted_at_ms < old_ms, self._held)
        # Ours: a pop may take days, and Java's broker gives its messages to another consumer after one.
        self._forget([place for place in old if self.blocked_until_ms(place) is None])

    def _hold(self, place: OrderedPlace, held: _Held) -> None:
        self._held[place] = held
        self._note_due(place, held)

    def _note_due(self, place: OrderedPlace, held: _Held) -> None:
        heapq.heappush(self._due, (held.over_ms, next(self._numbers), place))
        if len(self._due) > 2 * len(self._held) + _DUE_SLACK:
            self._due = [(one.over_ms, next(self._numbers), key) for key, one in self._held.items()]
            heapq.heapify(self._due)

    def _forget(self, places: Iterable[OrderedPlace]) -> None:
        for place in places:
            del self._held[place]
            self.change_count += 1


def _offsets_left(batch: OrderedBatch) -> list[int]:
    return [offset for index, offset in enumerate(batch.offsets) if not batch.acked >> index & 1]


def _visible_at_ms(batch: OrderedBatch, offset: int) -> int:
    return batch.visible_at_ms.get(offset, batch.pop_time_ms + batch.invisible_ms)


def _counts_again(before: OrderedBatch, offsets: Iterable[int], attempt_id: str | None) -> dict[int, int]:
    """Return how often the messages of a new batch were tried before; the same attempt is no other try."""
    again = attempt_id is None or attempt_id != before.attempt_id
    counts = {}
    for offset in set(offsets).intersection(before.offsets):
        count = before.counts.get(offset, 0) + again
        if count:
            counts[offset] = count
    return dict(sorted(counts.items()))


log = logging.getLogger(__name__)


def load_batches(path: Path) -> list[tuple[OrderedPlace, OrderedBatch]]:
    """Return what an earlier run left; nothing where the file is damaged: it is no reason not to start."""
    try:
        return read_generations(path, parse_ordered_batches) or []
    except StoreError as error:
        log.warning("batches that were out in order come again: %s", error)
        return []


class BatchFile:
    """Writes the batches of all groups when they changed.

    Args:
        path: consumerOrderInfo.json.
    """

    def __init__(self, path: Path, ordered: OrderedQueues) -> None:
        self._path = path
        self._ordered = ordered
        self._saved_change_count = ordered.change_count

    async def save(self) -> None:
        """Write them on a thread: there may be many, and the disk may be slow."""
        self._ordered.forget_old()
        change_count = self._ordered.change_count
        if change_count != self._saved_change_count:
            await write_aside(self._write, self._ordered.batches)
            self._saved_change_count = change_count

    def save_now(self) -> None:
        """Write them on the caller's thread."""
        if self._ordered.change_count != self._saved_change_count:
            self._write(self._ordered.batches)
            self._saved_change_count = self._ordered.change_count

    def _write(self, batches: list[tuple[OrderedPlace, OrderedBatch]]) -> None:
        replace_file(self._path, format_ordered_batches(batches))
