"""A log in files of equal size, and the note of its start offset."""

import errno
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import StoreError
from orbitmq.store.log.segment import Segment, segment_name
from orbitmq.store.log.segment_log import SegmentLog
from orbitmq.store.log.start_offset import LogStartOffset, parse_start_offset
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

DIRECTORY = Path("/log")


def log_of(disk, count=0, base=None):
    log = SegmentLog(disk, DIRECTORY, 1024, 512)
    for _ in range(count):
        log.extend(base)
    return log


def test_an_empty_log_is_empty():
    log = log_of(FakeDisk())
    log.load()
    assert (log.base, log.end, log.find(0)) == (0, 0, None)
    log.truncate(0)


def test_segments_follow_one_another():
    log = log_of(FakeDisk(), 3)
    assert [segment.base for segment in log.segments] == [0, 1024, 2048]
    assert (log.base, log.end) == (0, 3072)


def test_a_log_may_begin_later():
    log = log_of(FakeDisk(), 2, base=4096)
    assert [segment.base for segment in log.segments] == [4096, 5120]
    assert log.find(4095) is None


def test_a_byte_is_found_in_its_segment():
    log = log_of(FakeDisk(), 2, base=1024)
    assert [log.find(offset).base for offset in (1024, 2047, 2048, 3071)] == [1024, 1024, 2048, 2048]
    assert log.find(1023) is None
    assert log.find(3072) is None


def test_loading_finds_what_was_there_and_passes_over_other_names(disk):
    log_of(disk, 3, base=2048)
    disk.write(DIRECTORY / "notes.txt", b"mine")
    log = log_of(disk)
    log.load()
    assert [segment.base for segment in log.segments] == [2048, 3072, 4096]


def test_a_missing_file_is_named(disk):
    log_of(disk, 3)
    disk.remove(DIRECTORY / segment_name(1024))
    with pytest.raises(StoreError, match="the file of offset 1024 is missing before 00000000000000002048"):
        log_of(disk).load()


@pytest.mark.parametrize(("at", "size"), [(0, 100), (0, 2048), (1024, 2048)])
def test_a_file_of_another_size_is_refused(at, size, disk):
    log_of(disk, 2)
    disk.write(DIRECTORY / segment_name(at), bytes(size))
    with pytest.raises(StoreError, match=f"has {size} bytes, configured are 1024"):
        log_of(disk).load()


def test_a_last_file_whose_making_was_interrupted_is_completed(disk):
    log_of(disk, 2)
    disk.write(DIRECTORY / segment_name(1024), b"")
    log = log_of(disk)
    log.load()
    assert len(log.segments[1].buffer) == 1024


def test_truncating_removes_later_files_and_zeroes_the_rest_upstream_10666(disk):
    log = log_of(disk, 3)
    for segment in log.segments:
        segment.buffer[:] = b"x" * 1024
    log.truncate(1500)
    assert disk.names(DIRECTORY) == [segment_name(0), segment_name(1024)]
    assert bytes(log.segments[1].buffer) == b"x" * 476 + bytes(548)


def test_truncating_at_a_files_start_keeps_the_file_empty():
    log = log_of(FakeDisk(), 3)
    log.segments[1].buffer[:] = b"x" * 1024
    log.truncate(1024)
    assert [segment.base for segment in log.segments] == [0, 1024]
    assert not any(log.segments[1].buffer)


def test_truncating_past_the_end_changes_nothing():
    log = log_of(FakeDisk(), 1)
    log.segments[0].buffer[:] = b"x" * 1024
    log.truncate(1024)
    assert bytes(log.segments[0].buffer) == b"x" * 1024


def test_only_segments_between_are_synced(disk):
    log = log_of(disk, 3)
    for segment in log.segments:
        segment.buffer[0] = 1
    log.sync(1024, 1025)
    assert [segment.file.durable is not None and segment.file.durable[0] == 1 for segment in log.segments] == [
        False,
        True,
        False,
    ]


def test_the_file_before_is_synced_before_the_next_is_made(disk):
    log = log_of(disk, 1)
    log.segments[0].buffer[0] = 7
    log.extend()
    assert log.segments[0].file.durable[0] == 7


def test_a_closed_segment_opens_again():
    log = log_of(FakeDisk(), 1)
    log.segments[0].buffer[0] = 9
    log.close()
    log.close()
    assert log.segments[0].buffer[0] == 9


def test_names_that_only_look_like_a_segments_are_passed_over(disk):
    log_of(disk, 1)
    for name in ("0", "1024", "x" * 20, "0" * 21):
        disk.write(DIRECTORY / name, b"mine")
    log = log_of(disk)
    log.load()
    assert [segment.base for segment in log.segments] == [0]


@each_case(
    (1500, 1500, []), (1500, 1400, []), (0, 1024, [0]), (1024, 2048, [1024]), (1023, 1025, [0, 1024]), (0, 1, [0])
)
def test_segments_between_two_offsets_are_those_that_hold_a_byte_of_them(start, end, bases):
    assert [segment.base for segment in log_of(FakeDisk(), 3).between(start, end)] == bases


@each_case(False, True)
def test_segments_are_single_files_unless_their_log_is_one_of_many(is_one_of_many):
    class Seen(FakeDisk):
        def open(self, path, size, *, is_one_of_many=False):
            seen.append(is_one_of_many)
            return super().open(path, size, is_one_of_many=is_one_of_many)

    seen: list[bool] = []
    SegmentLog(Seen(), DIRECTORY, 1024, 512, is_one_of_many=is_one_of_many).extend()
    log_of(Seen(), 1)
    _ = Segment(Seen(), DIRECTORY, 0, 1024, 512).file
    assert seen == [is_one_of_many, False, False]


PATH = Path("/store/begin")


def test_bytes_before_the_noted_beginning_are_not_missing_and_those_behind_it_are(disk):
    LogStartOffset(disk, PATH).note(4096)
    again = LogStartOffset(disk, PATH)
    assert [again.missing_before(log_min) for log_min in (0, 4096, 8192)] == [0, 0, 4096]


def test_without_a_note_nothing_is_missing():
    assert LogStartOffset(FakeDisk(), PATH).missing_before(8192) == 0


@each_case(b"", b"\0\0\0\0\0", b"40\x0096\n", b"-1\n", b"\xb2\n", b"4096 4096\n")
def test_a_damaged_note_knows_nothing(content):
    assert parse_start_offset(content) is None


def test_a_note_that_the_disk_refuses_leaves_the_old_one(disk):
    start_offset = LogStartOffset(disk, PATH)
    start_offset.note(1024)
    disk.failures["move"] = OSError(errno.EIO, "broken")
    with pytest.raises(OSError, match="broken"):
        start_offset.note(2048)
    assert start_offset.missing_before(2048) == LogStartOffset(disk, PATH).missing_before(2048) == 1024


def test_a_power_cut_leaves_the_old_note_or_the_new_one(disk):
    LogStartOffset(disk, PATH).note(1024)
    disk.cut_at = disk.operation_count + 2
    with pytest.raises(PowerCut):
        LogStartOffset(disk, PATH).note(2048)
    assert disk.read(PATH) == b"1024\n"
    assert disk.read(PATH.with_name("begin.tmp")) == b"2048\n"


def test_the_same_beginning_is_written_once(disk):
    start_offset = LogStartOffset(disk, PATH)
    start_offset.note(0)
    count = disk.operation_count
    start_offset.note(0)
    assert disk.operation_count == count


def test_a_note_of_more_digits_than_a_number_may_have_knows_nothing():
    assert parse_start_offset(b"9" * 5000) is None
