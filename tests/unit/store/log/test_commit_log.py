"""The CommitLog: layout in segments, room, reading."""

import errno
from itertools import product
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.values import Draft
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import Blank, format_record, format_topic, parse_record
from unit.store.log.parts import HOST, SEGMENT_SIZE, append, loaded, log_of, scanned

V6 = Host("::1", 10911)


@pytest.fixture
def log() -> CommitLog:
    return log_of()


@each_case(*product([HOST, V6], [HOST, V6], ["orders", "t" * 200], [False, True], [b"", b"a\x01b", b"a\x01b\x02"]))
def test_what_is_written_is_the_wires_record(born, store, topic, with_crc, properties):
    log = log_of(store_host=store, record_crc=with_crc)
    append(log)
    start = log.end
    fields = {
        "topic": topic, "queue_id": 3, "body": b"body", "properties": properties, "flag": -1, "sys_flag": 0x31,
        "born_at_ms": 99, "born_host": born, "reconsume_times": 2, "prepared_transaction_offset": 8,
    }  # fmt: skip
    size = log.append(Draft(**fields), *format_topic(topic), 7, 123)
    expected = format_record(
        **fields, queue_offset=7, physical_offset=start, stored_at_ms=123, store_host=store, with_crc=with_crc
    )
    assert log.read(start, size) == expected
    assert log.end == start + size
    assert log.stored_at_ms(start) == 123


def test_a_record_that_does_not_fit_goes_to_the_next_segment_behind_a_filler(log):
    size = append(log, bytes(500))
    append(log, bytes(500), queue_offset=1)
    assert parse_record(log.read(size, SEGMENT_SIZE)) == Blank(SEGMENT_SIZE - size)
    assert log.end == SEGMENT_SIZE + size
    assert [found.size for found in scanned(log)] == [size, SEGMENT_SIZE - size, size]


@pytest.mark.parametrize(
    ("free", "end"), [(7, 2 * SEGMENT_SIZE - 97 - 7), (8, SEGMENT_SIZE - 8), (9, SEGMENT_SIZE - 9)]
)
def test_eight_bytes_are_kept_free_for_the_filler(free, end, log):
    overhead = append(log, b"")
    append(log, bytes(SEGMENT_SIZE - 2 * overhead - free))
    assert log.end == end


def test_a_record_larger_than_a_segment_is_refused(log):
    overhead = append(log, b"")
    with pytest.raises(InvalidArgument, match="a record of at most 1016 bytes"):
        append(log, bytes(SEGMENT_SIZE - 8 - overhead + 1))
    append(log, bytes(SEGMENT_SIZE - 8 - overhead))
    assert log.log.end == 2 * SEGMENT_SIZE


@each_case(
    ({"properties": b"x" * 32768}, {}, "at most 32767 bytes"),
    ({"properties": b"x" * 32747}, {"record_crc": True}, "at most 32746 bytes"),
    ({"properties": b"a\x01b\x00"}, {}, "zeros at the end"),
    ({"properties": b"a\x01" + bytes(512) + b"\x02"}, {}, "512 in a row"),
    ({"flag": 2**31}, {}, "numbers that the record can hold"),
    ({"queue_id": 2**31}, {}, "numbers that the record can hold"),
)
def test_what_no_record_can_hold_is_refused_and_leaves_no_trace(changes, log_changes, reason):
    log = log_of(**log_changes)
    append(log)
    before, content = log.end, log.read(0, SEGMENT_SIZE)
    with pytest.raises(InvalidArgument, match=reason):
        append(log, **changes)
    assert (log.end, log.read(0, SEGMENT_SIZE)) == (before, content)


def test_properties_may_have_32767_bytes():
    log = CommitLog(FakeDisk(), Path("/log"), 1 << 17, store_host=HOST)
    append(log, properties=b"x" * 32767)
    assert parse_record(log.read(0, log.end)).properties == b"x" * 32767


@pytest.mark.parametrize(("operation", "number"), [("reserve", errno.ENOSPC), ("open", errno.EDQUOT)])
def test_a_full_disk_refuses_and_takes_messages_again_when_it_has_room(operation, number, disk):
    log = log_of(disk)
    disk.failures[operation] = OSError(number, "full")
    with pytest.raises(StoreUnavailable, match="no space left on the disk"):
        append(log)
    assert log.end == 0
    disk.failures.clear()
    append(log)
    assert parse_record(log.read(0, log.end), 0).body == b"hello"


def test_a_disk_that_fails_otherwise_is_quoted(disk):
    disk.failures["open"] = OSError(errno.EACCES, "Permission denied")
    with pytest.raises(StoreUnavailable, match="Permission denied"):
        append(log_of(disk))


def test_a_disk_that_fills_up_at_the_roll_leaves_a_log_that_reads_to_its_end(disk):
    log = log_of(disk)
    append(log, bytes(600))
    disk.failures["open"] = OSError(errno.ENOSPC, "full")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            append(log, bytes(600))
    assert log.end == SEGMENT_SIZE
    disk.failures.clear()
    append(log, bytes(600), queue_offset=1)
    assert [type(found).__name__ for found in scanned(log)] == ["Record", "Blank", "Record"]


def test_a_batch_stays_together_where_a_segment_can_hold_it(log):
    append(log, bytes(300))
    log.make_room_for([Draft("orders", 0, bytes(100))] * 3)
    assert log.end == SEGMENT_SIZE
    log.make_room_for([Draft("orders", 0, bytes(900))] * 3)  # more than a segment: nothing to keep together
    assert log.end == SEGMENT_SIZE


def test_a_batch_with_a_bad_message_is_refused_before_the_first():
    with pytest.raises(InvalidArgument, match="zero"):
        log_of().make_room_for([Draft("orders", 0, b""), Draft("orders", 0, b"", b"\0")])


def test_writing_goes_on_behind_the_last_record(disk):
    first = append(log_of(disk))
    log = loaded(disk)
    log.start(first)
    size = append(log, queue_offset=1)
    assert [record.queue_offset for record in scanned(log)] == [0, 1]
    assert log.end == first + size


def test_writing_can_start_behind_the_last_segment(disk):
    log_of(disk).log.extend()
    log = loaded(disk)
    log.start(SEGMENT_SIZE)
    append(log)
    assert log.log.end == 2 * SEGMENT_SIZE


def test_a_record_is_found_by_its_place_and_by_nothing_else(log):
    size = append(log)
    append(log, b"second", queue_offset=1)
    assert parse_record(log.record_at(size)).body == b"second"
    for nowhere in (-1, 1, size - 1, log.end, 10**9):
        assert log.record_at(nowhere) is None


def test_a_filler_is_no_record(log):
    size = append(log, bytes(600))
    append(log, bytes(600))
    assert log.record_at(size) is None


def test_a_size_past_the_end_is_not_followed(log):
    append(log)
    log.log.segments[0].buffer[0:4] = b"\x7f\xff\xff\xff"
    assert log.record_at(0) is None


def test_runs_are_joined_across_segments(log):
    size = append(log, bytes(600))
    append(log, bytes(600), queue_offset=1)
    joined = log.join([(0, size), (SEGMENT_SIZE, SEGMENT_SIZE + size)])
    assert joined == log.read(0, size) + log.read(SEGMENT_SIZE, size)


def test_outside_the_log_there_is_nothing_to_read(log):
    append(log)
    assert log.read(5000, 10) == b""
    assert log.stored_at_ms(SEGMENT_SIZE - 10) == 0


def test_rewriting_dirties_exactly_the_tail():
    class Recorder(bytearray):
        def __setitem__(self, key, value):
            written.append((key.start, key.stop))
            super().__setitem__(key, value)

    written = []
    log = log_of()
    append(log, bytes(600))
    append(log, bytes(600), queue_offset=1)
    for segment in log.log.segments:
        segment.file.buffer = Recorder(segment.buffer)
    log.rewrite(500, SEGMENT_SIZE + 100)
    assert written == [(500, SEGMENT_SIZE), (0, 100)]


def test_a_filler_is_written_only_where_there_is_room_for_it(disk):
    append(log_of(disk), bytes(300))
    disk.capacity = 0
    for file in disk.files.values():
        file.reserved.clear()
    log = loaded(disk)
    log.start(400)
    with pytest.raises(StoreUnavailable):
        append(log, bytes(700))
    assert log.end == 400
    assert not any(log.read(400, SEGMENT_SIZE))


@pytest.mark.parametrize("born", [HOST, V6])
def test_the_record_of_a_queue_tells_its_queue_offset(born, log):
    size = append(log, queue_offset=7, born_host=born)
    form = format_topic("orders")
    assert log.queue_offset_at(0, size, 1, "orders", form) == 7
    assert log.queue_offset_at(0, size - 1, 1, "orders", form) == -1
    assert log.queue_offset_at(0, size + 1, 1, "orders", form) == -1
    assert log.queue_offset_at(0, size, 2, "orders", form) == -1
    assert log.queue_offset_at(0, size, 1, "others", format_topic("others")) == -1
    assert log.queue_offset_at(1, size, 1, "orders", form) == -1
    for at in (-1, size, SEGMENT_SIZE - 1, SEGMENT_SIZE, 1 << 40):
        assert log.queue_offset_at(at, size, 1, "orders", form) == -1
    assert log.queue_offset_at(0, 0, 1, "orders", form) == -1


def test_a_record_behind_the_logs_end_tells_nothing(log):
    size = append(log)
    log.end = size - 1
    assert log.queue_offset_at(0, size, 1, "orders", format_topic("orders")) == -1
