"""The file `ends`: where every consume queue began and ended when the store was last closed in order. Pure.

First the CommitLog's first byte, then one line per queue: first entry, the entry after the last, queue id, topic. A queue
never ends earlier than it once did, unless its topic is deleted, and then the file goes: so a queue that does has lost
entries. A queue that begins later has, too, unless the log does.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.store.queues.consume_queues import ConsumeQueues, QueueKey, is_directory_name


class QueueEnds(NamedTuple):
    """Where the queues were, in entries: (first, after the last)."""

    log_min: int
    """The CommitLog's first byte then."""
    ends: dict[QueueKey, tuple[int, int]]

    @classmethod
    def of(cls, queues: ConsumeQueues, log_min: int) -> QueueEnds:
        """Take note of where the queues are."""
        return cls(log_min, {(q.topic, q.queue_id): (q.base_offset, q.max_offset) for q in queues if q.max_offset})

    @classmethod
    def parse(cls, content: bytes) -> QueueEnds:
        """Parse the file; one that is missing or damaged knows nothing."""
        try:
            first, *lines = content.decode().splitlines()
            ends = {}
            for line in lines:
                base, end, queue_id, topic = line.split(" ", 3)
                if not is_directory_name(topic) or int(queue_id) < 0:
                    raise ValueError(topic)
                ends[(topic, int(queue_id))] = (int(base), int(end))
            return cls(int(first), ends)
        except ValueError:
            return cls(0, {})

    def end_of(self, key: QueueKey) -> int:
        """Return where a queue ended, 0: unknown."""
        return self.ends.get(key, (0, 0))[1]

    def without_starts(self) -> QueueEnds:
        """Return what stays true of the queues' ends when files at their starts are deleted."""
        return self._replace(log_min=-1)

    def format(self) -> bytes:
        """Encode the file."""
        lines = [f"{base} {end} {queue_id} {topic}" for (topic, queue_id), (base, end) in self.ends.items()]
        return "\n".join([str(self.log_min), *lines]).encode() + b"\n"

    def shorter(self, queues: ConsumeQueues, log_min: int) -> set[QueueKey]:
        """Return the queues that have lost entries since.

        Args:
            log_min: the CommitLog's first byte now: files of a queue whose records were cleaned away may go.
        """
        lost = set()
        for key, (base, end) in self.ends.items():
            queue = queues.get(*key)
            if queue is None or queue.max_offset < end or (queue.base_offset > base and log_min == self.log_min):
                lost.add(key)
        return lost
