from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.monitoring.half_counts import parse_counts
from orbitmq.broker.transactions import service
from orbitmq.broker.transactions.checks import TransactionChecks
from orbitmq.broker.transactions.service import TransactionService
from orbitmq.errors import StoreUnavailable
from orbitmq.model.topic import HALF_TOPIC, OP_TOPIC

from ..parts import HOST
from .world import World


def make(world: World, path: Path, *, check_ms: int = 30_000, op_ms: int = 3_000) -> TransactionService:
    return TransactionService(
        world.transactions,
        TransactionChecks(GroupMembers(), host=HOST, broker_name="a"),
        path / "transactionMetrics",
        check_interval_ms=check_ms,
        op_interval_ms=op_ms,
        clock=world.clock,
        monotonic=world.clock,
    )


async def test_op_messages_are_written_and_producers_asked_when_their_intervals_are_over(tmp_path: Path) -> None:
    world = World()
    running = make(world, tmp_path)
    world.end(world.prepare())
    world.prepare(b"open")
    await running._do_due()
    assert world.bodies(OP_TOPIC, 0) == []
    world.clock.advance(3_000)
    await running._do_due()
    assert world.bodies(OP_TOPIC, 0) == [b"0,"]
    assert len(world.records(HALF_TOPIC, 0)) == 2
    world.clock.advance(27_000)
    await running._do_due()
    assert len(world.records(HALF_TOPIC, 0)) == 3
    assert world.transactions.half_done == 2


async def test_counts_are_kept_from_time_to_time_and_at_the_end(tmp_path: Path, world: World) -> None:
    running, path = make(world, tmp_path), tmp_path / "transactionMetrics"
    world.transactions.counts.prepared("t", 5)
    await running._do_due()
    assert not path.exists()
    world.clock.advance(3_000)
    await running._do_due()
    assert parse_counts(path.read_bytes())[0] == {"t": 1}
    world.transactions.counts.prepared("t", 6)
    world.clock.advance(3_000)
    running.stop()
    world.store.close()
    running.save()
    assert parse_counts(path.read_bytes())[0] == {"t": 2}
    written = path.stat().st_mtime_ns
    running.save()
    assert path.stat().st_mtime_ns == written


def test_what_an_orderly_stop_has_said_needs_no_second_look(tmp_path: Path, world: World) -> None:
    running = make(world, tmp_path)
    world.end(world.prepare())
    running.stop()
    world.store.close()
    running.save()
    assert world.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 1
    world.open()
    assert world.bodies(OP_TOPIC, 0) == [b"0,"]
    assert not world.transactions.are_ops_waiting


async def test_a_store_that_takes_nothing_is_tried_again_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "_TICK_MS_MIN", 0)

    world = World()
    running = make(world, tmp_path, op_ms=0)
    world.end(world.prepare())
    append, tries = world.store.append, 0
    done = asyncio.Event()

    def refuse(draft: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries > 3:
            done.set()
            return append(draft)
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(world.store, "append", refuse)
    task = asyncio.create_task(running.run())
    await done.wait()
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert world.bodies(OP_TOPIC, 0) == [b"0,"]
    assert [record.message for record in caplog.records] == ["transactions cannot go on, it is tried again"]


def test_a_stop_that_cannot_write_op_messages_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    running = make(world, tmp_path)
    world.end(world.prepare())
    world.store.close()
    running.stop()
    world.open()
    assert world.open_bodies() == []
