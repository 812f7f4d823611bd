"""Damage of the store's files, one at a time: each is removed, emptied, zeroed or garbled, and then the store starts.

Three outcomes are good: everything is there; or it starts and names what is wrong; or it refuses to start and says what
is lost. A fourth is none: messages are missing, or other ones have their numbers, and that went unnoticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import NamedTuple

from orbitmq.errors import CorruptRecord, StoreError
from orbitmq.model.message import Host
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import iter_records

ROOT = Path("/store")
CONFIG = StoreConfig(path=ROOT, segment_size=4096, consume_queue_units=16)
COUNT = 40
Queue = tuple[str, int]
QUEUES: list[Queue] = [("orders", 0), ("orders", 1), ("bills", 0)]
_PLACE_SIZE_MAX = 64


class Outcome(Enum):
    """What a start made of damaged files."""

    WHOLE = "all is there"
    REBUILT = "all is there, and what was rebuilt is named"
    NAMED = "something is missing, and is named"
    READER = "a reader is told: the message does not have its checksum"
    REFUSED = "refuses to start, and names it"
    SILENT = "something is missing, and nobody is told"


class Case(NamedTuple):
    """One file, damaged in one way, after one end."""

    end: str
    path: Path
    damage: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)} {self.damage} after {self.end}"

    @property
    def kind(self) -> str:
        """The file's kind: files of one kind have one row in the table."""
        first, *rest = self.path.relative_to(ROOT).parts
        return f"{first}/*" if rest else first


def _remove(disk: FakeDisk, path: Path, _random: Random) -> None:
    del disk.files[path]


def _empty(disk: FakeDisk, path: Path, _random: Random) -> None:
    disk.write(path, b"")


def _zero(disk: FakeDisk, path: Path, _random: Random) -> None:
    start, end = _middle(disk.read(path))
    disk.write(path, disk.read(path)[:start] + bytes(end - start) + disk.read(path)[end:])


def _garble(disk: FakeDisk, path: Path, random: Random) -> None:
    start, end = _middle(disk.read(path))
    disk.write(path, disk.read(path)[:start] + random.randbytes(end - start) + disk.read(path)[end:])


def _middle(content: bytes) -> tuple[int, int]:
    """Return the place in the middle of what was written: a few entries, or most of a record."""
    size = len(content.rstrip(b"\0"))
    place = min(_PLACE_SIZE_MAX, max(size // 3, 1))
    return (size - place) // 2, (size - place) // 2 + place


DAMAGES: dict[str, Callable[[FakeDisk, Path, Random], None]] = {
    "removed": _remove,
    "emptied": _empty,
    "zeroed in the middle": _zero,
    "garbled in the middle": _garble,
}


def written(end: str) -> FakeDisk:
    """Return the disk of a store with some history, after `kill -9` or a clean stop."""
    return _written(end)[0].after_kill()


@cache
def _written(end: str) -> tuple[FakeDisk, dict[Queue, list[tuple[int, bytes]]]]:
    """Return that disk, and what is in the queues."""
    disk, clock, random = FakeDisk(), FakeClock(), Random(1)
    store = _open(disk, clock)
    for number in range(COUNT):
        for topic, queue_id in QUEUES:
            store.append(
                Draft(topic, queue_id, b"%s %d %d " % (topic.encode(), queue_id, number) + random.randbytes(50))
            )
        clock.advance(200)
        if number == 3:
            store.append(Draft("gone", 0, b"of a topic that is deleted"))
            store.flush()
            store.delete_topic("gone")
        if number == COUNT - 5:
            store.flush()
    if end == "a clean stop":
        store.close()
    disk = disk.after_kill()
    return disk, {queue: _bodies(_open(disk.after_kill(), FakeClock()), queue) for queue in QUEUES}


def cases() -> Iterator[Case]:
    """Yield everything that can be damaged."""
    for end in ("kill -9", "a clean stop"):
        for path in sorted(written(end).files):
            for damage in DAMAGES:
                yield Case(end, path, damage)


def judge(case: Case) -> tuple[Outcome, str]:
    """Damage a file and start; say what came of it, and what was told."""
    disk = written(case.end)
    DAMAGES[case.damage](disk, case.path, Random(str(case)))
    return _start(case.end, disk)


def tear(end: str, path: Path, size: int, *, is_short: bool) -> tuple[Outcome, str]:
    """Start with a file of which only the first bytes reached the disk: it is short, or goes on with zeros."""
    disk = written(end)
    content = disk.read(path)
    disk.write(path, content[:size] if is_short else content[:size].ljust(len(content), b"\0"))
    return _start(end, disk)


def derived(end: str) -> list[tuple[Path, int]]:
    """Return every file but the CommitLog's, and the bytes that something was written to."""
    disk = written(end)
    return [
        (path, len(disk.read(path).rstrip(b"\0"))) for path in sorted(disk.files) if path.parent.name != "commitlog"
    ]


def _start(end: str, disk: FakeDisk) -> tuple[Outcome, str]:
    before = _written(end)[1]
    with _heard() as said:
        try:
            store = _open(disk, FakeClock())
        except StoreError as error:
            return Outcome.REFUSED, str(error)
    told = "; ".join(said)
    try:
        after = {queue: _bodies(store, queue) for queue in QUEUES}
    except CorruptRecord as error:
        return Outcome.READER, str(error)
    is_next = all(store.append(Draft(*queue, b"next")).queue_offset >= len(before[queue]) for queue in QUEUES)
    recovery_report = store.recovery_report
    lost = recovery_report.lost_size or recovery_report.lost_head_size
    is_named = bool(
        recovery_report.set_aside or recovery_report.unplaced_count or lost or recovery_report.rebuilt or told
    )
    if after == before and is_next:
        return (Outcome.REBUILT if is_named else Outcome.WHOLE), told
    return (Outcome.NAMED if is_named else Outcome.SILENT), told


class _heard:  # noqa: N801 - a context manager
    """The warnings that the store logs meanwhile."""

    def __enter__(self) -> list[str]:
        self._records: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self._said: list[str] = []
        self._handler = QueueHandler(self._records)
        self._handler.setLevel(logging.WARNING)
        logging.getLogger("orbitmq.store").addHandler(self._handler)
        return self._said

    def __exit__(self, *_: object) -> None:
        logging.getLogger("orbitmq.store").removeHandler(self._handler)
        while not self._records.empty():
            self._said.append(self._records.get().getMessage())


def _open(disk: FakeDisk, clock: FakeClock) -> Store:
    return Store.open(CONFIG, store_host=Host("127.0.0.1", 10911), clock=clock, disk=disk)


def _bodies(store: Store, queue: Queue) -> list[tuple[int, bytes]]:
    """Read a queue to its end: (queue offset, body)."""
    found, offset = [], store.min_offset(*queue)
    while (answer := store.read(*queue, offset)).status is ReadStatus.FOUND:
        found += [(record.queue_offset, bytes(record.body)) for record in iter_records(answer.body)]
        offset = answer.next_offset
    return found
