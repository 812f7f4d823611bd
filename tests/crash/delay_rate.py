"""The rate at which delayed messages come when many of one level are due at the same moment: a broker's own delivery, in this process.

The store is on the disk and flushes as it does in a broker; the clock that delays are counted on is moved by hand.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from crash.ledger import Loss
from orbitmq.broker.delivery.delay import DelayQueues, schedule
from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.broker.topics.table import TopicTable, plain_topic
from orbitmq.clock import now_ms
from orbitmq.model.delay_levels import parse_delay_levels
from orbitmq.model.message import Host
from orbitmq.net.loop import run
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.delivery_progress import DeliveryProgress
from orbitmq.testing import FakeClock
from orbitmq.wire.messages.record import iter_records

BODY_SIZE = 1024
_LATER, _LEVEL, _LEVELS = "later", 1, parse_delay_levels("10s")


def deliver(directory: Path, count: int) -> float:
    """Return how many messages of 1 KiB came in a second, when so many of one level were due. Raises Loss."""
    store = Store.open(StoreConfig(path=directory, has_index=False), store_host=Host("127.0.0.1", 1), disk=LocalDisk())
    try:
        took_s = run(_deliver(store, directory, count))
        _judge(store, count)
    finally:
        store.close()
    return count / took_s


async def _deliver(store: Store, directory: Path, count: int) -> float:
    """Return how long it takes until the last one is in its topic, in seconds."""
    store.attach(asyncio.get_running_loop())
    monotonic = FakeClock(5_000)
    topics = TopicRegistry(TopicTable([plain_topic(_LATER, 1)]), lambda _: None, lambda _: None)
    notes = DeliveryProgress(LocalDisk(), directory / "delivered")
    queues = DelayQueues(store, topics, _LEVELS, notes=notes, wall_ms=now_ms(), now_ms=monotonic())
    service = DelayService(queues, directory / "delayOffset.json", now_ms, monotonic)
    for number in range(count):
        store.append(schedule(Draft(_LATER, 0, b"%0*d" % (BODY_SIZE, number)), {"UNIQ_KEY": f"U{number}"}, _LEVEL))
        if number % 1000 == 0:
            await asyncio.sleep(0)
    queues.note_arrivals(monotonic())
    if queues.deliver_due(monotonic()):
        raise Loss("a message came before its time")
    monotonic.advance(_LEVELS.delay_ms(_LEVEL))
    began_s = time.perf_counter()
    delivery = asyncio.create_task(service.run())
    while queues.are_waiting:
        await asyncio.sleep(0.001)
    took_s = time.perf_counter() - began_s
    delivery.cancel()
    await asyncio.wait((delivery,))
    service.close()
    return took_s


def _judge(store: Store, count: int) -> None:
    """Compare what came with what was sent: each once, and in order."""
    at = 0
    while at < count:
        found = store.read(_LATER, 0, at, 1000, 1 << 22)
        numbers = [int(record.body) for record in iter_records(found.body)] if found.status is ReadStatus.FOUND else []
        if not numbers or numbers != list(range(at, at + len(numbers))):
            raise Loss(f"behind {at} of {count} messages came {numbers[:3]}")
        at += len(numbers)
    if store.max_offset(_LATER, 0) != count:
        raise Loss(f"{store.max_offset(_LATER, 0)} messages came of {count}")
