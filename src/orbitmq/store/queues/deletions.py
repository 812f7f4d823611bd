"""The file `deleted`: up to where the CommitLog holds messages of topics that were deleted.

One line per topic: the end of the log at its deletion, a blank, the topic. The records of a deleted topic stay in the log
until its files are cleaned away, and every rebuild of queues from the log would bring them back.
"""

from __future__ import annotations

from pathlib import Path

from orbitmq.store.disk import Disk, write_whole

_DIGITS_MAX = 20
"""Of an offset. Python refuses to read a number of many thousand digits, which a damaged file may hold."""


class Deletions:
    """The notes about deleted topics, read when it is made."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._ends = parse_deletions(disk.read(path))

    @property
    def topics(self) -> set[str]:
        """The topics that there are notes about; some may have been made again."""
        return set(self._ends)

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Return True if a record was stored before its topic was deleted."""
        return physical_offset < self._ends.get(topic, 0)

    def note(self, topic: str, log_end: int) -> None:
        """Take note that a topic is deleted now, durably. Raises OSError; nothing is noted then."""
        self._write({**self._ends, topic: log_end})

    def fit(self, log_min: int, log_end: int) -> None:
        """Bring the notes in line with the log as recovery found it, before anything is appended. Raises OSError.

        Notes about records that were cleaned away go. No note reaches beyond the log's end: a power cut may have taken
        what was there at the deletion, and other messages come to that place now.
        """
        fitting = {topic: min(end, log_end) for topic, end in self._ends.items() if end > log_min}
        if fitting != self._ends:
            self._write(fitting)

    def _write(self, ends: dict[str, int]) -> None:
        write_whole(self._disk, self._path, "".join(f"{end} {topic}\n" for topic, end in ends.items()).encode())
        self._ends = ends


def parse_deletions(content: bytes) -> dict[str, int]:
    """Return the log's end at each topic's deletion; lines that are damaged are passed over."""
    ends = {}
    for line in content.decode("utf-8", "replace").splitlines():
        end, _, topic = line.partition(" ")
        if end.isdecimal() and len(end) <= _DIGITS_MAX and topic:
            ends[topic] = int(end)
    return ends
