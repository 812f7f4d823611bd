"""The file of the batches that are out in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orbitmq.broker.pop.ordered_queues import FORGOTTEN_AFTER_MS, BatchFile, OrderedQueues, load_batches
from orbitmq.testing import FakeClock

PLACE = ("t", "g", 0)


def queues(path: Path, clock: FakeClock) -> OrderedQueues:
    return OrderedQueues(load_batches(path), count_max=10, clock=clock, monotonic=clock)


def test_batches_are_written_when_they_changed_and_found_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "consumerOrderInfo.json", FakeClock(1_000_000)
    ordered = queues(path, clock)
    kept = BatchFile(path, ordered)
    asyncio.run(kept.save())
    kept.save_now()
    assert not path.exists()
    batch = ordered.give(PLACE, (4, 5), 1_000_000, 60_000, "a")
    asyncio.run(kept.save())
    assert queues(path, clock).batches == [(PLACE, batch)]
    ordered.acknowledge(PLACE, 4)
    kept.save_now()
    assert queues(path, clock).find(PLACE) == batch._replace(acked=1)
    path.unlink()
    asyncio.run(kept.save())
    kept.save_now()
    assert not path.exists()
    clock.advance(FORGOTTEN_AFTER_MS + 1)
    asyncio.run(kept.save())
    assert load_batches(path) == []


def test_a_damaged_file_is_told_of_and_stops_no_broker(tmp_path: Path, caplog) -> None:
    path = tmp_path / "consumerOrderInfo.json"
    path.write_bytes(b'{"table":5}')
    assert load_batches(path) == []
    assert "batches that were out in order come again" in caplog.text
    assert path.with_name("consumerOrderInfo.json.damaged-1").exists()
