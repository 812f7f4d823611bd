"""Walks over the CommitLog: where they end, and what they pass over."""

from pathlib import Path

import pytest

from orbitmq.errors import CorruptRecord
from orbitmq.store.log.commit_log import RESERVE_SIZE, CommitLog
from orbitmq.store.log.scanning import scan, whole_records
from orbitmq.store.log.segment_log import SegmentLog
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import Record
from unit.store.log.parts import HOST, SEGMENT_SIZE, append, log_of, scanned


@pytest.fixture
def log() -> CommitLog:
    return log_of()


def test_scanning_ends_where_no_record_is(log):
    append(log)
    with pytest.raises(CorruptRecord, match=f"offset {log.end}: magic 0x00000000"):
        list(scan(log, 0))


def test_a_filler_that_ends_early_is_corrupt(log):
    append(log)
    log.log.segments[0].buffer[log.end : log.end + 8] = bytes.fromhex("00000010cbd43194")
    with pytest.raises(CorruptRecord, match="filler of 16 bytes ends inside"):
        list(scan(log, 0))


@pytest.mark.parametrize("damaged", [0, 1, 3])
def test_whole_records_are_found_behind_damaged_ones(damaged, caplog, disk):
    log = log_of(disk)
    # The body looks like a record's beginning, as a message that holds a message does.
    sizes = [append(log, b"\xda\xa3\x20\xa7" * 30, queue_offset=number) for number in range(8)]
    starts = [found.physical_offset for found in whole_records(log, 0, log.end)]
    assert len(starts) == len(sizes)
    buffer = log.log.find(starts[damaged]).buffer
    at = starts[damaged] - log.log.find(starts[damaged]).base
    buffer[at : at + 4] = b"\xff" * 4
    found = [record.queue_offset for record in whole_records(log, 0, log.end)]
    assert found == [number for number in range(8) if number != damaged]
    assert "passed over damage" in caplog.text


def test_room_behind_the_last_record_is_no_damage(caplog):
    log = CommitLog(FakeDisk(), Path("/log"), 4 * RESERVE_SIZE, store_host=HOST)
    append(log)
    assert len(list(whole_records(log, 0, 3 * RESERVE_SIZE))) == 1
    assert caplog.text == ""


def test_behind_the_last_damage_there_is_nothing(caplog, log):
    append(log)
    end = log.end
    append(log)
    log.log.find(0).buffer[end] = 0xFF
    assert [record.physical_offset for record in whole_records(log, 0, log.end)] == [0]
    assert f"the last whole record ends at {end}" in caplog.text
    assert "passed over" not in caplog.text
    assert [record.physical_offset for record in whole_records(log, 0, end)] == [0]


@pytest.mark.parametrize("cut", [0, 3, 40, 64, 66, 100, 138, 150])
def test_a_record_that_reaches_into_a_hole_is_given_room_before_it_is_looked_at(cut, monkeypatch, disk):
    log = log_of(disk)
    sizes = [append(log, b"x" * 20), append(log, b"y" * 20)]
    file = log.log.find(0).file
    monkeypatch.setattr(file, "hole_start", lambda: cut)
    reserved = []
    monkeypatch.setattr(file, "reserve", lambda start, size: reserved.append((start, size)))
    found = []
    with pytest.raises(CorruptRecord):
        found.extend(scan(log, 0))
    whole = [0, sizes[0], sum(sizes)]
    assert sum(size for _, size in reserved) == min(end for end in whole if end >= cut) - cut


def test_no_search_for_a_record_reaches_the_last_byte_of_a_file(monkeypatch):
    class Watched(bytes):
        def find(self, *wanted):
            assert wanted[2] < len(self), "mmap.find of older Pythons looks at the byte behind its end"
            return super().find(*wanted)

    class Seen:
        def __init__(self, segment):
            self.base, self.end, self.buffer = segment.base, segment.end, Watched(segment.buffer[:])

    log = log_of()
    while log.end < SEGMENT_SIZE * 2:
        append(log)
    between = SegmentLog.between
    monkeypatch.setattr(SegmentLog, "between", lambda *bounds: [Seen(segment) for segment in between(*bounds)])
    found = [record.physical_offset for record in whole_records(log, 1, log.end)]
    assert found
    assert found == [record.physical_offset for record in scanned(log) if isinstance(record, Record)][1:]
