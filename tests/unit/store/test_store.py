"""The store's public face."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from orbitmq.errors import InvalidArgument, StoreError, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.store.sync.checkpoint import parse_checkpoint
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import parse_record
from orbitmq.wire.messages.tags import tag_code
from waiting import until

HOST = Host("127.0.0.1", 10911)
ROOT = Path("/store")


def store_of(disk=None, clock=None, **changes):
    config = StoreConfig(**{"path": ROOT, "segment_size": 4096, "consume_queue_units": 8, **changes})
    return Store.open(config, store_host=HOST, clock=clock or FakeClock(1000), disk=disk or FakeDisk())


def draft(topic="orders", queue_id=0, body=b"hello", **changes):
    return Draft(topic, queue_id, body, **changes)


def test_offsets_count_per_queue_and_bytes_per_log():
    store = store_of()
    results = [store.append(draft(queue_id=queue_id)) for queue_id in (0, 1, 0)]
    assert [result.queue_offset for result in results] == [0, 0, 1]
    assert [result.physical_offset for result in results] == [0, results[0].size, 2 * results[0].size]
    assert store.max_physical_offset == results[-1].end


def test_time_never_goes_back():
    clock = FakeClock(1000)
    store = store_of(clock=clock)
    assert store.append(draft()).stored_at_ms == 1000
    clock.set(400)
    assert store.append(draft()).stored_at_ms == 1000
    clock.set(1001)
    assert store.append(draft()).stored_at_ms == 1001


@pytest.mark.parametrize(("given", "code"), [(None, tag_code("new")), (12345, 12345)])
def test_listeners_hear_of_every_message_with_its_tag_code(given, code):
    store, heard = store_of(), []
    store.on_arrived.append(lambda *message: heard.append(message))
    store.append(draft(properties=b"TAGS\x01new\x02", tag_code=given))
    store.append(draft(sys_flag=0x4))
    assert heard == [("orders", 0, 0, code)]


def test_a_listener_that_fails_does_not_turn_a_stored_message_into_an_error(caplog):
    store = store_of()
    store.on_arrived.append(lambda *_message: 1 // 0)
    assert store.append(draft()).queue_offset == 0
    assert "a listener for arriving messages failed" in caplog.text


@pytest.mark.parametrize("flush", FlushMode)
def test_consumers_of_the_dispatch_get_the_whole_value(flush):
    store, told = store_of(flush=flush), []
    store.dispatch_consumers.append(told.append)
    store.append(draft(properties=b"KEYS\x01k\x02", sys_flag=0x4))
    store.append(draft(queue_id=2, properties=b"KEYS\x01k\x02"))
    store.flush()
    assert [(m.queue_id, m.queue_offset, m.sys_flag, m.properties) for m in told] == [
        (0, 0, 0x4, b"KEYS\x01k\x02"),
        (2, 0, 0, b"KEYS\x01k\x02"),
    ]
    assert store.max_offset("orders", 0) == 0
    assert store.max_offset("orders", 2) == 1


def test_a_batch_gets_consecutive_offsets():
    store = store_of()
    assert [result.queue_offset for result in store.append_batch([draft(body=b"%d" % n) for n in range(20)])] == list(
        range(20)
    )
    assert store.read("orders", 0, 0).message_count == 20


def test_a_batch_with_one_bad_message_is_refused_whole():
    store = store_of()
    with pytest.raises(InvalidArgument):
        store.append_batch([draft(), draft(properties=b"bad\0")])
    assert store.max_physical_offset == 0


def test_a_message_is_found_by_its_place():
    store = store_of()
    store.append(draft())
    result = store.append(draft(body=b"second"))
    assert parse_record(store.record_at(result.physical_offset)).body == b"second"
    assert store.record_at(result.physical_offset, result.size) == store.record_at(result.physical_offset)
    assert store.record_at(result.physical_offset, result.size + 1) is None
    assert store.record_at(result.physical_offset + 1) is None


def test_in_sync_flush_nothing_is_visible_before_it_is_durable_upstream_8239():
    store, heard, answers = store_of(flush=FlushMode.SYNC), [], []
    store.on_arrived.append(lambda *message: heard.append(message))
    result = store.append(draft())
    assert store.max_offset("orders", 0) == 0
    assert store.record_at(result.physical_offset) is None
    assert heard == []
    assert store.wait_durable(result.end, answers.append) is False
    assert answers == [True]
    assert store.max_offset("orders", 0) == 1
    assert store.read("orders", 0, 0).status is ReadStatus.FOUND
    assert store.record_at(result.physical_offset) is not None
    assert len(heard) == 1
    assert store.wait_durable(result.end, answers.append) is True
    assert store.durable_offset == result.end


def test_async_flush_promises_nothing_and_waits_for_nothing():
    store = store_of()
    assert store.wait_durable(store.append(draft()).end, pytest.fail) is True


def test_a_queue_that_waits_for_its_sync_still_counts_on():
    store = store_of(flush=FlushMode.SYNC)
    assert [store.append(draft()).queue_offset for _ in range(20)] == list(range(20))
    store.flush()
    assert store.read("orders", 0, 0).message_count == 20


def test_a_failed_sync_fences_the_store_and_no_later_success_is_trusted_upstream_2706():
    disk, answers = FakeDisk(), []
    store = store_of(disk, flush=FlushMode.SYNC)
    store.append(draft())
    store.flush()
    result = store.append(draft())
    disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
    assert store.wait_durable(result.end, answers.append) is False
    disk.failures.clear()
    store.flush()
    assert answers == [False]
    assert not store.is_writable
    assert store.max_offset("orders", 0) == 1
    with pytest.raises(StoreUnavailable, match=r"read-only since a sync failed .*Input/output error"):
        store.append(draft())
    with pytest.raises(StoreUnavailable):
        store.append_batch([draft()])
    assert store.wait_durable(result.end, answers.append) is False
    assert answers == [False, False]
    assert store.read("orders", 0, 0).message_count == 1
    store.close()
    assert disk.exists(ROOT / "abort")


def test_a_waiter_that_fails_keeps_nobody_else_from_its_answer(caplog):
    store, answers = store_of(flush=FlushMode.SYNC), []
    result = store.append(draft())
    store._durability.wait(result.end, lambda _ok: 1 // 0)
    store.wait_durable(result.end, answers.append)
    assert answers == [True]
    assert "a waiter for durability failed" in caplog.text


@pytest.mark.parametrize("flush", FlushMode)
def test_a_full_disk_refuses_messages_until_it_has_room(flush):
    disk = FakeDisk(capacity=6000)
    store = store_of(disk, flush=flush)

    def fill():
        for _ in range(100):
            store.append(draft(body=bytes(500)))

    with pytest.raises(StoreUnavailable, match="no space left"):
        fill()
    store.flush()
    kept = store.max_offset("orders", 0)
    assert 0 < kept < 20
    assert store.is_writable
    disk.capacity = 1 << 20
    assert store.append(draft()).queue_offset == kept
    store.flush()
    assert store.read("orders", 0, 0, 100).message_count == kept + 1


def test_no_room_for_the_queues_entry_means_no_record_either():
    disk = FakeDisk()
    store = store_of(disk)
    disk.failures["reserve"] = OSError(errno.EIO, "strange")
    with pytest.raises(StoreUnavailable, match=r"takes no more messages: .*strange"):
        store.append(draft())
    assert store.max_physical_offset == 0


def test_a_stop_in_order_leaves_a_checkpoint_and_no_abort_file():
    disk, clock = FakeDisk(), FakeClock(1000)
    store = store_of(disk, clock)
    assert disk.exists(ROOT / "abort")
    result = store.append(draft())
    store.close()
    store.close()
    assert not disk.exists(ROOT / "abort")
    assert parse_checkpoint(disk.read(ROOT / "checkpoint")) == (1000, 1000, 0, result.end, result.end)
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append(draft())


def test_a_checkpoint_keeps_javas_index_time():
    disk = FakeDisk()
    disk.write(ROOT / "checkpoint", bytes(16) + (77).to_bytes(8, "big") + bytes(4072))
    store = store_of(disk)
    store.close()
    assert parse_checkpoint(disk.read(ROOT / "checkpoint")).index_ms == 77


def test_a_directory_in_use_is_refused():
    disk = FakeDisk()
    store = store_of(disk)
    with pytest.raises(StoreError, match="in use by another broker"):
        store_of(disk)
    store.close()
    store_of(disk)


def test_a_store_that_cannot_open_gives_its_lock_back():
    disk = FakeDisk()
    store_of(disk).close()
    disk.write(ROOT / "commitlog" / f"{0:020}", bytes(8192))
    with pytest.raises(StoreError, match="has 8192 bytes"):
        store_of(disk)
    disk.remove(ROOT / "commitlog")
    store_of(disk)


def test_a_topics_queues_are_listed_and_deleted():
    disk = FakeDisk()
    store = store_of(disk, flush=FlushMode.SYNC)
    for queue_id in (3, 0):
        store.append(draft(queue_id=queue_id))
    store.flush()
    store.append(draft(queue_id=3))
    assert store.queue_ids("orders") == [0, 3]
    store.delete_topic("orders")
    assert store.queue_ids("orders") == []
    store.flush()
    assert disk.names(ROOT / "consumequeue") == []


def test_a_queue_that_never_was_is_empty():
    store = store_of()
    assert (store.max_offset("x", 0), store.min_offset("x", 0)) == (0, 0)


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


def on_loop(disk, scenario, **changes):
    async def run():
        store = store_of(disk, flush=FlushMode.SYNC, **{"checkpoint_interval_ms": 3_600_000, **changes})
        store.attach(asyncio.get_running_loop())
        try:
            return await scenario(store)
        finally:
            if disk.gate:
                disk.gate.release(1000)
            store.close()

    return asyncio.run(run())


def waiting(store, **changes):
    answer = asyncio.get_running_loop().create_future()
    result = store.append(draft(**changes))
    assert store.wait_durable(result.end, answer.set_result) is False
    return answer


def test_one_sync_answers_everybody_who_appended_in_the_same_turn():
    disk = WatchedDisk()

    async def scenario(store):
        return await asyncio.gather(*[waiting(store) for _ in range(30)]), disk.syncs

    assert on_loop(disk, scenario) == ([True] * 30, 1)


def test_a_message_that_nobody_waits_for_is_synced_and_shown_all_the_same():
    async def scenario(store):
        store.append(draft())
        await until(lambda: store.max_offset("orders", 0) == 1)

    on_loop(WatchedDisk(), scenario)


def test_who_comes_during_a_sync_shares_the_next_one():
    disk = WatchedDisk(is_gated=True)

    async def scenario(store):
        first = waiting(store)
        await until(lambda: disk.syncs == 1)
        others = [waiting(store) for _ in range(20)]
        disk.gate.release()
        assert await first
        assert not any(answer.done() for answer in others)
        assert store.max_offset("orders", 0) == 1
        disk.gate.release()
        return await asyncio.gather(*others), disk.syncs

    assert on_loop(disk, scenario) == ([True] * 20, 2)


def test_a_sync_that_fails_on_the_thread_answers_no_and_fences_upstream_2706():
    disk = WatchedDisk()

    async def scenario(store):
        disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
        answers = await asyncio.gather(*[waiting(store) for _ in range(5)])
        disk.failures.clear()
        return answers, store.is_writable, store.max_offset("orders", 0)

    assert on_loop(disk, scenario) == ([False] * 5, False, 0)
    assert disk.exists(ROOT / "abort")


def test_a_sync_that_failed_while_the_store_was_closing_is_not_forgotten():
    disk = WatchedDisk(is_gated=True)

    async def scenario(store):
        answer = waiting(store)
        await until(lambda: disk.syncs == 1)
        disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
        disk.gate.release()
        store.close()
        return answer.result()

    assert on_loop(disk, scenario) is False
    assert disk.exists(ROOT / "abort")


def test_queues_and_checkpoint_follow_in_rounds():
    disk = WatchedDisk()

    async def scenario(store):
        for queue_id in range(11):
            await waiting(store, queue_id=queue_id)
        await until(lambda: parse_checkpoint(disk.read(ROOT / "checkpoint")).consume_queue_ms == 1000)
        await until(lambda: all(queue.synced_offset == 1 for queue in store._queues))
        return [queue.synced_offset for queue in store._queues]

    assert on_loop(disk, scenario, checkpoint_interval_ms=1) == [1] * 11


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_failure_in_a_round_fences_as_well(operation, monkeypatch):
    disk = WatchedDisk()

    def fail():
        raise OSError(errno.EIO, "Input/output error")

    async def scenario(store):
        await waiting(store)
        if operation == "sync":
            for path, file in disk.files.items():
                if "consumequeue" in path.parts:
                    monkeypatch.setattr(file, "sync", fail)
        else:
            disk.failures["write"] = OSError(errno.EIO, "Input/output error")
        await until(lambda: not store.is_writable)

    on_loop(disk, scenario, checkpoint_interval_ms=1)
    assert disk.exists(ROOT / "abort")


def test_async_flush_syncs_by_itself():
    disk = WatchedDisk()

    async def scenario():
        store = store_of(disk, flush_interval_ms=1, checkpoint_interval_ms=1)
        store.attach(asyncio.get_running_loop())
        result = store.append(draft())
        await until(lambda: store.durable_offset == result.end)
        store.close()

    asyncio.run(scenario())
