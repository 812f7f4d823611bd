"""One consume queue, and its judgement by its entries alone."""

import pytest

from cases import each_case
from orbitmq.errors import NotWritten
from orbitmq.store.local_disk import LocalDisk, LocalFile
from orbitmq.store.queues.consume_queue import BLANK_SIZE, ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.validation import Shares, has_hole, is_rising
from orbitmq.testing.fake_disk import FakeDisk

from ..parts import QUEUE_DIRECTORY, queue_of


def filled(count, disk=None, units=4, *, is_synced=True):
    queue = queue_of(disk, units)
    for offset in range(count):
        put(queue, offset)
    if is_synced:
        queue.sync()
    return queue


def put(queue, offset):
    queue.put(offset, offset * 100, 100, offset % 3)


def test_an_entry_is_twenty_bytes(disk):
    filled(2, disk)
    assert (
        bytes(disk.files[QUEUE_DIRECTORY / f"{0:020}"].buffer[20:40]).hex(" ", 4)
        == "00000000 00000064 00000064 00000000 00000001"
    )


@each_case(0, 3, 4, 5, 10)
def test_entries_come_back_across_files_and_from_memory(synced):
    queue = filled(synced)
    for offset in range(synced, 10):
        put(queue, offset)
    assert [entry[0] for entry in queue.entries(2, 6)] == [200, 300, 400, 500, 600, 700]
    assert [entry[0] for entry in queue.entries(8, 100)] == [800, 900]
    assert list(queue.entries(10, 5)) == []
    assert queue.entry(9) == (900, 100, 0)
    assert queue.entry(100) == (0, 0, 0)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8])
def test_loading_finds_the_end(count, disk):
    filled(count, disk)
    queue = queue_of(disk)
    queue.load()
    assert (queue.max_offset, queue.next_offset) == (count, count)
    put(queue, count)
    assert [entry[0] for entry in queue.entries(0, 100)] == [offset * 100 for offset in range(count + 1)]


def test_truncating_drops_the_later_entries_for_good(disk):
    queue = filled(10, disk)
    queue.truncate(5)
    assert (queue.max_offset, queue.next_offset) == (5, 5)
    queue.sync()
    again = queue_of(disk)
    again.load()
    assert again.max_offset == 5
    put(queue, 5)
    assert queue.entry(5) == (500, 100, 2)


def test_a_queue_that_begins_late_has_blanks_before_it(disk):
    queue = queue_of(disk)
    queue.replay(6, 600, 100, 0)
    queue.sync()
    assert disk.names(QUEUE_DIRECTORY) == [f"{80:020}"]
    assert [queue.entry(offset) for offset in (4, 5, 6)] == [(0, BLANK_SIZE, 0), (0, BLANK_SIZE, 0), (600, 100, 0)]
    assert (queue.min_offset(0), queue.max_offset) == (6, 7)


def test_replaying_goes_on_where_the_queue_ends():
    queue = filled(3)
    for offset in range(3, 10):
        queue.replay(offset, offset * 100, 100, 0)
    assert [entry[0] for entry in queue.entries(0, 100)] == [offset * 100 for offset in range(10)]
    assert queue.next_offset == 10


def test_a_queue_that_was_deleted_and_made_again_starts_again():
    queue = filled(10)
    queue.replay(0, 5000, 100, 0)
    assert queue.max_offset == 1
    assert queue.entry(0) == (5000, 100, 0)
    assert queue.entry(1) == (0, 0, 0)


@each_case(-1, 2, 9, 10 + 10 * 4 + 1, 1 << 62)
def test_a_queue_offset_that_was_never_given_is_told_and_changes_nothing(queue_offset):
    queue = filled(10)
    assert queue.replay(queue_offset, 5000, 100, 0) is False
    assert queue.max_offset == 10


@each_case(-1, 1 << 48)
def test_a_queue_cannot_begin_anywhere(queue_offset):
    queue = queue_of()
    assert queue.replay(queue_offset, 5000, 100, 0) is False
    assert queue.log.segments == []


def test_replaying_before_the_first_file_starts_the_queue_again():
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


def test_an_entry_that_finds_no_room_on_the_disk_stays_in_memory_and_is_written_later():
    disk = FakeDisk(capacity=0)
    queue = filled(3, disk, is_synced=False)
    with pytest.raises(NotWritten):
        queue.sync()
    assert [entry[0] for entry in queue.entries(0, 10)] == [0, 100, 200]
    assert (queue.is_synced, queue.unsynced_size) == (False, 60)
    disk.capacity = 1 << 20
    queue.sync()
    assert (queue.is_synced, queue.unsynced_size) == (True, 0)
    assert [entry[0] for entry in queue.entries(0, 10)] == [0, 100, 200]


def test_entries_that_come_while_others_are_written_are_left_for_the_next_write():
    queue = filled(2, is_synced=False)
    write = queue.begin_write()
    assert write is not None
    put(queue, 2)
    write.run()
    queue.end_write(write, is_synced=True)
    assert (queue.synced_offset, queue.is_synced) == (2, False)
    assert [entry[0] for entry in queue.entries(0, 10)] == [0, 100, 200]


def test_a_write_whose_entries_were_written_meanwhile_takes_nothing_back():
    queue = filled(2, is_synced=False)
    write = queue.begin_write()
    assert write is not None
    put(queue, 2)
    queue.sync()
    queue.end_write(write, is_synced=True)
    assert (queue.synced_offset, queue.is_synced) == (3, True)
    assert [entry[0] for entry in queue.entries(0, 10)] == [0, 100, 200]


def test_a_queue_says_once_that_it_has_entries_to_be_synced():
    noted = []
    queue = ConsumeQueue(FakeDisk(), QUEUE_DIRECTORY, 4, "orders", 0, note_unsynced=noted.append)
    for offset in range(3):
        put(queue, offset)
    assert noted == [queue]
    queue.sync()
    put(queue, 3)
    assert noted == [queue, queue]


def test_what_lies_behind_a_cut_is_overwritten_with_the_next_sync(disk):
    queue = filled(4, disk)
    queue.truncate(1)
    assert not queue.is_synced
    put(queue, 1)
    queue.sync()
    assert queue.is_synced
    assert bytes(disk.files[QUEUE_DIRECTORY / f"{0:020}"].buffer[40:]) == bytes(40)


def test_a_forgotten_queue_does_not_come_back():
    queue = filled(3)
    queue.forget()
    assert queue.is_synced
    assert list(queue.entries(0, 3)) == []


def test_a_write_under_way_does_not_bring_a_forgotten_queue_back(tmp_path):
    disk = LocalDisk()
    queue = ConsumeQueue(disk, tmp_path / "orders" / "0", 4, "orders", 0)
    put(queue, 0)
    write = queue.begin_write()
    assert write is not None
    queue.forget()
    disk.remove(tmp_path / "orders")
    write.run()
    queue.end_write(write, is_synced=True)
    assert (disk.names(tmp_path), queue.is_synced) == ([], True)


@each_case(([], True), ([0], True), ([0, 100, 250], True), ([0, 100, 100, 250], True), ([100, 0], False), ([-1], False))
def test_entries_follow_the_logs_order(places, rising):
    assert is_rising([(place, 100, 0) for place in places]) is rising


@each_case(0, -5)
def test_an_entry_without_a_record_is_none(size):
    assert is_rising([(0, 100, 0), (100, size, 0)]) is False


def test_an_entry_of_an_older_record_behind_the_end_betrays_a_hole():
    assert has_hole([(0, 0, 0), (900, 100, 0)], 1000)
    assert not has_hole([(0, 0, 0), (1000, 100, 0)], 1000)
    assert not has_hole([(0, 0, 7), (0, 0, 0)], 1000)


@each_case((0, (4_096, 128)), (1, (4_096, 128)), (10, (409, 12)), (10_000, (64, 1)))
def test_many_queues_share_what_a_start_may_spend(queue_count, shares):
    assert Shares.of(queue_count) == shares


def test_entries_that_were_read_ahead_are_forgotten_when_the_queue_is_cut():
    queue = filled(10, units=100)
    assert [entry[0] for entry in queue.entries(0, 2)] == [0, 100]
    queue.truncate(5)
    for offset in range(5, 10):
        queue.put(offset, offset * 1000, 100, 0)
    queue.sync()
    assert [entry[0] for entry in queue.entries(3, 4)] == [300, 400, 5000, 6000]
    queue.truncate(-1)
    assert list(queue.entries(0, 5)) == []


def test_a_reader_that_goes_on_where_it_ended_reads_the_file_once_for_many_entries(tmp_path, monkeypatch):
    reads = []
    read = LocalFile.read

    def note(file, start, size):
        reads.append(start)
        return read(file, start, size)

    monkeypatch.setattr(LocalFile, "read", note)
    queue = ConsumeQueue(LocalDisk(), tmp_path / "0", 1000, "orders", 0)
    for offset in range(600):
        put(queue, offset)
    queue.sync()
    reads.clear()
    found = []
    for offset in range(0, 600, 32):
        columns = queue.columns(offset, 32)
        assert columns is not None
        found += columns[0]
    assert found == [offset * 100 for offset in range(600)]
    assert len(reads) == 3


def test_entries_are_read_ahead_of_no_more_queues_than_the_limit(disk, monkeypatch):
    monkeypatch.setattr("orbitmq.store.queues.consume_queue._AHEAD_QUEUES_MAX", 3)
    queues = ConsumeQueues(disk, QUEUE_DIRECTORY, 100)
    for number in range(10):
        queue = queues.make("orders", number)
        put(queue, 0)
        queue.sync()
        assert list(queue.entries(0, 1)) == [(0, 100, 0)]
    assert len(queues._read_ahead) <= 3
