"""A store in memory, and messages for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.disk import Disk
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import Record, parse_record

HOST = Host("127.0.0.1", 10911)
ROOT = Path("/store")
QUEUE_DIRECTORY = Path("/queues/orders/0")


def store_of(
    disk: Disk | None = None, clock: FakeClock | None = None, monotonic: FakeClock | None = None, **changes: Any
) -> Store:
    rules = {"retention": changes.pop("retention")} if "retention" in changes else {}
    config = StoreConfig(**{"path": ROOT, "segment_size": 4096, "consume_queue_units": 8, **changes})
    clock = clock or FakeClock(1000)
    return Store.open(
        config, store_host=HOST, clock=clock, monotonic=monotonic or clock, disk=disk or FakeDisk(), **rules
    )


def draft(topic: str = "orders", queue_id: int = 0, body: bytes = b"hello", **changes: Any) -> Draft:
    return Draft(topic, queue_id, body, **changes)


def entries_end_at(disk: FakeDisk, stored_at_ms: int) -> int:
    """Return where the log's last message ends that was stored at this time or earlier."""
    directory, end = ROOT / "commitlog", 0
    for name in disk.names(directory):
        content, at = bytes(disk.files[directory / name].buffer), 0
        while at < len(content):
            try:
                found = parse_record(content[at:], int(name) + at, check_crc=False)
            except CorruptRecord:
                return end
            at += found.size
            if isinstance(found, Record) and found.stored_at_ms <= stored_at_ms:
                end = int(name) + at
    return end


def queue_of(disk: Disk | None = None, units: int = 4) -> ConsumeQueue:
    """Return a consume queue on its own, without a log."""
    return ConsumeQueue(disk or FakeDisk(), QUEUE_DIRECTORY, units, "orders", 0)
