"""The file `rebuild`: which consume queues are being written anew. It is there until all of them are on the disk.

One line per queue, its id, a blank and its topic: a crash in the middle leaves queues that look whole and are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orbitmq.store.disk import Disk
from orbitmq.store.queues.consume_queues import QueueKey


class RebuildMark:
    """The file, by its path."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def read(self) -> set[QueueKey]:
        """Return the queues that an earlier start began to write anew; none without a file."""
        lines = self._disk.read(self._path).decode("utf-8", "replace").splitlines()
        pairs = [line.partition(" ") for line in lines]
        return {(topic, int(queue_id)) for queue_id, _, topic in pairs if queue_id.isdecimal() and topic}

    def write(self, keys: Iterable[QueueKey]) -> None:
        """Name the queues, durably."""
        self._disk.write(self._path, "".join(f"{queue_id} {topic}\n" for topic, queue_id in sorted(keys)).encode())

    def remove(self) -> None:
        """All of them are on the disk."""
        self._disk.remove(self._path)
