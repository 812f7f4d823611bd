"""The slave's side of replication, and its frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import CorruptRecord, FrameError
from orbitmq.ha.master import SlaveFeed
from orbitmq.ha.slave import FRAME_SIZE_MAX, HEADER, REPORT, FollowedLog, ReportDecoder, format_header
from orbitmq.wire.messages.record import BLANK_SIZE_MIN, MAGIC_BLANK, PREFIX, Blank, format_record

SEGMENT_SIZE = 1_000


def make_log(body_sizes: list[int], base: int = 0) -> bytes:
    """Return a log of messages as a master writes it, from `base` on."""
    content = b""
    for size in body_sizes:
        at = base + len(content)
        record = format_record(topic="t", body=b"x" * size, physical_offset=at)
        room = SEGMENT_SIZE - at % SEGMENT_SIZE
        if len(record) + BLANK_SIZE_MIN > room:
            content += PREFIX.pack(room, MAGIC_BLANK).ljust(room, b"\0")
            record = format_record(topic="t", body=b"x" * size, physical_offset=base + len(content))
        content += record
    return content


def take(slave: FollowedLog, data: bytes) -> bytes:
    """Feed the bytes; return those of the log that came out, fillers with their zeros."""
    content = b""
    for found, raw in slave.feed(data):
        content += PREFIX.pack(found.size, MAGIC_BLANK).ljust(found.size, b"\0") if isinstance(found, Blank) else raw
    return content


def frames(log: bytes, start: int, run_size_max: int = 300) -> bytes:
    """Return what a master sends to a slave whose log ends at `start`."""
    feed, sent = SlaveFeed(SEGMENT_SIZE, run_size_max, 0), b""
    feed.report(start, 0, len(log), 0)
    while (run := feed.next_run(len(log))) is not None:
        sent += format_header(*run) + log[run.offset : run.offset + run.size]
        feed.note_sent(run.size, 0)
    return sent


sizes = st.lists(st.integers(0, 800), min_size=1, max_size=8)


@given(sizes, st.integers(1, 400), st.data())
def test_a_slave_gets_its_masters_log_whatever_the_slices(
    body_sizes: list[int], run_size_max: int, data: st.DataObject
) -> None:
    log = make_log(body_sizes)
    # It has the first record: an empty slave would begin with the last file.
    first = int.from_bytes(log[:4], "big")
    sent, slave, received, at = frames(log, first, run_size_max), FollowedLog(first, SEGMENT_SIZE), log[:first], 0
    while at < len(sent):
        step = data.draw(st.integers(1, 500))
        received += take(slave, sent[at : at + step])
        at += step
        assert log.startswith(received)
        assert slave.report <= slave.received
    assert received == log
    assert slave.end == slave.received == slave.report == len(log)


@given(sizes, st.data())
def test_a_connection_may_end_anywhere_and_the_next_goes_on_with_what_is_whole(
    body_sizes: list[int], data: st.DataObject
) -> None:
    log = make_log(body_sizes)
    received = log[: int.from_bytes(log[:4], "big")]
    while received != log:
        sent = frames(log, len(received))
        slave = FollowedLog(len(received), SEGMENT_SIZE)
        received += take(slave, sent[: data.draw(st.integers(1, len(sent) + 500))])
        assert slave.end == len(received)
        assert log.startswith(received)


def test_an_empty_slave_begins_where_its_master_says() -> None:
    log = make_log([10], base=3 * SEGMENT_SIZE)
    slave = FollowedLog(0, SEGMENT_SIZE)
    assert take(slave, format_header(5 * SEGMENT_SIZE, 0)) == b"", "a heartbeat begins nothing"
    assert take(slave, format_header(3 * SEGMENT_SIZE, len(log)) + log) == log
    assert slave.report == 3 * SEGMENT_SIZE + len(log)


def test_files_of_another_size_are_refused_with_a_sentence() -> None:
    with pytest.raises(FrameError, match="mappedFileSizeCommitLog"):
        take(FollowedLog(0, SEGMENT_SIZE), format_header(1_500, 10))


@each_case(0, 10)
def test_a_master_that_goes_on_elsewhere_has_another_log(size: int) -> None:
    with pytest.raises(FrameError, match="goes on at 201, and this log ends at 200"):
        take(FollowedLog(200, SEGMENT_SIZE), format_header(201, size))


def test_a_heartbeat_with_the_next_offset_is_welcome() -> None:
    slave = FollowedLog(200, SEGMENT_SIZE)
    assert take(slave, format_header(200, 0)) == b""
    assert slave.report == 200


@each_case(-1, FRAME_SIZE_MAX + 1)
def test_a_frame_beyond_the_limit_is_refused(size: int) -> None:
    with pytest.raises(FrameError, match="frame of"):
        take(FollowedLog(200, SEGMENT_SIZE), format_header(200, size))


def test_within_a_filler_a_slave_reports_no_more_than_it_was_sent() -> None:
    slave = FollowedLog(900, SEGMENT_SIZE)
    filler = PREFIX.pack(100, MAGIC_BLANK).ljust(100, b"\0")
    [(found, content)] = slave.feed(format_header(900, 50) + filler[:50])
    assert (found, content) == (Blank(100), b"")
    assert (slave.end, slave.received, slave.report) == (1_000, 950, 950)
    log = make_log([10], base=SEGMENT_SIZE)
    assert take(slave, format_header(950, 50) + filler[50:] + format_header(1_000, len(log)) + log) == log
    assert slave.report == 1_000 + len(log)


@each_case(
    (PREFIX.pack(99, MAGIC_BLANK).ljust(99, b"\0"), "filler of 99 bytes"),
    (PREFIX.pack(93, 0xDAA320A7).ljust(100, b"\0"), "record of 93 bytes"),
    (PREFIX.pack(0, 0).ljust(100, b"\0"), "record of 0 bytes"),
    (PREFIX.pack(90, 0).ljust(90, b"\0"), "magic"),
    (format_record(topic="t", body=b"", physical_offset=7)[:100], "lies at 7"),
)
def test_what_is_no_record_is_not_taken(content: bytes, reason: str) -> None:
    base = 0 if reason == "lies at 7" else 900
    slave = FollowedLog(base + (SEGMENT_SIZE if not base else 0), SEGMENT_SIZE)
    with pytest.raises(CorruptRecord, match=reason):
        take(slave, format_header(slave.received, len(content)) + content)
    assert slave.report <= slave.received
    assert slave.end in (900, SEGMENT_SIZE), "nothing was taken"


def test_a_record_before_damage_is_taken() -> None:
    log = make_log([10, 10])
    first = int.from_bytes(log[:4], "big")
    damaged = log[:-1] + b"\0" if log[-1] else log[:-20] + b"\xff" * 20
    slave = FollowedLog(0, SEGMENT_SIZE)
    taken = []
    with pytest.raises(CorruptRecord):
        taken.extend(iter(slave.feed(format_header(0, len(damaged)) + damaged)))
    assert slave.end == first


OFFSETS = st.integers(0, 2**63 - 1)


@given(st.lists(OFFSETS, min_size=1), st.data())
def test_reports_survive_any_slicing(offsets: list[int], data: st.DataObject) -> None:
    sent = b"".join(map(REPORT.pack, offsets))
    decoder, seen, at = ReportDecoder(), [], 0
    while at < len(sent):
        step = data.draw(st.integers(1, 20))
        seen.append(decoder.feed(sent[at : at + step]))
        at += step
    found = [offset for offset in seen if offset is not None]
    assert found[-1] == offsets[-1]
    rest = iter(offsets)
    assert all(offset in rest for offset in found), "in order, none invented"


def test_of_a_read_only_the_last_report_counts() -> None:
    assert ReportDecoder().feed(REPORT.pack(7) + REPORT.pack(9) + b"\0\0\0") == 9


def test_a_report_below_0_ends_the_connection() -> None:
    with pytest.raises(FrameError, match="-1"):
        ReportDecoder().feed(b"\xff" * 8)


@given(OFFSETS, st.integers(0, 2**31 - 1))
def test_a_header_is_offset_and_size(offset: int, size: int) -> None:
    header = format_header(offset, size)
    assert len(header) == 12
    assert HEADER.unpack(header) == (offset, size)
