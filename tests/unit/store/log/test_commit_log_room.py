"""The CommitLog at the limits of segments and steps of room: what is kept together, cut, reserved, and found."""

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.commit_log import RESERVE_SIZE, CommitLog
from orbitmq.store.values import Draft
from orbitmq.testing.fake_disk import SECTOR_SIZE, FakeDisk
from orbitmq.wire.messages.record import Blank, format_topic, parse_record

V6 = Host("::1", 10911)
SEGMENT_SIZE = 1024
FILLER_SIZE = 8
LARGEST = {"topic": "t" * 200, "properties": b"a\x01b", "born_host": V6}
"""A message whose record takes as much as `make_room_for` allows for: long topic, IPv6, an open last property, a CRC."""


def log_of(disk=None, segment_size=SEGMENT_SIZE, **changes):
    return CommitLog(disk or FakeDisk(), Path("/log"), segment_size, **{"store_host": Host("127.0.0.1", 1), **changes})


def draft(body=b"hello", **changes):
    return Draft(**{"topic": "orders", "queue_id": 1, "body": body, **changes})


def append(log, body=b"hello", stored_at_ms=5, **changes):
    message = draft(body, **changes)
    return log.append(message, *format_topic(message.topic), 0, stored_at_ms)


def room_in(disk, number=-1):
    """Return the bytes that are reserved in one of a log's files."""
    return len(list(disk.files.values())[number].reserved) * SECTOR_SIZE


@pytest.fixture
def large_log():
    """A log of records as large as they get, which holds a single one."""
    log = log_of(store_host=V6, record_crc=True)
    append(log, **LARGEST)
    return log


def overhead():
    return append(log_of(store_host=V6, record_crc=True), b"", **LARGEST)


@pytest.mark.parametrize(("more", "stays_together"), [(0, True), (1, False)])
def test_a_batch_stays_together_up_to_the_last_byte_of_a_segment(large_log, more, stays_together):
    room = SEGMENT_SIZE - FILLER_SIZE - 2 * overhead()
    batch = [draft(bytes(room), **LARGEST), draft(bytes(more), **LARGEST)]
    before = large_log.end
    large_log.make_room_for(batch)
    assert large_log.end == (SEGMENT_SIZE if stays_together else before)
    if stays_together:
        for message in batch:
            large_log.append(message, *format_topic(message.topic), 0, 5)
        assert large_log.end == 2 * SEGMENT_SIZE - FILLER_SIZE


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_batch_that_fits_behind_what_is_there_begins_no_segment(large_log, more, fits):
    before = large_log.end
    large_log.make_room_for([draft(bytes(SEGMENT_SIZE - FILLER_SIZE - before - overhead() + more), **LARGEST)])
    assert large_log.end == (before if fits else SEGMENT_SIZE)


def test_a_batch_of_nothing_needs_no_room(disk):
    log = log_of(disk)
    log.make_room_for([])
    assert log.end == 0


@pytest.mark.parametrize("record_crc", [True, False])
def test_room_behind_a_record_holds_the_fillers_head_even_past_a_step(record_crc, disk):
    log = log_of(disk, 4 * RESERVE_SIZE, record_crc=record_crc)
    size = append(log, b"")
    append(log, bytes(RESERVE_SIZE - 2 * size - FILLER_SIZE // 2))
    assert log.end == RESERVE_SIZE - FILLER_SIZE // 2
    assert room_in(disk) == 2 * RESERVE_SIZE


def test_room_is_reserved_step_by_step_in_later_segments_as_well(disk):
    log = log_of(disk, 4 * RESERVE_SIZE)
    size = append(log, bytes(3 * RESERVE_SIZE))
    append(log, bytes(3 * RESERVE_SIZE // 2))
    assert log.end == 4 * RESERVE_SIZE + size - 3 * RESERVE_SIZE // 2
    assert room_in(disk) == 2 * RESERVE_SIZE


def test_writing_that_goes_on_in_a_later_segment_asks_for_room_there(disk):
    first = log_of(disk)
    append(first, bytes(600))
    append(first, bytes(600))
    again = disk.after_kill()
    log = log_of(again)
    log.log.load()
    log.start(first.end)
    again.capacity = 0
    with pytest.raises(StoreUnavailable, match="no space left"):
        append(log)
    assert log.end == first.end


def test_every_segment_is_closed_by_a_filler_of_its_own():
    log = log_of()
    size = append(log, bytes(600))
    for _ in range(3):
        append(log, bytes(600))
    for base in (0, SEGMENT_SIZE, 2 * SEGMENT_SIZE):
        assert parse_record(log.read(base + size, SEGMENT_SIZE)) == Blank(SEGMENT_SIZE - size)
    assert log.end == 3 * SEGMENT_SIZE + size


def test_checksums_of_records_are_appended_only_where_they_are_asked_for():
    assert append(log_of()) == append(log_of(record_crc=False)) < append(log_of(record_crc=True))


def test_properties_may_have_32746_bytes_besides_a_checksum():
    log = log_of(segment_size=1 << 17, record_crc=True)
    append(log, properties=b"x" * 32746)
    assert parse_record(log.read(0, log.end), 0).properties.startswith(b"x" * 32746)


@each_case(*range(1, 76, 6))
def test_where_no_record_can_start_there_is_no_store_time(before_end):
    log = log_of()
    append(log)
    log.log.segments[0].buffer[-80:] = b"\xff" * 80
    assert log.stored_at_ms(SEGMENT_SIZE - before_end) == 0


def test_a_damaged_body_hides_a_record_from_who_asks_for_checksums_and_they_are_asked_for():
    log = log_of()
    append(log, b"hello")
    body_at = bytes(log.log.segments[0].buffer).index(b"hello")
    log.log.segments[0].buffer[body_at] ^= 1
    assert log.record_at(0) is None
    assert log.record_at(0, check_crc=True) is None
    assert log.record_at(0, check_crc=False) is not None


def test_a_record_that_ends_behind_the_logs_end_is_not_there_yet():
    log = log_of()
    size = append(log)
    append(log)
    log.end -= 1
    assert log.record_at(0) is not None
    assert log.record_at(size) is None


def test_a_cut_log_gives_the_files_behind_the_cut_back(tmp_path):
    log = CommitLog(LocalDisk(), tmp_path, SEGMENT_SIZE, store_host=Host("127.0.0.1", 1))
    for _ in range(3):
        append(log, bytes(600))
    dropped = [segment.file.buffer for segment in log.log.segments[1:]]
    log.start(100)
    for buffer in dropped:
        with pytest.raises(ValueError, match="closed"):
            buffer[0]
    kept = log.log.segments[0].buffer
    log.close()
    with pytest.raises(ValueError, match="closed"):
        kept[0]
