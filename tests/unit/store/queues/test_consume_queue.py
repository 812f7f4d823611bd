"""One consume queue."""

import errno

import pytest

from orbitmq.store.queues.consume_queue import BLANK_SIZE
from orbitmq.testing.fake_disk import FakeDisk

from ..parts import QUEUE_DIRECTORY, queue_of


def filled(count, disk=None, units=4):
    queue = queue_of(disk, units)
    for offset in range(count):
        put(queue, offset)
    return queue


def put(queue, offset):
    if offset >= queue.reserved_offset:
        queue.reserve(offset)
    queue.put(offset, offset * 100, 100, offset % 3)


def test_an_entry_is_twenty_bytes():
    disk = FakeDisk()
    filled(2, disk)
    assert (
        bytes(disk.files[QUEUE_DIRECTORY / f"{0:020}"].buffer[20:40]).hex(" ", 4)
        == "00000000 00000064 00000064 00000000 00000001"
    )


def test_entries_come_back_across_files():
    queue = filled(10)
    assert [entry[0] for entry in queue.entries(2, 6)] == [200, 300, 400, 500, 600, 700]
    assert [entry[0] for entry in queue.entries(8, 100)] == [800, 900]
    assert list(queue.entries(10, 5)) == []
    assert queue.entry(9) == (900, 100, 0)
    assert queue.entry(100) == (0, 0, 0)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8])
def test_loading_finds_the_end(count):
    disk = FakeDisk()
    filled(count, disk)
    queue = queue_of(disk)
    queue.load()
    assert (queue.max_offset, queue.next_offset) == (count, count)
    put(queue, count)
    assert [entry[0] for entry in queue.entries(0, 100)] == [offset * 100 for offset in range(count + 1)]


def test_truncating_drops_the_later_entries_for_good():
    disk = FakeDisk()
    queue = filled(10, disk)
    queue.truncate(5)
    assert (queue.max_offset, queue.next_offset) == (5, 5)
    again = queue_of(disk)
    again.load()
    assert again.max_offset == 5
    put(queue, 5)
    assert queue.entry(5) == (500, 100, 2)


def test_a_queue_that_begins_late_has_blanks_before_it():
    disk = FakeDisk()
    queue = queue_of(disk)
    queue.replay(6, 600, 100, 0)
    assert disk.names(QUEUE_DIRECTORY) == [f"{80:020}"]
    assert [queue.entry(offset) for offset in (4, 5, 6)] == [(0, BLANK_SIZE, 0), (0, BLANK_SIZE, 0), (600, 100, 0)]
    assert (queue.min_offset(0), queue.max_offset) == (6, 7)


def test_replaying_goes_on_where_the_queue_ends():
    queue = filled(3)
    for offset in range(3, 10):
        queue.replay(offset, offset * 100, 100, 0)
    assert [entry[0] for entry in queue.entries(0, 100)] == [offset * 100 for offset in range(10)]
    assert queue.next_offset == 10


def test_a_queue_that_was_deleted_and_made_again_starts_anew():
    queue = filled(10)
    queue.replay(0, 5000, 100, 0)
    assert queue.max_offset == 1
    assert queue.entry(0) == (5000, 100, 0)
    assert queue.entry(1) == (0, 0, 0)


@pytest.mark.parametrize("queue_offset", [-1, 2, 9, 10 + 10 * 4 + 1, 1 << 62])
def test_a_queue_offset_that_nobody_gave_is_told_and_changes_nothing(queue_offset):
    queue = filled(10)
    assert queue.replay(queue_offset, 5000, 100, 0) is False
    assert queue.max_offset == 10


@pytest.mark.parametrize("queue_offset", [-1, 1 << 48])
def test_a_queue_cannot_begin_anywhere(queue_offset):
    queue = queue_of()
    assert queue.replay(queue_offset, 5000, 100, 0) is False
    assert queue.log.segments == []


def test_replaying_before_the_first_file_starts_the_queue_anew():
    queue = queue_of()
    queue.replay(100, 1, 100, 0)
    queue.replay(0, 2, 100, 0)
    assert (queue.min_offset(0), queue.max_offset) == (0, 1)


@pytest.mark.parametrize("target", [4, 6, 15])
def test_a_gap_in_the_log_leads_to_the_message_behind_it(target, caplog):
    queue = filled(3)
    queue.replay(target, 9000, 100, 0)
    assert [queue.entry(offset)[0] for offset in range(2, target + 1)] == [200] + [9000] * (target - 2)
    assert f"messages 3 to {target - 1} are missing" in caplog.text
    assert (queue.min_offset(0), queue.max_offset) == (0, target + 1)


def test_the_first_message_is_the_first_that_the_log_still_has():
    queue = filled(10)
    assert [queue.min_offset(physical) for physical in (0, 100, 101, 550, 900, 901, 5000)] == [0, 1, 2, 6, 9, 10, 10]
    put(queue, 10)
    assert queue.min_offset(901) == 10


def test_an_empty_queue_begins_at_its_end():
    assert queue_of().min_offset(0) == 0


def test_room_is_made_before_it_is_needed_and_a_full_disk_is_told():
    disk = FakeDisk()
    queue = queue_of(disk)
    disk.failures["reserve"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(OSError, match="full"):
        queue.reserve(0)
    disk.failures.clear()
    queue.reserve(0)
    assert queue.reserved_offset == 4
    queue.reserve(4)  # entries 0 to 3 still wait for their sync
    assert queue.reserved_offset == 8
    for offset in range(8):
        queue.put(offset, offset * 100, 100, 0)
    assert [entry[0] for entry in queue.entries(0, 10)] == [offset * 100 for offset in range(8)]


def test_only_files_with_new_entries_need_a_sync():
    queue = filled(10)
    assert [segment.base for segment in queue.unsynced()] == [0, 80, 160]
    queue.synced_offset = 5
    assert [segment.base for segment in queue.unsynced()] == [80, 160]
    queue.synced_offset = 10
    assert queue.unsynced() == []
    queue.truncate(9)
    assert queue.synced_offset == 9


def test_a_forgotten_queue_does_not_come_back():
    queue = filled(3)
    queue.forget()
    assert queue.unsynced() == []
    assert list(queue.entries(0, 3)) == []
