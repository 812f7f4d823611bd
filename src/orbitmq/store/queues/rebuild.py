"""The rebuild of consume queues from the log, message after message.

Each message names its own queue offset, and no checksum covers that number. One number out of step may have rotted; two
in a row are where the log goes on. So a message out of step is held until the next one of its queue has been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path

from orbitmq.store.disk import Disk, write_whole
from orbitmq.store.dispatch import dispatched_of
from orbitmq.store.lmq import lmq_forms
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.scanning import whole_records
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues, QueueKey, is_directory_name
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.values import Dispatched


class OffsetStep(Enum):
    """What a message's queue offset means for its queue."""

    NEXT = "next"
    """Its entry is the next one, or the queue begins (again) with it."""
    LEAP = "leap"
    """The message held before it is confirmed: the queue goes on there."""
    HOLD = "hold"
    """Out of step with everything: wait for the next message."""


def classify_step(queue_offset: int, expected: int | None, held: int | None) -> OffsetStep:
    """Say how a queue goes on. Pure.

    Args:
        expected: the queue offset after the last entry; None: the queue has no entries, and may begin anywhere.
        held: the queue offset of the message that is held.
    """
    if queue_offset == expected or expected is None:
        return OffsetStep.NEXT
    return OffsetStep.LEAP if held is not None and queue_offset == held + 1 else OffsetStep.HOLD


class Rebuild:
    """The rebuilding of some queues. They were marked before (see `rebuild_mark`).

    Args:
        ends: the queues, and where each goes on if the log has no message of it any more; 0: at its start.
        on_unplaced: told about each message that no entry leads to.
        sync: returns when all entries of queues of the table are on the disk.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        ends: Mapping[QueueKey, int],
        on_unplaced: Callable[[Dispatched], None],
        sync: Callable[[ConsumeQueues, Iterable[ConsumeQueue]], None],
    ) -> None:
        self._queues = queues
        self._sync = sync
        self._ends = ends
        self._on_unplaced = on_unplaced
        self._held: dict[QueueKey, Dispatched] = {}

    def run(
        self, commit_log: CommitLog, deletions: Deletions, on_read: Callable[[int], None] = lambda size: None
    ) -> None:
        """Delete the queues' files, and rebuild them from every whole record of the log.

        Args:
            on_read: told the size of each record.
        """
        for key in self._ends:
            queue = self._queues.get(*key)
            if queue is not None:
                queue.discard()
        for record in whole_records(commit_log, commit_log.min_offset, commit_log.end):
            on_read(record.size)
            for form in (record, *lmq_forms(record)):
                if (form.topic, form.queue_id) in self._ends and not deletions.covers(form.topic, form.physical_offset):
                    self.take(dispatched_of(form, self._queues.delay_levels))
        self.finish()

    def take(self, message: Dispatched) -> None:
        """Put a message of the log into its queue, one of those that are rebuilt."""
        key = (message.topic, message.queue_id)
        queue = self._queues.make(*key)
        held = self._held.get(key)
        expected = queue.max_offset if queue.has_begun else None
        step = classify_step(message.queue_offset, expected, None if held is None else held.queue_offset)
        if held is not None:
            del self._held[key]
            if step is OffsetStep.LEAP:
                if not self._queues.replay(held, with_gaps=True):
                    queue.restart(held.queue_offset)
                    self._queues.replay(held)
            else:
                self._on_unplaced(held)
        if step is OffsetStep.HOLD:
            self._held[key] = message
        elif not self._queues.replay(message):
            self._on_unplaced(message)

    def finish(self) -> None:
        """Place what is still held, and sync the queues. Raises OSError."""
        for message in self._held.values():
            # A 0 alone would begin the queue again, and all before it would be gone.
            if message.queue_offset == 0 or not self._queues.replay(message, with_gaps=True):
                self._on_unplaced(message)
        self._held.clear()
        written = []
        for key, end in self._ends.items():
            queue = self._queues.make(*key) if end else self._queues.get(*key)
            if queue is None:
                continue
            if end and not queue.has_begun:
                queue.resume(end)
            written.append(queue)
        self._sync(self._queues, written)


_NUMBER_SIZE_MAX = 31
"""A queue id, a comma and an offset. A damaged line may hold more digits than Python reads as a number."""


class RebuildMark:
    """The file, by its path."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def read(self) -> dict[QueueKey, int]:
        """Return the queues that an earlier start began to rebuild, and where each goes on without a message."""
        return parse_rebuild_mark(self._disk.read(self._path))

    def write(self, ends: Mapping[QueueKey, int]) -> None:
        """Name the queues, durably."""
        lines = []
        for (topic, queue_id), end in sorted(ends.items()):
            lines.append(f"{queue_id},{end} {topic}\n" if end else f"{queue_id} {topic}\n")
        write_whole(self._disk, self._path, "".join(lines).encode())

    def remove(self) -> None:
        """All of them are on the disk."""
        self._disk.remove(self._path)


def parse_rebuild_mark(content: bytes) -> dict[QueueKey, int]:
    """Return the queues that a file names, and where each goes on without a message; damaged lines are passed over."""
    found = {}
    for line in content.decode("utf-8", "replace").splitlines():
        number, _, topic = line.partition(" ")
        queue_id, _, end = number.partition(",")
        if queue_id.isdecimal() and len(number) <= _NUMBER_SIZE_MAX and is_directory_name(topic):
            found[(topic, int(queue_id))] = int(end) if end.isdecimal() else 0
    return found
