"""One file of a log."""

from pathlib import Path

from orbitmq.store.log.segment import Segment, segment_name
from orbitmq.testing.fake_disk import FakeDisk

DIRECTORY = Path("/log")


def test_a_file_is_named_by_its_offset_in_twenty_digits():
    assert segment_name(1 << 30) == "00000000001073741824"


def test_room_is_reserved_in_steps_and_never_past_the_end(disk: FakeDisk):
    segment = Segment(disk, DIRECTORY, 0, 1024, 600)
    assert segment.reserve(1) == 600
    asked = disk.operation_count
    assert segment.reserve(600) == 600
    assert disk.operation_count == asked
    assert segment.reserve(601) == 1024


def test_reserving_can_begin_where_writing_goes_on():
    disk = FakeDisk(capacity=1024)
    segment = Segment(disk, DIRECTORY, 0, 4096, 512)
    segment.reserve_from(3000)
    assert segment.reserve(3001) == 3072
    segment.zero_from(2000)
    assert segment.reserve(2001) == 2048


def test_a_file_is_opened_at_its_first_use_and_again_after_it_was_closed(disk: FakeDisk):
    segment = Segment(disk, DIRECTORY, 1024, 512, 512)
    assert disk.names(DIRECTORY) == []
    segment.close()
    segment.buffer[0] = 9
    assert disk.names(DIRECTORY) == [segment_name(1024)]
    assert (segment.end, len(segment.buffer)) == (1536, 512)
    segment.close()
    assert segment.buffer[0] == 9


def test_room_is_made_by_writing_zeros_ahead():
    disk = FakeDisk(capacity=512)
    segment = Segment(disk, DIRECTORY, 0, 512, 512)
    segment.buffer[:3] = b"old"
    segment.reserve(1)
    assert bytes(segment.buffer[:3]) == bytes(3)
    assert disk.capacity == 0


def test_where_everything_reads_as_zeros_again_room_is_asked_for_again(disk: FakeDisk):
    segment = Segment(disk, DIRECTORY, 0, 2048, 512)
    segment.reserve(1500)
    segment.buffer[:1500] = b"x" * 1500
    segment.zero_from(1000)
    assert bytes(segment.buffer[:1500]) == b"x" * 1000 + bytes(500)
    before = disk.operation_count
    segment.reserve(1000)
    assert disk.operation_count == before
    assert segment.reserve(1001) == 1024
