"""A store's files, made by hand: a log of several queues, and their consume queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from orbitmq.spark.reading.queue_files import StorePaths
from orbitmq.wire.messages.record import format_record

ENTRY = Struct(">qiq")
UNIT_COUNT = 1000


@dataclass
class StoreFiles:
    """Files of `segment_size` bytes; the log's are written by `write`."""

    root: Path
    segment_size: int = 100_000
    log: bytearray = field(default_factory=bytearray)
    entries: dict[int, bytearray] = field(default_factory=dict)

    @property
    def paths(self) -> StorePaths:
        return StorePaths(self.root / "commitlog", self.root / "consumequeue")

    def add(self, queue_id: int, text: str) -> bytes:
        """Append a message of the topic `orders`; return its record."""
        entries = self.entries.setdefault(queue_id, bytearray())
        size = len(self._record(queue_id, 0, text))
        room = -len(self.log) % self.segment_size
        if room < size and room:
            self.log += bytes(room)
        record = self._record(queue_id, len(entries) // ENTRY.size, text)
        entries += ENTRY.pack(len(self.log), size, 0)
        self.log += record
        return record

    def write(self) -> StorePaths:
        """Write everything; the last file of the log, and those of queues, have their full size."""
        self.paths.commit_log.mkdir(parents=True, exist_ok=True)
        for base in range(0, len(self.log), self.segment_size):
            content = bytes(self.log[base : base + self.segment_size]).ljust(self.segment_size, b"\0")
            (self.paths.commit_log / f"{base:020}").write_bytes(content)
        file_size = UNIT_COUNT * ENTRY.size
        for queue_id, entries in self.entries.items():
            folder = self.paths.consume_queues / "orders" / str(queue_id)
            folder.mkdir(parents=True, exist_ok=True)
            for base in range(0, len(entries), file_size):
                content = bytes(entries[base : base + file_size]).ljust(file_size, b"\0")
                (folder / f"{base:020}").write_bytes(content)
        return self.paths

    def _record(self, queue_id: int, queue_offset: int, text: str) -> bytes:
        return format_record(
            topic="orders",
            body=text.encode(),
            queue_id=queue_id,
            queue_offset=queue_offset,
            physical_offset=len(self.log),
        )


def filled(root: Path, count: int = 2500, queues: int = 3) -> StoreFiles:
    """Return files of `count` messages in each of several queues, in turn."""
    store = StoreFiles(root)
    for number in range(count):
        for queue_id in range(queues):
            store.add(queue_id, f"{queue_id}-{number}-" + "." * (number % 40))
    store.write()
    return store
