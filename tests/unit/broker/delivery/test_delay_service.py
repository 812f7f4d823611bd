from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from orbitmq.broker.delivery import delay_service
from orbitmq.broker.delivery.delay import format_delay_offsets, parse_delay_offsets, schedule
from orbitmq.broker.delivery.delay_service import DelayService, open_delays
from orbitmq.broker.delivery.delivered_copies import DeliveredCopies
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import StoreUnavailable
from orbitmq.model.delay_levels import DelayLevels
from orbitmq.model.topic import SCHEDULE_TOPIC, DataVersion, TopicConfig
from orbitmq.store import Draft, FlushMode
from orbitmq.store.sync.durability import Waiter
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendResponse
from orbitmq.wire.messages.properties import parse_properties
from waiting import until

from ..parts import Registries, Serve, delay_queues, memory_store


async def test_a_delayed_send_is_hidden_then_delivered_to_its_own_queue(serve: Serve) -> None:
    async with serve() as harness:
        answer = await harness.send(properties="DELAY\x011\x02TAGS\x01a\x02", queue_id=3, body=b"later")
        assert decode_header(SendResponse, answer.ext_fields).queue_id == 3
        store = harness.broker.service.store
        assert store.max_offset("t", 3) == 0
        assert store.max_offset("SCHEDULE_TOPIC_XXXX", 0) == 1
        await until(lambda: store.max_offset("t", 3), pause_s=0.01)
        _, (record,) = await harness.pull(queue_id=3)
        assert bytes(record.body) == b"later"
        assert record.stored_at_ms - record.born_at_ms > 0
    async with serve() as harness:
        await asyncio.sleep(0.3)
        assert harness.broker.service.store.max_offset("t", 3) == 1


async def test_delayed_messages_wait_by_the_levels_of_the_settings_and_at_most_at_the_highest(serve: Serve) -> None:
    async with serve(message_delay_level="1s 2000h") as harness:
        store = harness.broker.service.store
        for level in (2, 18):
            assert (await harness.send(properties=f"DELAY\x01{level}\x02")).code == 0
        assert store.queue_ids(SCHEDULE_TOPIC) == [1]
        for queue_offset in (0, 1):
            (entry,) = store.queue_entries(SCHEDULE_TOPIC, 1, queue_offset, 1)
            record = store.message_at(SCHEDULE_TOPIC, 1, queue_offset)
            assert entry[2] == record.stored_at_ms + 7_200_000_000
            assert parse_properties(record.properties)["DELAY"] == "2"


class World:
    """The delivery on a store in memory, whose every look at the clock is counted."""

    def __init__(self, path: Path, flush: FlushMode = FlushMode.ASYNC) -> None:
        self.time = FakeClock(1_000_000)
        self.looks = 0
        self.disk = FakeDisk()
        self.store = memory_store(self.disk, self.time, flush)
        self.path = path / "delayOffset.json"
        topics = Registries(TopicTable([TopicConfig(topic="t")])).topics
        self.queues = delay_queues(self.store, topics, wall_ms=self.time())
        self.service = DelayService(self.queues, self.path, self.time, self.clock)

    def clock(self) -> int:
        self.looks += 1
        return self.time()

    def add(self) -> None:
        self.store.append(schedule(Draft("t", 0, b"x"), {}, 1))
        self.queues.note_arrivals(self.time())
        self.service.wake()

    @property
    def delivered(self) -> int:
        return self.store.max_offset("t", 0)

    async def look(self, count: int) -> None:
        """Return after so many more looks at the clock."""
        enough = self.looks + count
        await until(lambda: self.looks >= enough, pause_s=0)


Serving = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Run the delivery, tick after tick without a pause."""
    monkeypatch.setattr(delay_service, "TICK_MS", 0)

    @asynccontextmanager
    async def runs() -> AsyncIterator[World]:
        world = World(tmp_path)
        task = asyncio.create_task(world.service.run())
        try:
            yield world
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return runs


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_while_nothing_waits_nothing_is_checked(serving: Serving) -> None:
    async with serving() as world:
        await turns()
        assert world.looks == 0
        world.add()
        await world.look(10)
        world.time.advance(1_000)
        await until(lambda: world.delivered == 1, pause_s=0)
        world.store.flush()
        world.time.advance(1_000)
        await until(world.path.exists, pause_s=0)
        before = -1
        while world.looks != before:  # its sync may be under way
            before = world.looks
            await turns()
        await turns()
        assert world.looks == before


async def test_how_far_it_is_gets_written_as_soon_as_it_is_durable(serving: Serving) -> None:
    """A crash repeats what is not written: after a start that may be all that became due while the broker was away."""
    async with serving() as world:
        world.add()
        world.time.advance(1_000)
        await until(lambda: world.delivered == 1, pause_s=0)
        await world.look(10)
        assert not world.path.exists()
        world.store.flush()
        await until(world.path.exists, pause_s=0)


async def test_how_far_it_is_gets_written_once_a_second_at_most(serving: Serving) -> None:
    async with serving() as world:
        world.add()
        world.time.advance(500)
        world.add()
        world.time.advance(500)
        await until(lambda: world.delivered == 1, pause_s=0)
        world.store.flush()
        await until(world.path.exists, pause_s=0)
        world.path.unlink()
        world.time.advance(500)
        await until(lambda: world.delivered == 2, pause_s=0)
        world.store.flush()
        world.time.advance(499)
        await world.look(10)
        assert not world.path.exists()
        world.time.advance(1)
        await until(world.path.exists, pause_s=0)


async def test_a_delivery_that_fails_is_said_and_tried_again(
    serving: Serving, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_draft: object) -> None:
        raise StoreUnavailable("full")

    async with serving() as world:
        world.add()
        with monkeypatch.context() as full:
            full.setattr(world.store, "append", refuse)
            world.time.advance(1_000)
            await until(lambda: "delivering delayed messages failed" in caplog.text, pause_s=0)
            assert world.delivered == 0
        await until(lambda: world.delivered == 1, pause_s=0)


async def test_what_keeps_messages_waiting_is_said_once_until_it_is_something_else(
    serving: Serving, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[str] = []

    def refuse(_draft: object) -> None:
        raise StoreUnavailable(reasons[-1])

    async with serving() as world:
        world.add()
        with monkeypatch.context() as full:
            full.setattr(world.store, "append", refuse)
            world.time.advance(1_000)
            for count, reason in enumerate(("full", "broken", "full"), 1):
                reasons.append(reason)
                await until(
                    lambda count=count: caplog.text.count("delivering delayed messages failed") == count,  # type: ignore[misc]
                    pause_s=0,
                )
                await world.look(20)
                assert caplog.text.count("delivering delayed messages failed") == count
        await until(lambda: world.delivered == 1, pause_s=0)


async def test_a_delayed_message_that_becomes_readable_late_is_delivered_though_no_other_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_service, "TICK_MS", 0)
    world = World(tmp_path, FlushMode.SYNC)
    waiters: list[Waiter] = []
    # A sync that takes its time: nothing can be read before it ends.
    monkeypatch.setattr(world.store, "wait_durable", lambda position, waiter: waiters.append(waiter))
    task = asyncio.create_task(world.service.run())
    world.add()
    await turns()
    world.store.flush()
    for waiter in waiters:
        waiter(True)
    await turns()
    world.time.advance(1_000)
    await until(lambda: not world.queues.are_waiting, pause_s=0)
    world.store.flush()
    assert world.delivered == 1
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_file_that_the_disk_refuses_is_written_later(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    async with serving() as world:
        with monkeypatch.context() as patch:
            patch.setattr(delay_service, "replace_file", refuse)
            world.add()
            world.time.advance(1_000)
            await until(lambda: world.delivered == 1, pause_s=0)
            world.store.flush()
            world.time.advance(1_000)
            await until(lambda: "cannot be kept" in caplog.text, pause_s=0)
        world.time.advance(1_000)
        await until(world.path.exists, pause_s=0)
        assert parse_delay_offsets(world.path.read_bytes())[0][1] == 1


def test_levels_that_a_change_of_masters_has_cut_are_lower_in_the_file_before_others_come(tmp_path: Path) -> None:
    """Those of the new master that come to the place of the lost ones were not delivered."""
    files = ConfigFiles(tmp_path)
    files.delays_path.write_bytes(format_delay_offsets({1: 5, 2: 1}, DataVersion()))
    clock = FakeClock()
    store = memory_store(clock=clock)
    for level in (1, 2):
        store.append(schedule(Draft("t", 0, b"x"), {}, level))
    topics = Registries().topics
    open_delays(store, topics, files, DelayLevels((1_000, 5_000)), DeliveredCopies(), clock, clock).close()
    assert parse_delay_offsets(files.delays_path.read_bytes())[0] == {1: 1, 2: 1}
