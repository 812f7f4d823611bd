"""A broker's process at the limits of its machine: no room on the disk, no larger files, no descriptors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.broker_process import BrokerProcess, Wire, wire_to

SENT, REFUSED = 0, 14
SMALL_FILES = {
    "mappedFileSizeCommitLog": 2 << 20,
    "mappedFileSizeConsumeQueue": 400 * 20,
    "flushDiskType": "SYNC_FLUSH",
}
# The file system is a test's own: how full it is decides nothing but whether a write finds room.
NO_RETENTION = {
    "diskSpaceWarningLevelRatio": 100, "diskSpaceCleanForciblyRatio": 100, "diskMaxUsedSpaceRatio": 100,
    "cleanFileForciblyEnable": "false",
}  # fmt: skip


def bodies() -> Iterator[bytes]:
    return (b"%08d" % number + bytes(100_000) for number in itertools.count())


async def fill(wire: Wire, some: Iterator[bytes]) -> tuple[list[bytes], int]:
    """Send until a send is refused; return what was acknowledged, and the answer's code."""
    acknowledged = []
    while (code := await wire.send("orders", body := next(some))) == SENT:
        acknowledged.append(body)
    return acknowledged, code


async def test_a_full_disk_refuses_with_a_code_readers_go_on_and_room_is_enough_to_go_on(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    with BrokerProcess(small_disk, SMALL_FILES | NO_RETENTION) as broker:
        some = bodies()
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == SENT
            assert await wire.read("orders") == []  # a new group has to be kept: it cannot come while the disk is full
            acknowledged, code = await fill(wire, some)
            assert code == REFUSED
            assert await wire.read("orders") == acknowledged
            ballast.unlink()
            while await wire.send("orders", body := next(some)) != SENT:
                await asyncio.sleep(0.05)
            acknowledged.append(body)
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            assert await wire.read("orders") == acknowledged


async def test_a_limit_of_file_sizes_refuses_with_a_code_and_costs_nothing(tmp_path: Path) -> None:
    """The log's files are larger than the process may write: the first message finds no file, and hears so."""
    with BrokerProcess(tmp_path, SMALL_FILES, file_size=1 << 20) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == SENT
            assert [await wire.send("orders", b"too early") for _ in range(3)] == [REFUSED] * 3
        broker.kill()
    with BrokerProcess(tmp_path, SMALL_FILES) as broker:
        async with wire_to(broker) as wire:
            assert await wire.send("orders", b"now") == SENT
            assert await wire.read("orders") == [b"now"]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", pytest.param("ASYNC_FLUSH", marks=pytest.mark.proof)])
async def test_more_queues_than_descriptors_cost_no_message(tmp_path: Path, flush: str) -> None:
    topics = [f"topic-{number}" for number in range(80)]
    with BrokerProcess(tmp_path, {"flushDiskType": flush}, descriptors=256) as broker:
        async with wire_to(broker) as wire:
            for topic in topics:
                assert await wire.create(topic, 4) == SENT
            answers = await asyncio.gather(
                *[wire.send(topic, topic.encode(), queue_id) for topic in topics for queue_id in range(4)]
            )
            assert answers == [SENT] * 4 * len(topics)
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            for topic in topics:
                assert [await wire.read(topic, queue_id) for queue_id in range(4)] == [[topic.encode()]] * 4
