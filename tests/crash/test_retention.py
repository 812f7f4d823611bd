"""Retention at work: over many times what is kept nothing grows, and a kill in the middle of a deletion loses nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from children import environment
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.clock import now_ms
from orbitmq.net.pool import ConnectionPool
from orbitmq.store import ReadStatus, Store
from orbitmq.testing import FakeClock
from orbitmq.wire.headers import PullMessage, PullSysFlag, SendMessageV2
from orbitmq.wire.messages.record import iter_records
from seeds import SEED
from waiting import until

from . import retention_child as child

HOUR_MS = 3_600_000
PERIODS = 44
"""Half hours; each message is kept for an hour."""
MESSAGES_PER_PERIOD = 150
QUEUES = range(3)
SEGMENT_SIZE = 65_536
QUEUE_UNITS = 50


def send(queue_id: int) -> SendMessageV2:
    return SendMessageV2(
        producer_group="p", topic="orders", default_topic="TBW102", default_topic_queue_nums=len(QUEUES),
        queue_id=queue_id, sys_flag=0, born_at_ms=1, flag=0, properties="TAGS\x01a\x02",
    )  # fmt: skip


class Reader:
    """Reads every queue to its end, and holds each body against the number that was sent."""

    def __init__(self, pool: ConnectionPool, address: str) -> None:
        self._pool = pool
        self._address = address
        self.offsets = dict.fromkeys(QUEUES, 0)

    async def read(self, queue_id: int, offset: int | None = None) -> int:
        """Return how many messages there were from the consumer's offset, or another one, on."""
        at = start = self.offsets[queue_id] if offset is None else offset
        while True:
            header = PullMessage(
                consumer_group="g", topic="orders", queue_id=queue_id, queue_offset=at, count_max=1000,
                sys_flag=PullSysFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_ms=0, subscription="*", sub_version=0,
            )  # fmt: skip
            answer = await self._pool.request(self._address, header)
            if answer.code == 19:
                break
            assert answer.code == 0, answer.remark
            for record in iter_records(answer.body):
                assert bytes(record.body).split(b" ")[0] == b"%d" % at
                assert record.queue_offset == at
                at += 1
        if offset is None:
            self.offsets[queue_id] = at
        return at - start


class Taken:
    """What the process and the disk hold of a store."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def now(self) -> dict[str, int]:
        descriptors = Path("/proc/self/fd")
        links = [os.readlink(link) for link in descriptors.iterdir() if link.is_symlink()]
        maps = Path("/proc/self/maps").read_text()
        files = [Path(directory, name) for directory, _, names in os.walk(self._root) for name in names]
        return {
            "descriptors": sum(link.startswith(self._root) for link in links),
            "maps": len(re.findall(re.escape(self._root) + r"/.*[0-9]{20}", maps)),
            "files": len(files),
            "blocks": sum(path.stat().st_blocks for path in files),
        }


def has_deleted(store: Store, log_min: int) -> bool:
    return store.retention.deleted_segments * SEGMENT_SIZE >= log_min


def has_followed(store: Store, queue_id: int, first: int) -> bool:
    """Return True if no file of a queue is left that may be deleted."""
    queue = store._queues.get("orders", queue_id)
    return queue is not None and queue.base_offset + QUEUE_UNITS >= first


@pytest.mark.proof
async def test_over_many_times_what_is_kept_nothing_grows_and_nothing_unexpired_is_lost(tmp_path: Path) -> None:
    clock = FakeClock(1_700_000_000_000)
    broker = Broker(
        BrokerConfig(
            broker_name="a", bind_address="127.0.0.1", listen_port=0, store_path_root_dir=tmp_path / "store",
            mapped_file_size_commit_log=SEGMENT_SIZE, mapped_file_size_consume_queue=QUEUE_UNITS * 20, file_reserved_time=1,
            delete_when=";".join(map(str, range(24))), delete_commit_log_files_interval=0, delete_file_batch_max=1000,
            delete_consume_queue_files_interval=0, clean_resource_interval=100, disk_space_clean_forcibly_ratio=100,
            disk_space_warning_level_ratio=100,
        ),
        clock=clock,
        monotonic=clock,
    )  # fmt: skip
    await broker.start()
    pool = ConnectionPool()
    try:
        store, taken, seen = broker.service.store, Taken(tmp_path / "store"), []
        reader = Reader(pool, broker.address)
        begins: list[int] = []
        sent = dict.fromkeys(QUEUES, 0)
        for period in range(PERIODS):
            begins.append(store.max_physical_offset)
            for number in range(MESSAGES_PER_PERIOD):
                queue_id = number % len(QUEUES)
                body = b"%d" % sent[queue_id] + b" " * 1000
                answer = await pool.request(broker.address, send(queue_id), body)
                assert answer.code == 0, answer.remark
                sent[queue_id] += 1
            assert sum([await reader.read(queue_id) for queue_id in QUEUES]) == MESSAGES_PER_PERIOD
            store.flush()
            clock.advance(HOUR_MS // 2)
            if period < 3:
                continue
            # All but the last period's messages have had their hour; the file with the last of them has newer ones, too.
            kept = (begins[period] - 1) // SEGMENT_SIZE * SEGMENT_SIZE
            await until(partial(has_deleted, store, kept), pause_s=0.01)
            assert store.min_physical_offset == kept
            for queue_id in QUEUES:
                first = store.min_offset("orders", queue_id)
                await until(partial(has_followed, store, queue_id, first), pause_s=0.01)
                unexpired = MESSAGES_PER_PERIOD // len(QUEUES)
                assert await reader.read(queue_id, first) == sent[queue_id] - first >= unexpired
            seen.append(taken.now())
        assert store.retention.deleted_segments > 80
        assert store.retention.deleted_queue_files > 20
    finally:
        await pool.close()
        await broker.stop()
    early, late = seen[2:12], seen[-10:]
    for what in early[0]:
        most_early, most_late = max(each[what] for each in early), max(each[what] for each in late)
        assert most_late <= most_early * 1.1 + 2, f"{what}: {seen}"


class Said(NamedTuple):
    """What the process said: the last message that is on the disk, when it was stored, files deleted."""

    queue_offset: int
    stored_at_ms: int
    deleted_segments: int


def kill_in_the_middle(path: Path, random: Random) -> tuple[list[Said], int]:
    """Let a process write and clean, kill it; return what it said, and when it was dead."""
    command = [sys.executable, "-m", "crash.retention_child", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        said: list[Said] = []
        rounds = random.randrange(10, 50)
        while len(said) < rounds or said[-1].deleted_segments < 3:
            line = process.stdout.readline()
            assert line, "the process ended by itself"
            said.append(Said(*map(int, line.split())))
        process.kill()
    return said, now_ms()


def read_whole(store: Store) -> tuple[int, int]:
    """Read all that is left of the busy queue; return its ends."""
    first = at = store.min_offset("orders", 0)
    while (found := store.read("orders", 0, at)).status is ReadStatus.FOUND:
        for record in iter_records(found.body):
            assert bytes(record.body).split(b" ")[0] == b"%d" % record.queue_offset == b"%d" % at
            at += 1
    return first, at


@pytest.mark.parametrize(("seed", "kills"), [(SEED, 3), pytest.param(1, 9, marks=pytest.mark.proof)])
def test_a_kill_in_the_middle_of_deletions_loses_nothing_that_has_not_expired(
    tmp_path: Path, seed: int, kills: int
) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    begun_at = seen = 0
    for kill in range(kills):
        said, dead_at_ms = kill_in_the_middle(tmp_path, random)
        store = child.open_store(tmp_path)
        first, end = read_whole(store)
        assert end > said[-1].queue_offset, f"acknowledged messages are gone after kill {kill}"
        unexpired = [each.queue_offset for each in said if each.stored_at_ms > dead_at_ms - child.RESERVED_MS]
        seen += len(unexpired)
        assert all(first <= queue_offset for queue_offset in unexpired)
        assert first >= begun_at
        begun_at = first
        assert store.max_offset("quiet", 0) == child.QUIET_COUNT, "an offset would be given twice"
        assert (store.recovery_report.rebuilt, store.recovery_report.lost_head_size) == ([], 0)
        if kill % 3 == 2:
            store.close()  # an orderly stop in between
        else:
            store._close_files()
    assert begun_at > 0
    assert seen > kills
