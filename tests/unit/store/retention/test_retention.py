"""Deletion of old files: what goes, what stays, and what a start finds afterwards."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from orbitmq.errors import StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store import Boundary, ReadStatus, Store, StoreConfig
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.segment import segment_name
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.retention.retention import local_hour
from orbitmq.store.retention.rules import HOUR_MS, RetentionRules
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk, PowerCut
from unit.store.parts import ROOT, draft, store_of
from waiting import until

ALL_DAY = frozenset(range(24))
START_MS = 1_700_000_000_000


class Cleaned:
    """A store in memory, its disk and its clock; pauses end immediately. Segments hold 4 KiB: some seven messages of 500 bytes."""

    def __init__(self, disk: FakeDisk | None = None, **rules: Any) -> None:
        self.clock = FakeClock(START_MS)
        self.disk = disk or FakeDisk()
        self.rules = RetentionRules(
            **{"reserved_ms": HOUR_MS, "delete_hours": ALL_DAY, "segment_pause_ms": 0, "queue_pause_ms": 0, **rules}
        )
        self.store = self.open()

    def open(self) -> Store:
        self.store = store_of(self.disk, self.clock, retention=self.rules)
        return self.store

    def put(self, count: int, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Append messages; return where each lies in the log."""
        drafts = [draft(topic, queue_id, b"x" * 500) for _ in range(count)]
        return [self.store.append(each).physical_offset for each in drafts]

    def put_old(self, count: int, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Append messages, sync them, and let so much time pass that they expire."""
        found = self.put(count, topic, queue_id)
        self.store.flush()
        self.clock.advance(2 * HOUR_MS)
        return found

    def clean(self) -> None:
        """Sync, and do one round."""
        self.store.flush()
        run(self.store.retention.do_round())

    def kill(self) -> Store:
        self.disk = self.disk.after_kill()
        return self.open()

    def segments(self) -> list[int]:
        return [int(name) for name in self.disk.names(ROOT / "commitlog")]

    def queue_files(self, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Return the first queue offset of each file."""
        return [int(name) // 20 for name in self.disk.names(ROOT / "consumequeue" / topic / str(queue_id))]


def run(work: Awaitable[None]) -> None:
    async def harness() -> None:
        await work

    asyncio.run(harness())


@pytest.fixture
def cleaned() -> Cleaned:
    return Cleaned()


def test_expired_files_go_and_newer_ones_stay(cleaned: Cleaned):
    old = cleaned.put_old(20)
    new = cleaned.put(10)
    cleaned.clean()
    segments = cleaned.segments()
    store = cleaned.store
    # The last old messages share a file with the first new ones: it stays until those have expired.
    assert segments[0] <= new[0] < segments[0] + 4096
    assert segments[0] > old[0]
    assert store.min_physical_offset == segments[0]
    first = store.min_offset("orders", 0)
    assert (store.max_offset("orders", 0), first) == (30, sum(offset < segments[0] for offset in old))
    found = store.read("orders", 0, first, 100, 1 << 20)
    assert (found.status, found.message_count) == (ReadStatus.FOUND, 30 - first)


def test_nothing_goes_outside_the_hours_unless_asked_for():
    cleaned = Cleaned(delete_hours=frozenset())
    cleaned.put_old(30)
    cleaned.clean()
    assert cleaned.segments()[0] == 0
    cleaned.store.retention.delete_soon()
    cleaned.clean()
    assert len(cleaned.segments()) == 1


def test_what_was_asked_for_ends_after_twenty_rounds():
    cleaned = Cleaned(delete_hours=frozenset())
    cleaned.store.retention.delete_soon()
    for _ in range(20):
        cleaned.clean()
    cleaned.put_old(30)
    cleaned.clean()
    assert cleaned.segments()[0] == 0


def test_the_hour_is_that_of_the_machine():
    cleaned = Cleaned(delete_hours=frozenset((4,)))
    hours = {cleaned.clock(): 3, cleaned.clock() + 2 * HOUR_MS: 4}
    cleaned.store.retention._hour_of = lambda now_ms: hours[now_ms]
    cleaned.clean()
    cleaned.put_old(30)
    cleaned.clean()
    assert len(cleaned.segments()) == 1
    assert local_hour(START_MS) in ALL_DAY


def test_a_round_deletes_no_more_than_its_batch():
    cleaned = Cleaned(batch_max=2)
    cleaned.put_old(70)
    count = len(cleaned.segments())
    cleaned.clean()
    assert len(cleaned.segments()) == count - 2
    cleaned.clean()
    assert len(cleaned.segments()) == count - 4


def test_the_last_file_stays_however_old_and_however_full_the_disk(cleaned: Cleaned):
    cleaned.put_old(3)
    cleaned.disk.usage = 0.99
    cleaned.clean()
    assert cleaned.segments() == [0]
    assert cleaned.store.read("orders", 0, 0).message_count == 3


def test_a_disk_on_which_nothing_may_go_is_complained_of_once(caplog: pytest.LogCaptureFixture):
    cleaned = Cleaned(delete_hours=frozenset())
    for usage, complaints in ((0.88, 1), (0.95, 1), (0.1, 1), (0.88, 2)):
        cleaned.disk.usage = usage
        cleaned.clean()
        cleaned.clean()
        assert caplog.text.count("no file of the CommitLog may be deleted") == complaints, usage
    cleaned.store.close()


def test_a_nearly_full_disk_forces_the_oldest_files_out_until_it_is_not():
    """Java deletes a batch without looking again."""

    class Freed(FakeDisk):
        def remove(self, path: Path) -> None:
            super().remove(path)
            self.usage -= 0.02

    cleaned = Cleaned(Freed())
    cleaned.put(70)
    count = len(cleaned.segments())
    cleaned.disk.usage = 0.88
    cleaned.clean()
    assert len(cleaned.segments()) == count - 2
    assert cleaned.disk.usage == pytest.approx(0.84)


def test_nothing_that_has_not_expired_goes_where_that_is_forbidden():
    cleaned = Cleaned(may_force=False)
    cleaned.put(30)
    cleaned.disk.usage = 0.95
    cleaned.clean()
    assert cleaned.segments()[0] == 0


def test_a_full_disk_refuses_messages_in_a_clear_sentence_and_takes_them_again_by_itself():
    cleaned = Cleaned(may_force=False)
    store, disk = cleaned.store, cleaned.disk
    cleaned.put(3)
    disk.usage = 0.91
    cleaned.clean()
    with pytest.raises(StoreUnavailable, match=r"disk is full: more than 90% of /store are used.*fileReservedTime"):
        store.append(draft())
    assert not store.is_writable
    assert "disk is full" in store.warnings[0]
    disk.write(ROOT / "config" / "topics.json", b"{}")  # small files are still taken
    disk.usage = 0.86
    cleaned.clean()
    assert not store.is_writable
    disk.usage = 0.85
    cleaned.clean()
    assert store.append(draft()).queue_offset == 3
    assert store.warnings == []


def test_a_store_that_is_fenced_stays_so_when_the_disk_has_room_again(cleaned: Cleaned):
    cleaned.put(1)
    cleaned.disk.usage = 0.95
    cleaned.clean()
    cleaned.disk.failures["sync"] = OSError(errno.EIO, "bad sector")
    cleaned.store._fence(OSError(errno.EIO, "bad sector"))
    cleaned.disk.usage = 0.1
    run(cleaned.store.retention.do_round())
    with pytest.raises(StoreUnavailable, match="bad sector"):
        cleaned.store.append(draft())


def test_a_file_system_that_does_not_answer_deletes_what_has_expired_and_refuses_nothing():
    cleaned = Cleaned(delete_hours=frozenset())
    cleaned.put_old(30)
    cleaned.put(1)
    cleaned.disk.failures["used_ratio"] = OSError(errno.EACCES, "no")
    cleaned.clean()
    assert cleaned.segments()[0] > 0
    assert cleaned.store.is_writable


def test_nothing_goes_before_it_and_the_entries_behind_it_are_on_the_disk(cleaned: Cleaned):
    cleaned.disk.usage = 0.99
    cleaned.put(30)
    run(cleaned.store.retention.do_round())  # not synced yet
    assert cleaned.segments()[0] == 0
    cleaned.clean()
    assert len(cleaned.segments()) == 1


def test_consume_queue_files_follow_the_log_and_the_last_one_stays(cleaned: Cleaned):
    cleaned.put(4, "bills")
    cleaned.put_old(40)
    cleaned.put(30)
    cleaned.clean()
    first = cleaned.store.min_offset("orders", 0)
    assert 0 < first <= 40
    assert cleaned.queue_files() == list(range(first // 8 * 8, 70, 8))
    assert cleaned.queue_files("bills") == [0]
    assert cleaned.store.read("orders", 0, first - 1).status is ReadStatus.OFFSET_TOO_SMALL
    assert cleaned.store.read("orders", 0, first - 1).next_offset == first
    assert cleaned.store.retention.deleted_queue_files == first // 8


def test_times_are_looked_for_among_what_is_left(cleaned: Cleaned):
    cleaned.put_old(40)
    cleaned.put(30)
    cleaned.clean()
    store = cleaned.store
    first = store.min_offset("orders", 0)
    assert store.offset_at("orders", 0, 0) == first
    assert store.offset_at("orders", 0, 0, Boundary.UPPER) == first
    assert store.offset_at("orders", 0, cleaned.clock()) == 40
    assert store.earliest_stored_at_ms("orders", 0) == START_MS


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_queue_whose_messages_are_all_gone_never_gives_an_offset_twice(is_clean, cleaned):
    cleaned.put(19, "quiet", 3)
    cleaned.put_old(60)
    cleaned.put(8)
    cleaned.clean()
    for _ in range(3):
        store = cleaned.store
        assert (store.min_offset("quiet", 3), store.max_offset("quiet", 3)) == (19, 19)
        assert store.read("quiet", 3, 5).next_offset == 19
        assert store.recovery_report.rebuilt == []
        if is_clean:
            store.close()
            cleaned.open()
        else:
            cleaned.kill()
    assert cleaned.store.append(draft("quiet", 3)).queue_offset == 19
    assert cleaned.store.message_at("quiet", 3, 19) is not None


def test_a_queue_without_messages_goes_on_where_it_was_when_its_files_are_lost_too(cleaned: Cleaned):
    cleaned.put(19, "quiet", 3)
    cleaned.put_old(60)
    cleaned.put(8)
    cleaned.clean()
    cleaned.store.close()
    for name in cleaned.disk.names(ROOT / "consumequeue" / "quiet" / "3"):
        del cleaned.disk.files[ROOT / "consumequeue" / "quiet" / "3" / name]
    cleaned.open()
    assert cleaned.store.recovery_report.rebuilt == [("quiet", 3)]
    cleaned.kill()
    assert cleaned.store.append(draft("quiet", 3)).queue_offset == 19


def test_a_queue_without_messages_goes_on_where_it_was_after_a_crash_while_it_is_rebuilt(cleaned: Cleaned):
    cleaned.put(19, "quiet", 3)
    cleaned.put_old(60)
    cleaned.put(8)
    cleaned.clean()
    cleaned.store.close()
    del cleaned.disk.files[ROOT / "ends"]
    cleaned.disk.write(ROOT / "rebuild", b"3 quiet\n")
    image = cleaned.disk
    for operation in range(1, 40):
        cleaned.disk = image.after_kill()
        cleaned.disk.cut_at = operation
        try:
            cleaned.open()
            was_cut = False
        except PowerCut:
            was_cut = True
            cleaned.disk = cleaned.disk.after_power_cut(Random(operation))
            cleaned.open()
        cleaned.disk.cut_at = None
        assert cleaned.store.append(draft("quiet", 3)).queue_offset == 19, f"power cut at operation {operation}"
        if not was_cut:
            return
    pytest.fail("no start came to its end")


def test_a_power_cut_at_any_step_of_a_deletion_loses_nothing_that_is_not_expired():
    for operation in range(1, 60):
        random = Random(operation)
        cleaned = Cleaned()
        cleaned.put(19, "quiet")
        cleaned.put_old(60)
        new = [cleaned.store.append(draft(body=b"new %d" % number)) for number in range(30)]
        cleaned.store.flush()
        before = cleaned.disk.operation_count
        cleaned.disk.cut_at = before + operation
        try:
            run(cleaned.store.retention.do_round())
            was_cut = False
        except PowerCut:
            was_cut = True
        cleaned.disk = cleaned.disk.after_power_cut(random)
        store = cleaned.open()
        bodies = [bytes(store.message_at("orders", 0, result.queue_offset).body) for result in new]
        assert bodies == [b"new %d" % number for number in range(30)], f"cut at operation {operation}"
        assert store.append(draft("quiet")).queue_offset == 19, f"cut at operation {operation}"
        assert store.append(draft()).queue_offset == 90
        if not was_cut:
            return
    pytest.fail("no deletion came to its end")


def test_an_orderly_stop_in_between_makes_the_next_start_miss_no_file(cleaned: Cleaned):
    """The file `ends` knows the beginnings that the queues had at the stop; later deletions move them."""
    cleaned.put_old(40)
    cleaned.put(30)
    assert cleaned.store.retention is not None
    run_without_queues(cleaned)
    cleaned.store.close()
    cleaned.open()
    cleaned.clean()  # the queue's files only: the log is as it was
    assert cleaned.store.retention.deleted_queue_files > 0
    assert cleaned.kill().recovery_report.rebuilt == []
    ends = QueueEnds.parse(cleaned.disk.read(ROOT / "ends"))
    assert ends.end_of(("orders", 0)) == 70


def run_without_queues(cleaned: Cleaned) -> None:
    """Do a round that ends before it comes to the consume queues."""
    cleaned.store.flush()
    cleaned.store.retention._cleaned_min = 1 << 40
    run(cleaned.store.retention.do_round())
    assert cleaned.queue_files()[0] == 0


def test_a_file_that_cannot_be_removed_stays_a_part_of_the_log(cleaned: Cleaned):
    cleaned.put_old(30)
    cleaned.disk.failures["remove"] = OSError(errno.EACCES, "not permitted")
    cleaned.clean()
    store = cleaned.store
    assert (store.min_physical_offset, cleaned.segments()[0]) == (0, 0)
    assert "cannot be deleted" in store.warnings[0]
    assert store.read("orders", 0, 0).status is ReadStatus.FOUND
    del cleaned.disk.failures["remove"]
    cleaned.clean()
    assert store.warnings == []
    assert len(cleaned.segments()) == 1


def test_a_file_whose_directory_alone_could_not_be_synced_is_gone():
    class Unsynced(FakeDisk):
        def remove(self, path: Path) -> None:
            super().remove(path)
            raise OSError(errno.EMFILE, "no descriptor")

    cleaned = Cleaned(Unsynced())
    cleaned.put_old(30)
    cleaned.clean()
    assert cleaned.store.min_physical_offset == 4096
    assert cleaned.store.read("orders", 0, 0).status is ReadStatus.OFFSET_TOO_SMALL


def test_a_reader_with_a_slice_of_a_deleted_file_reads_on(tmp_path: Path):
    clock = FakeClock(START_MS)
    rules = RetentionRules(reserved_ms=1, delete_hours=ALL_DAY, segment_pause_ms=0, forcing_ratio=1, full_ratio=1)
    config = StoreConfig(path=tmp_path, segment_size=4096, consume_queue_units=8)
    store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=clock, monotonic=clock, retention=rules)
    for _ in range(30):
        store.append(draft(body=b"y" * 500))
    store.flush()
    view = memoryview(store._commit_log.log.segments[0].buffer)[:600]
    before = bytes(view)
    clock.advance(HOUR_MS)
    run(store.retention.do_round())
    assert not (tmp_path / "commitlog" / segment_name(0)).exists()
    assert bytes(view) == before
    view.release()
    store.close()


def test_a_deleted_topic_made_again_keeps_its_new_files(cleaned: Cleaned):
    cleaned.put_old(40)
    cleaned.put(20, "bills")
    cleaned.store.delete_topic("orders")
    cleaned.put(3)
    cleaned.clean()
    assert cleaned.store.max_offset("orders", 0) == 3
    assert cleaned.queue_files() == [0]
    assert cleaned.kill().message_at("orders", 0, 2) is not None


async def test_rounds_follow_one_another_until_the_task_is_cancelled():
    cleaned = Cleaned(round_ms=1)
    cleaned.put_old(30)

    task = asyncio.create_task(cleaned.store.retention.run())
    while cleaned.disk.operation_count < 100_000 and cleaned.store.retention.deleted_segments < 3:
        cleaned.store.flush()
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.store.retention.deleted_segments >= 3
    assert cleaned.store.retention.deleted_bytes == cleaned.store.retention.deleted_segments * 4096


async def test_a_request_wakes_the_task_before_its_time():
    cleaned = Cleaned(delete_hours=frozenset(), round_ms=3_600_000)
    cleaned.put_old(30)
    cleaned.store.flush()
    retention = cleaned.store.retention

    task = asyncio.create_task(retention.run())
    while retention.used_ratio is None:  # the first round
        await asyncio.sleep(0)
    retention.delete_soon()
    await until(lambda: retention.deleted_segments)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_queues_are_looked_through_again_when_asked(cleaned: Cleaned):
    cleaned.put_old(40)
    cleaned.put(30)
    run_without_queues(cleaned)
    cleaned.store.retention.clean_queues_soon()
    cleaned.clean()
    assert cleaned.queue_files()[0] > 0


async def test_a_round_that_fails_is_logged_and_the_next_one_comes(caplog):
    cleaned = Cleaned(round_ms=1)
    cleaned.put_old(40)
    cleaned.put(30)
    cleaned.store.flush()
    cleaned.disk.failures["unlink"] = OSError(errno.EIO, "bad sector")

    task = asyncio.create_task(cleaned.store.retention.run())
    while "bad sector" not in caplog.text:
        await asyncio.sleep(0)
    del cleaned.disk.failures["unlink"]
    cleaned.store.retention.clean_queues_soon()
    await until(lambda: cleaned.store.retention.deleted_queue_files)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_real_disk_knows_how_full_it_is(tmp_path: Path):
    assert 0 < LocalDisk().used_ratio(tmp_path) < 1
    LocalDisk().unlink(tmp_path / "none")


def test_the_next_start_misses_nothing_before_the_logs_beginning(cleaned: Cleaned):
    cleaned.put_old(30)
    cleaned.clean()
    assert cleaned.segments()[0] > 0
    assert cleaned.kill().recovery_report.lost_head_size == 0


def test_a_disk_without_any_room_is_cleaned_all_the_same():
    class Full(FakeDisk):
        def write(self, path: Path, content: bytes) -> None:
            if path.name == "begin.tmp" and not self.removed:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(path, content)

        def remove(self, path: Path) -> None:
            super().remove(path)
            self.removed = True

        removed = True

    cleaned = Cleaned(disk := Full())
    cleaned.put_old(30)
    disk.removed = False
    cleaned.clean()
    assert len(cleaned.segments()) == 1
    cleaned.disk = FakeDisk()
    cleaned.disk.files = disk.files
    assert cleaned.kill().recovery_report.lost_head_size == 0


def test_a_broker_that_starts_on_a_disk_without_any_room_deletes_old_files(cleaned: Cleaned):
    """Entries that recovery wrote again wait for the disk: the files that came before them need not wait for that."""
    cleaned.put_old(60)
    cleaned.clock.advance(HOUR_MS)
    cleaned.put(8)
    cleaned.store.flush()
    cleaned.clock.advance(HOUR_MS)
    cleaned.put(8)
    cleaned.kill()
    assert cleaned.store.recovered.record_count > 0
    cleaned.disk.failures["write"] = cleaned.disk.failures["sync"] = OSError(errno.ENOSPC, "No space left on device")
    run(cleaned.store.retention.do_round())
    assert cleaned.segments()[0] > 0


def test_delayed_messages_that_were_deleted_are_passed_over(cleaned: Cleaned):
    cleaned.put_old(40, SCHEDULE_TOPIC, 2)
    cleaned.put(3, SCHEDULE_TOPIC, 2)
    cleaned.clean()
    store = cleaned.store
    first = store.min_offset(SCHEDULE_TOPIC, 2)
    assert first > 0
    found = store.read(SCHEDULE_TOPIC, 2, 0, 10)
    assert (found.status, found.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, first)


class SetClocks(Cleaned):
    """Its wall clock may be set while the monotonic one goes on."""

    def __init__(self) -> None:
        self.monotonic = FakeClock(5)
        super().__init__()

    def open(self) -> Store:
        self.store = store_of(self.disk, self.clock, monotonic=self.monotonic, retention=self.rules)
        return self.store


def test_a_wall_clock_that_is_set_ahead_deletes_nothing(caplog: pytest.LogCaptureFixture):
    cleaned = SetClocks()
    cleaned.put(30)
    cleaned.clean()
    cleaned.clock.advance(100 * HOUR_MS)
    cleaned.clean()
    assert cleaned.store.min_offset("orders", 0) == 0
    assert [record.message for record in caplog.records] == [
        "the wall clock was set ahead by 100.0 h; no message expires by that"
    ]
    cleaned.monotonic.advance(HOUR_MS)
    cleaned.clock.advance(HOUR_MS)
    cleaned.clean()
    assert cleaned.store.min_offset("orders", 0) > 0


def test_a_wall_clock_that_is_wrong_at_the_start_deletes_nothing(caplog: pytest.LogCaptureFixture):
    cleaned = SetClocks()
    cleaned.put(30)
    cleaned.store.close()
    cleaned.clock.advance(100 * HOUR_MS)
    cleaned.open()
    assert "the newest message was stored 100.0 h ago by the wall clock" in caplog.text
    cleaned.put(30)
    cleaned.clean()
    assert cleaned.store.min_offset("orders", 0) == 0
    cleaned.monotonic.advance(HOUR_MS)
    cleaned.clock.advance(HOUR_MS)
    cleaned.clean()
    assert cleaned.store.min_offset("orders", 0) > 0


def test_a_start_a_little_after_the_newest_message_says_nothing_of_clocks(caplog: pytest.LogCaptureFixture):
    cleaned = Cleaned()
    cleaned.put(30)
    cleaned.store.close()
    cleaned.clock.advance(HOUR_MS - 1)
    cleaned.open()
    assert "wall clock" not in caplog.text
