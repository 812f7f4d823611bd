"""A consume queue's files: room, gaps, steps, and what is cut."""

import errno
from random import Random

import pytest

from cases import each_case
from orbitmq.errors import DamagedLog, FileCut
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.queues.consume_queue import BLANK_SIZE, UNIT, ConsumeQueue
from orbitmq.testing.fake_disk import FakeDisk

from ..parts import QUEUE_DIRECTORY, queue_of


def filled(count, disk=None, units=4):
    queue = queue_of(disk, units)
    for offset in range(count):
        queue.replay(offset, offset * 100, 100, 7)
    queue.sync()
    return queue


@each_case(4, 8, 12, 3 + 10 * 4)
def test_a_gap_may_end_at_a_files_first_entry_and_reach_ten_files(target):
    queue = filled(3)
    queue.replay(target, 9000, 100, 0)
    queue.sync()
    assert queue.entry(target) == (9000, 100, 0)
    assert (queue.max_offset, queue.next_offset) == (target + 1, target + 1)
    assert [segment.base for segment in queue.log.segments] == list(range(0, (target + 1) * UNIT.size, 4 * UNIT.size))


def test_every_file_that_a_gap_is_filled_in_has_room_for_it(disk):
    queue = filled(3, disk)
    queue.replay(15, 9000, 100, 0)
    queue.sync()
    assert len(disk.files) == 4
    assert all(file.reserved for file in disk.files.values())


def test_blanks_are_not_written_where_the_disk_has_no_room_for_them():
    disk = FakeDisk(capacity=0)
    with pytest.raises(OSError, match="No space left"):
        queue_of(disk).replay(6, 600, 100, 0)
    assert not any(any(file.buffer) for file in disk.files.values())


def test_a_write_goes_to_one_file_and_says_that_there_is_more():
    queue = queue_of()
    for offset in range(6):
        queue.replay(offset, offset * 100, 100, 7)
    write = queue.begin_write()
    assert write is not None
    assert (write.start, write.end_offset, write.is_part) == (0, 4, True)
    write.run()
    queue.end_write(write, is_synced=True)
    write = queue.begin_write()
    assert write is not None
    assert (write.segment.base, write.end_offset, write.is_part) == (80, 6, False)


def test_going_on_at_the_end_cuts_nothing_and_misses_nothing(caplog, disk):
    queue = filled(3, disk)
    disk.failures["zero"] = OSError(errno.EIO, "nothing is to be cut")
    queue.replay(3, 300, 100, 0)
    queue.replay(4, 400, 100, 0)
    assert caplog.text == ""


def test_the_first_entry_makes_its_file_need_a_sync():
    queue = queue_of()
    assert queue.is_synced
    queue.replay(0, 0, 100, 0)
    assert not queue.is_synced


def test_files_of_a_queue_are_among_many():
    class Seen(FakeDisk):
        def open(self, path, size, *, is_one_of_many=False):
            seen.append(is_one_of_many)
            return super().open(path, size, is_one_of_many=is_one_of_many)

    seen: list[bool] = []
    filled(5, Seen())
    assert set(seen) == {True}


def test_a_queue_that_is_forgotten_closes_its_files(tmp_path):
    queue = ConsumeQueue(LocalDisk(), tmp_path, 4, "orders", 0)
    for offset in range(5):
        queue.replay(offset, offset * 100, 100, 0)
    queue.sync()
    files = [segment.file for segment in queue.log.segments]
    assert len(files) == 2
    queue.forget()
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.read(0, 1)


@pytest.mark.parametrize("count", [6, 7, 20, 100, 127, 128, 129, 200])
def test_the_end_is_found_in_a_last_file_of_any_filling(count, disk):
    filled(count, disk, units=128)
    queue = queue_of(disk, units=128)
    queue.load()
    assert (queue.max_offset, queue.synced_offset) == (count, count)


@each_case(1, 3, 4, 5, 8)
def test_a_queue_that_begins_late_has_a_blank_before_it_wherever_its_files_begin(first):
    queue = queue_of()
    queue.replay(first, 5000, 100, 7)
    queue.replay(first + 1, 5100, 100, 7)
    assert queue.entry(first - 1) == (0, BLANK_SIZE, 0)
    assert not queue.lacks_start(0)
    assert (queue.min_offset(0), queue.max_offset) == (first, first + 2)


def test_a_queue_whose_first_file_is_missing_lacks_its_beginning_unless_the_log_does(disk):
    filled(10, disk)
    disk.remove(QUEUE_DIRECTORY / f"{0:020}")
    queue = queue_of(disk)
    queue.load()
    assert queue.lacks_start(0)
    assert queue.lacks_start(400)
    assert not queue.lacks_start(401)


def test_a_file_is_given_up_when_nothing_leads_from_it_into_the_log():
    queue = filled(10)
    queue.sync()
    assert queue.detach_expired(400) is None
    assert queue.detach_expired(401).base == 0
    assert not queue.lacks_start(401)
    assert queue.detach_expired(401) is None
    assert queue.detach_expired(10_000).base == 80
    assert queue.detach_expired(10_000) is None  # the last one says where the queue goes on
    assert (queue.base_offset, queue.next_offset, queue.min_offset(10_000)) == (8, 10, 10)


def test_no_file_is_given_up_before_the_next_one_is_on_the_disk():
    queue = filled(4)
    queue.sync()
    assert queue.detach_expired(10_000) is None
    queue.replay(4, 400, 100, 7)
    assert queue.detach_expired(10_000) is None
    queue.sync()
    assert queue.detach_expired(10_000).base == 0


def test_a_file_before_an_empty_entry_is_kept():
    queue = filled(10)
    queue.sync()
    queue.log.segments[1].buffer[:20] = bytes(20)
    assert queue.detach_expired(10_000) is None


def test_the_known_end_is_that_of_the_last_file_also_where_one_is_missing(disk):
    assert queue_of().known_end() == 0
    queue = filled(10, disk)
    assert queue.known_end() == 10
    disk.remove(queue.log.segments[1].path)
    damaged = queue_of(disk)
    with pytest.raises(DamagedLog):
        damaged.load()
    assert damaged.known_end() == 10


@pytest.mark.parametrize("queue_offset", [3, 4, 7, 8, 100])
def test_a_queue_without_files_goes_on_where_it_is_told(queue_offset, disk):
    queue = queue_of(disk)
    queue.resume(queue_offset)
    disk = disk.after_power_cut(Random(1))
    again = queue_of(disk)
    again.load()
    for each in (queue, again):
        assert (each.next_offset, each.max_offset, each.min_offset(0)) == (queue_offset,) * 3
        each.replay(queue_offset, 100, 100, 7)
        assert each.entry(queue_offset)[1] > 0


def loaded(disk, units=4):
    queue = queue_of(disk, units)
    queue.load()
    return queue


@pytest.mark.parametrize("lost", [1, 2])
def test_a_full_first_file_is_not_taken_for_the_last_one(lost, disk):
    queue = filled(11, disk)
    disk.remove(queue.log.segments[lost].path)
    if lost == 1:
        with pytest.raises(DamagedLog):
            loaded(disk)
    else:
        assert loaded(disk).max_offset == 8


def test_a_queue_that_goes_on_in_a_second_file_is_loaded_with_both_whatever_is_in_the_first(disk):
    queue = filled(7, disk)
    disk.files[queue.log.segments[0].path].buffer[20:] = bytes(60)
    assert loaded(disk).max_offset == 7


def test_a_queue_is_loaded_with_one_look_at_its_only_file():
    opened: list[str] = []

    class Seen(FakeDisk):
        def act(self, operation, path):
            opened.append(operation)
            super().act(operation, path)

    disk = Seen()
    filled(3, disk)
    opened.clear()
    queue = loaded(disk)
    assert [queue.entry(offset)[0] for offset in range(3)] == [0, 100, 200]
    assert (queue.max_offset, queue.data_end, queue.seen_size) == (3, 3, 60)
    assert opened == ["open"]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_what_is_loaded_is_what_was_synced(count, disk):
    filled(count, disk)
    queue = loaded(disk)
    assert (queue.max_offset, queue.next_offset, queue.synced_offset, queue.data_end) == (count,) * 4
    assert list(queue.entries(0, 99)) == [(offset * 100, 100, 7) for offset in range(count)]


def test_entries_behind_an_empty_one_are_loaded_too(disk):
    filled(4, disk)
    next(iter(disk.files.values())).buffer[20:40] = bytes(20)
    queue = loaded(disk)
    assert (queue.max_offset, queue.data_end) == (1, 4)
    assert list(queue.stored_entries(1, 9)) == [(0, 0, 0), (200, 100, 7), (300, 100, 7)]


def test_what_was_loaded_is_forgotten_when_the_file_changes(disk):
    filled(3, disk)
    queue = loaded(disk)
    queue.put(3, 999, 100, 7)
    queue.sync()
    assert [queue.entry(offset)[0] for offset in range(4)] == [0, 100, 200, 999]
    queue = loaded(disk)
    queue.truncate(1)
    queue.replay(1, 555, 100, 7)
    queue.sync()
    assert [queue.entry(offset)[0] for offset in range(2)] == [0, 555]
    queue = loaded(disk)
    queue.replay(3, 900, 100, 7)  # a gap
    assert list(queue.entries(0, 9)) == [(0, 100, 7), (555, 100, 7), (900, 100, 7), (900, 100, 7)]
    queue = loaded(disk)
    queue.discard()
    assert (queue.seen_size, queue.entry(0)) == (0, (0, 0, 0))


def test_a_file_of_another_name_is_no_file_of_the_queue(disk):
    disk.write(QUEUE_DIRECTORY / "notes", b"x" * 4 * UNIT.size)
    assert (loaded(disk).has_begun, loaded(disk).max_offset) == (False, 0)


def test_zeros_in_place_of_an_entry_are_not_taken_for_a_message_that_was_cleaned_away(disk):
    queue = filled(10, disk)
    disk.files[queue.log.segments[1].path].buffer[20:40] = bytes(20)
    queue = loaded(disk)
    assert queue.min_offset(500) == 5
    with pytest.raises(FileCut):
        list(queue.entries(5, 1))


def test_a_queue_that_begins_with_zeros_lacks_its_beginning(disk):
    queue = filled(10, disk)
    disk.remove(queue.log.segments[0].path)
    assert not loaded(disk).lacks_start(450)
    disk.files[queue.log.segments[1].path].buffer[:20] = bytes(20)
    assert loaded(disk).lacks_start(450)
