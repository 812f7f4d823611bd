"""Group commits, rounds of consume queues, and checkpoints, on a flusher's thread."""

import asyncio
import errno
import os
import threading
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq.errors import StoreBusy
from orbitmq.store import FlushMode, StoreIssueKind
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.checkpoint import parse_checkpoint
from orbitmq.testing.fake_disk import FakeDisk
from waiting import until

from ..parts import ROOT, draft, store_of


class WatchedDisk(FakeDisk):
    """Counts syncs on the flusher's thread; those of the CommitLog can be made to wait at a gate."""

    def __init__(self, *, is_gated=False):
        super().__init__()
        self.gate = threading.Semaphore(0) if is_gated else None
        self.syncs = 0

    def act(self, operation, path):
        is_main = threading.current_thread() is threading.main_thread()
        if operation == "sync" and "commitlog" in path.parts and not is_main:
            self.syncs += 1
            if self.gate:
                self.gate.acquire()
        super().act(operation, path)


@asynccontextmanager
async def attached(disk, **changes):
    """Attach a store to the running loop, and close it afterwards."""
    settings = {"flush": FlushMode.SYNC, "checkpoint_interval_ms": 3_600_000, **changes}
    store = store_of(disk, **settings)
    store.attach(asyncio.get_running_loop())
    try:
        yield store
    finally:
        if disk.gate:
            disk.gate.release(1000)
        store.close()


def waiting(store, **changes):
    answer = asyncio.get_running_loop().create_future()
    result = store.append(draft(**changes))
    assert store.wait_durable(result.end, answer.set_result) is False
    return answer


async def closed_during_a_sync(disk, before_it_ends=lambda: None):
    """Close a store while a sync for one waiting message is under way; return what the message was answered."""
    async with attached(disk) as store:
        answer = waiting(store)
        await until(lambda: disk.syncs == 1)
        before_it_ends()
        disk.gate.release()
        store.close()
        return answer.result()


async def test_one_sync_answers_all_appends_in_the_same_turn():
    disk = WatchedDisk()

    async with attached(disk) as store:
        assert (await asyncio.gather(*[waiting(store) for _ in range(30)]), disk.syncs) == ([True] * 30, 1)


async def test_a_waiter_that_fails_does_not_delay_the_answers_of_others(caplog):
    def fail(_is_durable: bool) -> None:
        raise RuntimeError("a waiter's own fault")

    async with attached(WatchedDisk()) as store:
        assert store.wait_durable(store.append(draft()).end, fail) is False
        assert await waiting(store) is True
    assert "a waiter for durability failed" in caplog.text


async def test_a_message_without_a_waiter_is_synced_and_shown_all_the_same():
    async with attached(WatchedDisk()) as store:
        store.append(draft())
        await until(lambda: store.max_offset("orders", 0) == 1)


async def test_who_comes_during_a_sync_shares_the_next_one():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk) as store:
        first = waiting(store)
        await until(lambda: disk.syncs == 1)
        others = [waiting(store) for _ in range(20)]
        disk.gate.release()
        assert await first
        assert not any(answer.done() for answer in others)
        assert store.max_offset("orders", 0) == 1
        disk.gate.release()
        assert (await asyncio.gather(*others), disk.syncs) == ([True] * 20, 2)


async def test_a_sync_that_fails_on_the_thread_answers_no_and_fences_upstream_2706():
    disk = WatchedDisk()

    async with attached(disk) as store:
        disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
        answers = await asyncio.gather(*[waiting(store) for _ in range(5)])
        disk.failures.clear()
        assert (answers, store.is_writable, store.max_offset("orders", 0)) == ([False] * 5, False, 0)
    assert disk.exists(ROOT / "abort")


async def test_a_sync_that_failed_while_the_store_was_closing_is_not_forgotten():
    disk = WatchedDisk(is_gated=True)

    def fail():
        disk.failures["sync"] = OSError(errno.EIO, "Input/output error")

    assert await closed_during_a_sync(disk, fail) is False
    assert disk.exists(ROOT / "abort")


async def test_queues_and_checkpoint_follow_in_rounds():
    disk = WatchedDisk()

    async with attached(disk, checkpoint_interval_ms=1) as store:
        for queue_id in range(11):
            await waiting(store, queue_id=queue_id)
        await until(lambda: parse_checkpoint(disk.read(ROOT / "checkpoint")).consume_queue_ms == 1000)

        def synced():
            return [file for path, file in disk.files.items() if "consumequeue" in path.parts and file.durable]

        await until(lambda: len(synced()) == 11)
        assert sum(any(file.durable) for file in synced()) == 11


async def test_a_failed_sync_in_a_round_fences_as_well():
    class BrokenQueues(WatchedDisk):
        def act(self, operation, path):
            super().act(operation, path)
            if operation == "sync" and "consumequeue" in path.parts:
                raise OSError(errno.EIO, "Input/output error")

    disk = BrokenQueues()

    async with attached(disk, checkpoint_interval_ms=1) as store:
        await waiting(store)
        await until(lambda: not store.is_writable)
    assert disk.exists(ROOT / "abort")


@pytest.mark.parametrize("interval", ["flush_interval_ms", "checkpoint_interval_ms"])
async def test_async_flush_syncs_by_itself(interval):
    disk = WatchedDisk()
    intervals: dict[str, Any] = {"flush_interval_ms": 3_600_000, "checkpoint_interval_ms": 3_600_000, interval: 1}
    store = store_of(disk, **intervals)
    store.attach(asyncio.get_running_loop())
    result = store.append(draft())
    await until(lambda: store.durable_offset == result.end)
    store.close()


async def test_a_sync_that_failed_only_on_the_thread_keeps_a_closing_store_from_vouching():
    class OnceBrokenDisk(WatchedDisk):
        def act(self, operation, path):
            super().act(operation, path)
            if operation == "sync" and threading.current_thread() is not threading.main_thread():
                raise OSError(errno.EIO, "Input/output error")

    disk = OnceBrokenDisk(is_gated=True)
    assert await closed_during_a_sync(disk) is False
    assert disk.exists(ROOT / "abort")


async def test_a_store_has_one_thread_from_attach_to_close_and_it_keeps_no_process_alive():
    before = set(threading.enumerate())

    async with attached(WatchedDisk()) as store:
        (flusher,) = set(threading.enumerate()) - before
        assert flusher.daemon
        store.close()
        assert not flusher.is_alive()


def test_a_broker_without_a_descriptor_left_keeps_its_store_writable_and_syncs_when_it_has_some(tmp_path, monkeypatch):
    opened, refused = os.open, []

    def open_none(path, *rest, **more):
        if "consumequeue" in str(path):
            refused.append(path)
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, *rest, **more)

    async def scenario(store):
        await waiting(store)
        monkeypatch.setattr("orbitmq.store.local_disk.os.open", open_none)
        await until(lambda: len(refused) > 1 or not store.is_writable)
        assert store.is_writable
        assert await waiting(store), "who sends is answered all the same"
        assert "Too many open files" in store.warnings[0]
        assert store.issues[0].kind is StoreIssueKind.UNSYNCED
        monkeypatch.setattr("orbitmq.store.local_disk.os.open", opened)
        await until(lambda: store.warnings == [])

    async def run():
        config = {"path": tmp_path, "flush": FlushMode.SYNC, "checkpoint_interval_ms": 1}
        store = store_of(LocalDisk(), **config)
        store.attach(asyncio.get_running_loop())
        try:
            await scenario(store)
        finally:
            store.close()

    asyncio.run(run())
    assert not (tmp_path / "abort").exists()


async def test_a_full_disk_that_refuses_the_first_checkpoint_leaves_the_store_writable():
    disk = WatchedDisk()

    async with attached(disk, checkpoint_interval_ms=1) as store:
        disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
        assert await waiting(store)
        await until(lambda: store.warnings)
        sentence = "the checkpoint cannot be written: [Errno 28] No space left on device"
        assert store.issues == [(StoreIssueKind.CHECKPOINT_UNSAVED, sentence)]
        assert await waiting(store)
        disk.failures.clear()
        await until(lambda: store.warnings == [])
    assert not disk.exists(ROOT / "abort")


@pytest.mark.parametrize("operation", ["write", "remove"])
async def test_a_stop_that_a_full_disk_keeps_from_its_last_words_is_not_orderly_and_ends_all_the_same(operation):
    disk = WatchedDisk()

    async with attached(disk) as store:
        assert await waiting(store)
        disk.failures[operation] = OSError(errno.ENOSPC, "No space left on device")
        store.close()
    assert (disk.exists(ROOT / "abort"), disk.locked) == (True, set())


async def test_a_hung_disk_bounds_what_waits_for_it_and_refuses_the_rest_until_it_answers():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk, waiting_size_max=5000) as store:
        answers = [waiting(store, body=bytes(1000)) for _ in range(3)]
        with pytest.raises(StoreBusy, match="busy"):
            store.append(draft())
        with pytest.raises(StoreBusy):
            store.append_batch([draft()])
        sentence = "the broker is busy: the disk does not keep up with what waits for it"
        assert store.issues == [(StoreIssueKind.BUSY, sentence)]
        disk.gate.release(1000)
        assert await asyncio.gather(*answers) == [True] * 3
        assert await waiting(store)


async def test_entries_that_the_disk_does_not_take_are_bounded_and_messages_refused_until_it_does():
    disk = WatchedDisk()

    async with attached(disk, flush=FlushMode.ASYNC, checkpoint_interval_ms=1, entries_size_max=200) as store:
        disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
        for queue_id in range(11):
            store.append(draft(queue_id=queue_id))
        await until(lambda: not store.is_writable)
        with pytest.raises(StoreBusy, match="queueEntriesMax"):
            store.append(draft())
        assert store.entries_size == 220
        assert store.issues[0].kind is StoreIssueKind.BUSY
        disk.failures.clear()
        await until(lambda: store.is_writable)
        store.append(draft())
        await until(lambda: store.entries_size == 0)


async def test_async_flush_refuses_what_a_hung_disk_would_never_get_until_it_answers():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk, flush=FlushMode.ASYNC, flush_interval_ms=3_600_000, waiting_size_max=5000) as store:
        ends = [store.append(draft(body=bytes(1000))).end for _ in range(5)]
        assert store.wait_durable(ends[2], lambda _: None)
        store.append(draft(body=b""))
        assert store.wait_durable(ends[4], lambda _: None)
        with pytest.raises(StoreBusy, match="busy"):
            store.append(draft())
        disk.gate.release(1000)
        await until(lambda: store.is_writable)
        store.append(draft())
    assert disk.syncs


def test_without_a_flusher_async_flush_syncs_when_too_much_waits(disk):
    store = store_of(disk, waiting_size_max=500)
    result = store.append(draft(body=bytes(1000)))
    assert store.wait_durable(result.end, lambda _: None)
    assert store.durable_offset == result.end
    store.append(draft())
    store.close()


async def test_small_messages_that_wait_count_with_what_they_take_of_memory():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk, waiting_size_max=11 * 1024) as store:
        for _ in range(10):
            store.append(draft(body=b""))
        answer = waiting(store, body=b"")
        with pytest.raises(StoreBusy):
            store.append(draft())
        disk.gate.release(1000)
        assert await answer


async def test_a_hung_disk_answers_none_at_the_time_out():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk, sync_timeout_ms=10) as store:
        assert await waiting(store) is None
        await until(lambda: "the disk hangs: a sync has not ended within 10 ms" in store.warnings)
        assert StoreIssueKind.DISK_HANGS in [issue.kind for issue in store.issues]
        disk.gate.release(1000)
        await until(lambda: store.warnings == [])
        await until(lambda: store.max_offset("orders", 0) == 1)


async def test_each_sync_counts_with_the_time_that_it_took():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk) as store:
        answer = waiting(store)
        await until(lambda: disk.syncs == 1)
        assert store.sync_s.count == 0
        disk.gate.release(1000)
        assert await answer
        assert store.sync_s.count == 1
        assert store.sync_s.total > 0


async def test_what_waits_for_its_sync_is_behind_for_readers_until_then():
    disk = WatchedDisk(is_gated=True)

    async with attached(disk) as store:
        answer = waiting(store)
        assert store.dispatch_behind_size == store.max_physical_offset
        disk.gate.release(1000)
        assert await answer
        assert store.dispatch_behind_size == 0
