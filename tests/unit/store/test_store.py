"""The store's public face."""

import asyncio
import errno
import gc
import os
from contextlib import nullcontext, suppress
from itertools import product
from pathlib import Path
from typing import cast

import pytest

from cases import each_case
from orbitmq.errors import DescriptorShortage, InvalidArgument, StoreError, StoreUnavailable
from orbitmq.store import FlushMode, ReadStatus, Store, StoreIssueKind
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.checkpoint import parse_checkpoint
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import tag_code
from orbitmq.wire.messages.record import parse_record

from .parts import ROOT, draft, store_of


def fail(*_: object) -> None:
    raise RuntimeError("a listener's or waiter's own fault")


@pytest.fixture
def store(disk: FakeDisk) -> Store:
    return store_of(disk)


def test_offsets_count_per_queue_and_bytes_per_log(store):
    results = [store.append(draft(queue_id=queue_id)) for queue_id in (0, 1, 0)]
    assert [result.queue_offset for result in results] == [0, 0, 1]
    assert [result.physical_offset for result in results] == [0, results[0].size, 2 * results[0].size]
    assert store.max_physical_offset == results[-1].end


def test_committed_messages_are_found_from_a_place_of_the_log_to_its_end(store):
    flags = (0, 8, 4, 0x108, 12, 8)
    results = [store.append(draft(body=b"%d" % number, sys_flag=flag)) for number, flag in enumerate(flags)]
    assert [bytes(record.body) for record in store.committed_from(0)] == [b"1", b"3", b"5"]
    assert [bytes(record.body) for record in store.committed_from(results[2].physical_offset)] == [b"3", b"5"]
    assert list(store.committed_from(store.max_physical_offset)) == []


def test_committed_messages_are_found_over_the_ends_of_files_and_behind_damage(store):
    results = []
    while len(store._commit_log.log.segments) < 3:
        results.append(store.append(draft(body=b"%d " % len(results) * 50, sys_flag=8)))
    found = [record.physical_offset for record in store.committed_from(0)]
    assert found == [result.physical_offset for result in results]
    damaged = results[1]
    segment = store._commit_log.log.find(damaged.physical_offset)
    segment.buffer[damaged.physical_offset + 4] ^= 0xFF
    found = [record.physical_offset for record in store.committed_from(0)]
    assert found == [result.physical_offset for result in results if result is not damaged]


def test_time_never_goes_back():
    clock = FakeClock(1000)
    store = store_of(clock=clock)
    assert store.append(draft()).stored_at_ms == 1000
    clock.set(400)
    assert store.append(draft()).stored_at_ms == 1000
    clock.set(1001)
    assert store.append(draft()).stored_at_ms == 1001


@pytest.mark.parametrize("flush", FlushMode)
@pytest.mark.parametrize(("given", "code"), [(None, tag_code("new")), (12345, 12345)])
def test_listeners_hear_of_every_message_with_its_tag_code(given, code, flush):
    store, heard = store_of(flush=flush), []
    store.on_arrived.append(lambda *message: heard.append(message))
    store.append(draft(properties=b"TAGS\x01new\x02", tag_code=given))
    store.append(draft(sys_flag=0x4))
    store.flush()
    assert heard == [("orders", 0, 0, code)]


def test_a_listener_that_fails_does_not_turn_a_stored_message_into_an_error(caplog, store):
    store.on_arrived.append(fail)
    assert store.append(draft()).queue_offset == 0
    assert "a listener for arriving messages failed" in caplog.text


def test_a_batch_gets_consecutive_offsets(store):
    assert [result.queue_offset for result in store.append_batch([draft(body=b"%d" % n) for n in range(20)])] == list(
        range(20)
    )
    assert store.read("orders", 0, 0).message_count == 20


def test_a_batch_with_one_bad_message_is_refused_whole(store):
    with pytest.raises(InvalidArgument):
        store.append_batch([draft(), draft(properties=b"bad\0")])
    assert store.max_physical_offset == 0


def test_a_message_is_found_by_its_physical_offset(store):
    store.append(draft())
    result = store.append(draft(body=b"second"))
    assert parse_record(store.record_at(result.physical_offset) or b"").body == b"second"
    assert store.record_at(result.physical_offset, result.size) == store.record_at(result.physical_offset)
    assert store.record_at(result.physical_offset, result.size + 1) is None
    assert store.record_at(result.physical_offset + 1) is None


def test_a_message_found_by_its_physical_offset_comes_parsed_as_well(store):
    store.append(draft())
    result = store.append(draft(body=b"second"))
    assert store.parsed_at(result.physical_offset) == parse_record(store.record_at(result.physical_offset) or b"")
    assert store.parsed_at(result.physical_offset, result.size) == store.parsed_at(result.physical_offset)
    assert store.parsed_at(result.physical_offset, result.size + 1) is None
    assert store.parsed_at(result.physical_offset + 1) is None


def test_in_sync_flush_nothing_is_visible_before_it_is_durable_upstream_8239():
    store, heard, answers = store_of(flush=FlushMode.SYNC), [], []
    store.on_arrived.append(lambda *message: heard.append(message))
    result = store.append(draft())
    assert store.max_offset("orders", 0) == 0
    assert store.record_at(result.physical_offset) is None
    assert store.parsed_at(result.physical_offset) is None
    assert heard == []
    assert store.wait_durable(result.end, answers.append) is False
    assert answers == [True]
    assert store.max_offset("orders", 0) == 1
    assert store.read("orders", 0, 0).status is ReadStatus.FOUND
    assert store.record_at(result.physical_offset) is not None
    assert len(heard) == 1
    assert store.wait_durable(result.end, answers.append) is True
    assert store.durable_offset == result.end


def test_async_flush_promises_nothing_and_waits_for_nothing(store):
    assert store.wait_durable(store.append(draft()).end, fail) is True


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


@each_case(*FlushMode)
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


def test_a_message_whose_entry_finds_no_room_is_read_all_the_same_and_comes_back_from_the_log(disk, store):
    disk.failures["pwrite"] = OSError(errno.ENOSPC, "No space left on device")
    store.append(draft())
    store.flush()
    assert store.read("orders", 0, 0).message_count == 1
    assert store.is_writable
    assert "No space left" in store.warnings[0]
    again = store_of(disk.after_kill())
    assert again.read("orders", 0, 0).message_count == 1


def test_a_stop_in_order_leaves_a_checkpoint_and_no_abort_file():
    disk, clock = FakeDisk(), FakeClock(1000)
    store = store_of(disk, clock)
    assert disk.exists(ROOT / "abort")
    result = store.append(draft())
    store.close()
    store.close()
    assert not disk.exists(ROOT / "abort")
    assert parse_checkpoint(disk.read(ROOT / "checkpoint")) == (
        1000, 1000, 0, result.end, result.end, result.end,
    )  # fmt: skip
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append(draft())


def test_a_checkpoint_keeps_javas_index_time(disk):
    disk.write(ROOT / "checkpoint", bytes(16) + (77).to_bytes(8, "big") + bytes(4072))
    store = store_of(disk)
    store.close()
    assert parse_checkpoint(disk.read(ROOT / "checkpoint")).index_ms == 77


def test_a_directory_in_use_is_refused(disk, store):
    with pytest.raises(StoreError, match="in use by another broker"):
        store_of(disk)
    store.close()
    store_of(disk)


def test_a_store_that_cannot_open_gives_its_lock_back(disk):
    store_of(disk).close()
    disk.write(ROOT / "commitlog" / f"{0:020}", bytes(8192))
    with pytest.raises(StoreError, match="has 8192 bytes"):
        store_of(disk)
    disk.remove(ROOT / "commitlog")
    store_of(disk)


def test_a_topics_queues_are_listed_and_deleted(disk):
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


def test_a_queue_that_never_was_is_empty(store):
    assert (store.max_offset("x", 0), store.min_offset("x", 0)) == (0, 0)


def test_a_message_is_found_by_its_queue_offset(store):
    for body in (b"first", b"second"):
        store.append(draft(body=body))
    assert [store.message_at("orders", 0, offset).body for offset in (0, 1)] == [b"first", b"second"]
    assert [store.message_at("orders", 0, offset) for offset in (-1, 2)] == [None, None]
    assert store.message_at("none", 0, 0) is None


def test_a_message_without_a_place_makes_no_queue_file(disk):
    assert store_of(disk).append(draft(sys_flag=0x4)).queue_offset == 0
    assert disk.names(ROOT / "consumequeue") == []


@pytest.mark.parametrize("sys_flag", [0x1, 0x8, 0x9])
def test_a_compressed_or_committed_message_has_a_place_as_any_other(sys_flag, store):
    assert [store.append(draft(sys_flag=sys_flag)).queue_offset for _ in range(2)] == [0, 1]
    assert store.max_offset("orders", 0) == 2


def test_time_does_not_go_back_over_a_restart_and_the_checkpoint_keeps_it(disk):
    first = store_of(disk, FakeClock(5000))
    first.append(draft())
    first.close()
    store_of(disk, FakeClock(1000)).close()
    assert parse_checkpoint(disk.read(ROOT / "checkpoint"))[:2] == (5000, 5000)
    assert store_of(disk, FakeClock(1000)).append(draft()).stored_at_ms == 5000


def test_a_refused_batch_leaves_the_log_as_it_was(store):
    end = store.append(draft(body=bytes(2000))).end
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append_batch([draft(body=bytes(2000))])
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append_batch([])
    assert store.max_physical_offset == end


def test_in_sync_flush_a_record_behind_the_durable_ones_is_not_shown():
    store = store_of(flush=FlushMode.SYNC)
    first = store.append(draft())
    store.flush()
    second = store.append(draft())
    assert store.record_at(first.physical_offset) is not None
    assert store.record_at(second.physical_offset) is None


def test_a_message_whose_body_is_damaged_is_still_found_by_its_place(disk, store):
    store.append(draft(body=b"hello"))
    buffer = disk.files[ROOT / "commitlog" / f"{0:020}"].buffer
    buffer[buffer.index(b"hello")] ^= 1
    assert store.message_at("orders", 0, 0).queue_offset == 0


def test_a_flush_leaves_nothing_that_a_power_cut_could_take(disk, store):
    for queue_id in range(3):
        store.append(draft(queue_id=queue_id))
    store.flush()
    assert store.durable_offset == store.max_physical_offset
    for path, file in disk.files.items():
        assert file.durable == bytes(file.buffer), path


@pytest.mark.parametrize("opens", [True, False])
def test_a_store_that_ends_has_no_file_open(tmp_path, opens):
    store = store_of(LocalDisk(), path=tmp_path)
    for queue_id in range(3):
        store.append(draft(queue_id=queue_id))
    store.delete_topic("orders")
    store.append(draft())
    assert open_below(tmp_path)
    store.close()
    if not opens:
        (tmp_path / "commitlog" / f"{4096:020}").write_bytes(bytes(8192))
        with pytest.raises(StoreError, match="has 8192 bytes"):
            store_of(LocalDisk(), path=tmp_path)
    assert open_below(tmp_path) == []


def open_below(directory):
    """Return what this process has open or mapped below a directory."""
    found = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if str(directory) in line]
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            path = os.readlink(f"/proc/self/fd/{name}")
            found += [path] if path.startswith(str(directory)) else []
    return found


class LoopThatNeverTurns:
    """A loop between two turns: what it is asked for comes later."""

    def call_later(self, *_):
        return self

    call_soon = call_soon_threadsafe = call_later

    def cancel(self):
        pass


@pytest.mark.parametrize("flush", FlushMode)
@pytest.mark.parametrize("is_batch", [False, True], ids=["one", "batch"])
def test_a_sync_that_fails_where_a_segment_ends_fences_the_store(flush, is_batch, disk):
    store = store_of(disk, flush=flush, segment_size=2048, consume_queue_units=1000)
    results, answers = [], []
    store.attach(cast("asyncio.AbstractEventLoop", LoopThatNeverTurns()))
    while store.max_physical_offset < 1900:
        results.append(store.append(draft(body=bytes(100))))
        store.wait_durable(results[-1].end, answers.append)
    disk.failures["sync"] = OSError(5, "Input/output error")
    with pytest.raises(StoreUnavailable, match="read-only since a sync failed"):
        store.append_batch([draft(body=bytes(100))] * 3) if is_batch else store.append(draft(body=bytes(200)))
    disk.failures.clear()
    assert not store.is_writable
    assert answers == [False] * (len(results) if flush is FlushMode.SYNC else 0)
    with pytest.raises(StoreUnavailable, match="read-only since a sync failed"):
        store.append(draft())
    store.flush()
    assert store.durable_offset == 0
    store.close()
    assert disk.exists(ROOT / "abort")


def test_nothing_is_synced_on_the_loop_where_a_consume_queue_file_ends_and_a_failure_later_fences(disk):
    store = store_of(disk, consume_queue_units=4)
    for _ in range(4):
        store.append(draft())
    disk.failures["sync"] = OSError(5, "Input/output error")
    assert store.append(draft()).queue_offset == 4
    assert store.is_writable
    store.flush()
    disk.failures.clear()
    with pytest.raises(StoreUnavailable, match="read-only since a sync failed"):
        store.append(draft())


def test_a_segment_that_cannot_be_synced_for_want_of_a_descriptor_refuses_the_message_and_fences_nothing(disk, store):
    store.append(draft(body=bytes(3000)))
    disk.failures["sync"] = DescriptorShortage(errno.EMFILE, "Too many open files")
    with pytest.raises(StoreUnavailable, match="Too many open files"):
        store.append(draft(body=bytes(3000)))
    assert store.is_writable
    disk.failures.clear()
    assert store.append(draft(body=bytes(3000))).queue_offset == 1


def test_a_store_that_a_failed_sync_has_fenced_is_told_from_one_that_is_closed(disk, store):
    assert store.issues == []
    store.append(draft())
    disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
    store.flush()
    (issue,) = store.issues
    assert issue.kind is StoreIssueKind.FENCED
    assert "Input/output error" in issue.reason
    good = store_of()
    good.close()
    assert good.issues == [(StoreIssueKind.CLOSED, "the store is closed")]


def test_what_recovery_has_cut_is_an_issue_as_long_as_it_is_kept(disk, store):
    end = store.append(draft()).end
    disk.files[ROOT / "commitlog" / f"{0:020}"].buffer[end : end + 9] = b"no record"
    again = store_of(disk.after_kill())
    assert again.recovery_report.cut_size == again.quarantine_size == 9
    assert [issue.kind for issue in again.issues] == [StoreIssueKind.QUARANTINE]


def test_readers_of_an_asynchronous_store_see_everything_immediately(store):
    store.append(draft())
    assert store.dispatch_behind_size == 0


@pytest.mark.parametrize("unreadable", ["lock", "deleted", "begin", "checkpoint"])
def test_a_file_that_cannot_be_read_at_the_start_is_said_and_the_lock_is_given_back(tmp_path, monkeypatch, unreadable):
    store_of(LocalDisk(), path=tmp_path).close()
    real = os.open

    def open_all_but_one(path, *rest, **more):
        if str(path).endswith(f"/{unreadable}"):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *rest, **more)

    def read_all_but_one(path):
        if path.name == unreadable:
            raise OSError(errno.EMFILE, "Too many open files")
        return real_read(path)

    real_read = Path.read_bytes
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_all_but_one)
        patch.setattr(Path, "read_bytes", read_all_but_one)
        with pytest.raises(StoreError, match=r"cannot be opened.*Too many open files"):
            store_of(LocalDisk(), path=tmp_path)
    store_of(LocalDisk(), path=tmp_path).close()


@each_case(*product([True, False], [False, True]))
def test_the_garbage_collector_rests_while_a_store_is_opened_and_no_longer(is_enabled, fails):
    seen: list[bool] = []

    class Seen(FakeDisk):
        def act(self, operation, path):
            seen.append(gc.isenabled())
            super().act(operation, path)

    disk = Seen()
    if fails:
        disk.failures["write"] = OSError(errno.EIO, "the disk is broken")
    was_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        with pytest.raises(StoreError) if fails else nullcontext():
            store_of(disk)
        assert (set(seen), gc.isenabled()) == ({False}, is_enabled)
    finally:
        (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_was_looked_at_is_kept_no_longer_than_the_start_takes(is_clean, disk, store):
    for queue_id in range(3):
        store.append(draft(queue_id=queue_id))
    store.flush()
    if is_clean:
        store.close()
    disk.locked.clear()
    store = store_of(disk)
    assert [queue.seen_size for queue in store._queues] == [0, 0, 0]
    assert [store.max_offset("orders", queue_id) for queue_id in range(3)] == [1, 1, 1]


def test_hiding_all_that_is_shown_does_not_hide_what_is_stored_but_not_yet_shown():
    clock = FakeClock(1000)
    store = store_of(clock=clock, flush=FlushMode.SYNC)
    store.append(draft())
    store.flush()
    clock.set(5000)
    store.append(draft(body=b"new"))
    store.hide_before("orders", 4000)
    store.flush()
    assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (1, 2)


def test_hiding_reads_a_queues_first_message_again_only_when_its_time_may_be_over(monkeypatch):
    clock = FakeClock(1000)
    store, read = store_of(clock=clock), []
    for stored_ms in (1000, 5000):
        clock.set(stored_ms)
        store.append(draft())
    stored_at_ms = store._commit_log.stored_at_ms

    def counted(place):
        read.append(place)
        return stored_at_ms(place)

    monkeypatch.setattr(store._commit_log, "stored_at_ms", counted)
    for before_ms, first in ((2000, 1), (3000, 1), (5000, 1), (5001, 2)):
        read.clear()
        store.hide_before("orders", before_ms)
        assert store.min_offset("orders", 0) == first
        assert bool(read) == (before_ms in (2000, 3000, 5001))
