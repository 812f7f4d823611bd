from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.timers.service import CLEAN_MS, TimerService
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import Rejected
from orbitmq.model.topic import TIMER_TOPIC, TopicConfig
from orbitmq.store import Draft, FlushMode
from orbitmq.store.timers.checkpoint import parse_timer_checkpoint
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import parse_properties
from waiting import until

from ..parts import Registries, memory_store, timer_service


class World:
    """A service over a store in memory, whose clocks the test moves."""

    def __init__(self, path: Path, flush: FlushMode = FlushMode.ASYNC, **settings: Any) -> None:
        self.path = path
        self.clock = FakeClock()
        self.disk = FakeDisk()
        self.store = memory_store(clock=self.clock, flush=flush)
        self.registries = Registries(TopicTable([TopicConfig(topic="t")]))
        self.service: TimerService = timer_service(
            self.store, self.registries.topics, clock=self.clock, disk=self.disk, store_path_root_dir=path, **settings
        )

    def add(self, body: bytes = b"x", delay_ms: int = 2_000) -> None:
        self.store.append(self.service.waiting(Draft("t", 0, body), {"TIMER_DELAY_MS": str(delay_ms), "UNIQ_KEY": "K"}))
        self.service.wake()

    @property
    def delivered(self) -> int:
        return self.store.max_offset("t", 0)

    @property
    def kept(self) -> int:
        """What the checkpoint on the disk says of the queue."""
        return parse_timer_checkpoint(self.disk.read(self.path / "config" / "timercheck")).queue_offset

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.service.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_message_is_put_into_the_wheel_and_delivered_in_time(tmp_path: Path) -> None:
    world = World(tmp_path, timer_precision_ms=100)

    async with world.running():
        world.add()
        await until(lambda: world.service.timers.pending_count == 1)
        world.clock.advance(1_900)
        await asyncio.sleep(0)
        assert world.delivered == 0
        world.clock.advance(100)
        await until(lambda: world.delivered == 1)
        assert world.service.behind_ms == 0


async def test_it_is_kept_how_far_everything_is_once_the_log_is_on_the_disk(tmp_path: Path) -> None:
    world = World(tmp_path, timer_precision_ms=100)

    async with world.running():
        world.add()
        await until(lambda: world.service.timers.is_changed)
        world.clock.advance(1_000)
        world.service.wake()
        await until(lambda: world.service._snapshot is not None)
        assert world.kept == 0
        world.store.flush()
        world.service.wake()
        await until(lambda: world.kept == 1)
        await until(lambda: not world.service.timers.is_changed)
        assert (tmp_path / "config" / "timermetrics").exists()
        assert world.service.checkpoint.queue_offset == 1


async def test_a_disk_that_refuses_the_checkpoint_is_asked_again(tmp_path: Path) -> None:
    world = World(tmp_path, timer_precision_ms=100)
    world.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")

    async with world.running():
        world.add()
        await until(lambda: world.service.timers.is_changed)
        world.store.flush()
        world.clock.advance(1_000)
        world.service.wake()
        await until(lambda: world.service.save_failure is not None)
        world.disk.failures.clear()
        world.clock.advance(1_000)
        world.service.wake()
        await until(lambda: world.kept == 1)
        await until(lambda: world.service.save_failure is None)


async def test_after_a_failed_sync_no_checkpoint_covers_anything(tmp_path: Path) -> None:
    world = World(tmp_path, timer_precision_ms=100)
    world.disk.failures["sync"] = OSError(errno.EIO, "input/output error")

    async with world.running():
        world.add()
        await until(lambda: world.service.timers.is_changed)
        world.store.flush()
        world.clock.advance(1_000)
        world.service.wake()
        await until(lambda: world.service.save_failure is not None)
        world.disk.failures.clear()
        world.clock.advance(2_000)
        world.service.wake()
        await until(lambda: world.delivered == 1)
    world.store.close()
    world.service.close()
    assert world.kept == 0
    assert "until a restart" in (world.service.save_failure or "")


async def test_a_snapshot_of_files_that_are_rebuilt_meanwhile_is_not_kept(world: World) -> None:
    service = world.service
    world.add()
    service.timers.enqueue(world.clock())
    world.clock.advance(1_000)
    service._save_in_time()
    assert service._snapshot is not None, "it waits for the log"
    world.disk.files[world.path / "timerwheel"].was_cut = True
    service.timers.deliver_due(world.clock())
    world.store.flush()
    service._save_in_time()
    assert service._snapshot is None
    assert service._saving is None


async def test_a_disk_without_room_for_the_wheel_is_told_and_asked_again(tmp_path: Path) -> None:
    world = World(tmp_path, timer_precision_ms=100)
    world.disk.capacity = 0

    async with world.running():
        world.add()
        await until(lambda: world.service.failure.text is not None)
        world.disk.capacity = 1 << 40
        await until(lambda: world.service.failure.text is None)
        assert world.service.timers.pending_count == 1


async def test_with_sync_flush_a_message_is_looked_at_when_it_is_on_the_disk(tmp_path: Path) -> None:
    world = World(tmp_path, flush=FlushMode.SYNC, timer_precision_ms=100)

    world.store.attach(asyncio.get_running_loop())
    async with world.running():
        world.add()
        await until(lambda: world.service.timers.pending_count == 1)
    world.store.close()


def test_a_stop_keeps_how_far_everything_is(world: World) -> None:
    world.add()
    world.service.timers.enqueue(world.clock())
    world.store.close()
    world.service.close()
    assert world.kept == 1


def test_a_stop_whose_disk_refuses_that_goes_on(caplog: pytest.LogCaptureFixture, world: World) -> None:
    world.add()
    world.service.timers.enqueue(world.clock())
    world.store.close()
    world.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    world.service.close()
    assert "cannot be written" in caplog.text


def test_a_log_file_whose_messages_are_gone_is_deleted_in_time(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    asked: list[int] = []
    monkeypatch.setattr(world.service._files.log, "delete_before", asked.append)
    world.service._clean_in_time()
    world.clock.advance(CLEAN_MS)
    world.service._clean_in_time()
    world.service._clean_in_time()
    assert asked == [0]


def test_a_message_that_asks_for_a_time_waits_and_one_whose_time_is_over_does_not(tmp_path: Path) -> None:
    world = World(tmp_path, timer_congest_num_each_slot=1)
    assert world.service.waiting(Draft("t", 1, b"x"), {"TIMER_DELAY_SEC": "0", "A": "b"}) == Draft(
        "t", 1, b"x", b"TIMER_DELAY_SEC\x010\x02A\x01b\x02"
    )
    assert world.service.waiting(Draft("t", 1, b"x"), {"TIMER_DELAY_SEC": "1"}).topic == TIMER_TOPIC
    for _ in range(2):
        world.add()
    world.service.timers.enqueue(world.clock())
    with pytest.raises(Rejected, match="2 messages are due"):
        world.add()


def test_the_handle_of_a_message_leads_to_its_step(world: World) -> None:
    stored = world.service.waiting(Draft("t", 0, b"x"), {"TIMER_DELAY_SEC": "5", "UNIQ_KEY": "K"})
    handle = world.service.recall_handle("t", stored)
    assert handle is not None
    again = world.service.waiting(
        Draft("t", 0, b"0"), {"TIMER_DELIVER_MS": str(int(parse_properties(stored.properties)["TIMER_OUT_MS"]) + 1)}
    )
    assert parse_properties(again.properties)["TIMER_OUT_MS"] == parse_properties(stored.properties)["TIMER_OUT_MS"]
    assert world.service.recall_handle("t", stored._replace(properties=b"A\x01b\x02")) is None


def test_how_late_the_delivery_is(world: World) -> None:
    assert world.service.behind_ms == 0
    world.add()
    world.service.timers.enqueue(world.clock())
    world.clock.advance(5_000)
    assert world.service.behind_ms == 5_000


def test_what_is_wrong_is_told_in_sentences(world: World) -> None:
    assert world.service.warnings == []
    world.service.failure.text = "OSError: no room"
    world.service.save_failure = "it cannot be written"
    world.service._files.aside.append(Path("/store/quarantine/timerlog-1"))
    told = world.service.warnings
    assert [any(word in line for line in told) for word in ("no room", "written", "timerlog-1")] == [True] * 3
    assert len(told) == 3
