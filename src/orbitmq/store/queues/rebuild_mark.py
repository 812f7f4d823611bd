"""The file `rebuild`: which consume queues are being written anew. It is there until all of them are on the disk.

One line per queue, its id, a blank and its topic: a crash in the middle leaves queues that look whole and are not. Where
all messages of a queue may have been deleted, a comma and the offset at which it goes on follow the id.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orbitmq.store.disk import Disk, write_whole
from orbitmq.store.queues.consume_queues import QueueKey, is_directory_name

_NUMBER_SIZE_MAX = 31
"""A queue id, a comma and an offset. A damaged line may hold more digits than Python reads as a number."""


class RebuildMark:
    """The file, by its path."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def read(self) -> dict[QueueKey, int]:
        """Return the queues that an earlier start began to write anew, and where each goes on without a message."""
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
