"""A store in memory that grows and is cleaned, without a loop's clock: pauses end at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from orbitmq.store import Store
from orbitmq.store.retention.rules import HOUR_MS, RetentionRules
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from unit.store.parts import ROOT, draft, store_of

ALL_DAY = frozenset(range(24))
START_MS = 1_700_000_000_000


class Cleaned:
    """A store, its disk and its clock. Segments hold 4 KiB: some seven messages of 500 bytes."""

    def __init__(self, disk: FakeDisk | None = None, **rules: Any) -> None:
        self.clock = FakeClock(START_MS)
        self.disk = disk or FakeDisk()
        self.rules = RetentionRules(
            **{"reserved_ms": HOUR_MS, "delete_hours": ALL_DAY, "segment_pause_ms": 0, "queue_pause_ms": 0, **rules}
        )
        self.store = self.open()

    def open(self) -> Store:
        self.store = store_of(self.disk, self.clock, retention=self.rules)
        return self.store

    def put(self, count: int, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Append messages; return where each lies in the log."""
        drafts = [draft(topic, queue_id, b"x" * 500) for _ in range(count)]
        return [self.store.append(each).physical_offset for each in drafts]

    def put_old(self, count: int, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Append messages, sync them, and let so much time pass that they expire."""
        found = self.put(count, topic, queue_id)
        self.store.flush()
        self.clock.advance(2 * HOUR_MS)
        return found

    def clean(self) -> None:
        """Sync, and do one round."""
        self.store.flush()
        run(self.store.retention.do_round())

    def kill(self) -> Store:
        self.disk = self.disk.after_kill()
        return self.open()

    def segments(self) -> list[int]:
        return [int(name) for name in self.disk.names(ROOT / "commitlog")]

    def queue_files(self, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Return the first queue offset of each file."""
        return [int(name) // 20 for name in self.disk.names(ROOT / "consumequeue" / topic / str(queue_id))]


def run(work: Awaitable[None]) -> None:
    async def scene() -> None:
        await work

    asyncio.run(scene())
