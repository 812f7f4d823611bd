"""Checkpoints: which popped messages are invisible, to which consumer they went, and until when. Pure.

State: every checkpoint that has messages left, by what acks name and by its place in the revive topic. In: records of the
revive topic, in their order; the monotonic clock. Out: checkpoints whose time is over, and how far the revive topic has
been worked through.

Source: Java PopReviveService, PopBufferMergeService.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from itertools import count

from orbitmq.wire.pop.revive_log import CheckpointKey, PopCheckpoint

_HEAP_SLACK = 1_024
"""Entries of checkpoints that are done which may lie between the others."""

InFlightKey = tuple[str, str, int]


class Outstanding:
    """A checkpoint with unacknowledged messages; their offsets ascend.

    Args:
        revive_queue_id: where its record is, as `revive_offset`.
        due_at_ms: when its messages become visible again, by the monotonic clock.
    """

    __slots__ = ("due_at_ms", "invisible_ms", "key", "left", "offsets", "revive_offset", "revive_queue_id", "rewritten")

    def __init__(self, checkpoint: PopCheckpoint, revive_queue_id: int, revive_offset: int, due_at_ms: int) -> None:
        self.key = checkpoint.key
        self.offsets = checkpoint.offsets
        self.invisible_ms = checkpoint.invisible_ms
        self.rewritten = checkpoint.rewritten
        self.revive_queue_id = revive_queue_id
        self.revive_offset = revive_offset
        self.due_at_ms = due_at_ms
        self.left = ((1 << len(checkpoint.offsets)) - 1) & ~checkpoint.acked
        """Bits of the unacknowledged messages."""

    @property
    def offsets_left(self) -> list[int]:
        """The queue offsets of the unacknowledged messages."""
        return [offset for index, offset in enumerate(self.offsets) if self.left >> index & 1]

    @property
    def as_record(self) -> PopCheckpoint:
        """The checkpoint as it would be written now."""
        everything = (1 << len(self.offsets)) - 1
        return PopCheckpoint(self.key, self.offsets, self.invisible_ms, everything & ~self.left, self.rewritten)


class Checkpoints:
    """All checkpoints that have messages left."""

    def __init__(self) -> None:
        self._by_key: dict[CheckpointKey, Outstanding] = {}
        self._by_place: dict[int, dict[int, Outstanding]] = {}
        self._due: list[tuple[int, int, Outstanding]] = []
        self._numbers = count()
        self._in_flight: dict[InFlightKey, int] = {}
        self.count = 0
        """Checkpoints that have messages left."""
        self.message_count = 0
        """Popped messages that are not acknowledged yet."""

    @property
    def in_flight(self) -> dict[InFlightKey, int]:
        """How many popped messages are not acknowledged yet, by topic, group and queue."""
        return self._in_flight

    def find(self, key: CheckpointKey) -> Outstanding | None:
        """Return the checkpoint that an ack names, None when it is done or was never there."""
        return self._by_key.get(key)

    def add(self, checkpoint: PopCheckpoint, revive_queue_id: int, revive_offset: int, due_at_ms: int) -> None:
        """Take in a checkpoint from its place in the revive topic; places of one queue come in ascending order."""
        found = Outstanding(checkpoint, revive_queue_id, revive_offset, due_at_ms)
        before = self._by_key.get(checkpoint.key)
        if before is not None and before.offsets == found.offsets:
            # The same one, written again further on: what was acknowledged since stays so.
            found.left &= before.left
            self._remove(before)
        if not found.left:
            return
        # One of the same name with other messages keeps its place, and its messages come again when it is due.
        self._by_key[found.key] = found
        self._by_place.setdefault(revive_queue_id, {})[revive_offset] = found
        heapq.heappush(self._due, (due_at_ms, next(self._numbers), found))
        self._change_in_flight(found.key, found.left.bit_count())
        self.count += 1

    def acknowledge(self, key: CheckpointKey, offsets: Iterable[int]) -> int:
        """Strike out messages of a checkpoint; return how many of them were still out."""
        found = self._by_key.get(key)
        if found is None:
            return 0
        # Messages of a checkpoint are bits; their offsets ascend, so the place of one is found by bisection.
        left, own = found.left, found.offsets
        for offset in offsets:
            index = bisect_left(own, offset)
            if index < len(own) and own[index] == offset:
                left &= ~(1 << index)
        struck = (found.left & ~left).bit_count()
        if left:
            found.left = left
            self._change_in_flight(key, -struck)
        else:
            self._remove(found)
        return struck

    def next_due(self, now_ms: int) -> Outstanding | None:
        """Return a checkpoint whose time is over; it stays until `finish`, or until all its messages are acknowledged."""
        at_ms = self.due_at_ms()
        return self._due[0][2] if at_ms is not None and at_ms <= now_ms else None

    def due_at_ms(self) -> int | None:
        """Return when the next checkpoint's time is over, by the monotonic clock; None without one."""
        due = self._due
        while due and not due[0][2].left:
            heapq.heappop(due)
        return due[0][0] if due else None

    def finish(self, found: Outstanding) -> None:
        """Forget a checkpoint: all its messages are elsewhere."""
        self._remove(found)

    def postpone(self, found: Outstanding, due_at_ms: int) -> None:
        """Look at a checkpoint again at another time."""
        heapq.heappop(self._due)
        found.due_at_ms = due_at_ms
        heapq.heappush(self._due, (due_at_ms, next(self._numbers), found))

    def oldest(self, revive_queue_id: int) -> Outstanding | None:
        """Return the checkpoint that lies first in a queue of the revive topic, None when all there are done."""
        places = self._by_place.get(revive_queue_id)
        return next(iter(places.values())) if places else None

    def _remove(self, found: Outstanding) -> None:
        self._change_in_flight(found.key, -found.left.bit_count())
        found.left = 0
        if self._by_key.get(found.key) is found:
            del self._by_key[found.key]
        places = self._by_place[found.revive_queue_id]
        del places[found.revive_offset]
        self.count -= 1
        if len(self._due) > 2 * self.count + _HEAP_SLACK:
            self._due = [entry for entry in self._due if entry[2].left]
            heapq.heapify(self._due)

    def _change_in_flight(self, key: CheckpointKey, change: int) -> None:
        self.message_count += change
        place = key.topic, key.group, key.queue_id
        number = self._in_flight.get(place, 0) + change
        if number:
            self._in_flight[place] = number
        else:
            self._in_flight.pop(place, None)
