from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import FrameError
from orbitmq.ha.master import ConfirmedRange, LogChunk, SlaveFeed


def feed(segment_size: int = 100, run_size_max: int = 30) -> SlaveFeed:
    return SlaveFeed(segment_size, run_size_max, now_ms=0)


def follow(log: int, start: int, slave: SlaveFeed) -> list[LogChunk]:
    slave.report(start, 0, log, 0)
    runs = []
    while (run := slave.next_run(log)) is not None:
        runs.append(run)
        slave.note_sent(run.size, 0)
    return runs


@pytest.fixture
def slave() -> SlaveFeed:
    return feed()


def test_nothing_is_sent_before_the_first_report(slave: SlaveFeed) -> None:
    assert slave.next_run(1000) is None
    assert not slave.is_heartbeat_due(10_000, 5_000)


@pytest.mark.parametrize(
    ("begin", "end", "start"), [(0, 0, 0), (0, 99, 0), (0, 100, 100), (0, 250, 200), (300, 300, 300)]
)
def test_an_empty_slave_begins_with_the_last_file_and_no_earlier_than_the_log(
    begin: int, end: int, start: int, slave: SlaveFeed
) -> None:
    slave.report(0, begin, end, 0)
    assert slave.sent == start


def test_a_slave_goes_on_where_its_log_ends() -> None:
    assert follow(250, 190, feed()) == [LogChunk(190, 10), LogChunk(200, 30), LogChunk(230, 20)]


@given(st.integers(0, 2000), st.integers(0, 2000), st.integers(1, 50))
def test_runs_are_the_log_without_gaps_and_none_crosses_a_file(log: int, start: int, run_size_max: int) -> None:
    start = min(log, start)
    at = start or log - log % 100
    for run in follow(log, start, feed(run_size_max=run_size_max)):
        assert run.offset == at
        assert 0 < run.size <= run_size_max
        assert run.offset // 100 == (run.offset + run.size - 1) // 100
        at += run.size
    assert at == log


def test_a_slave_with_more_than_its_master_has_another_log() -> None:
    with pytest.raises(FrameError, match="its log is another one"):
        feed().report(101, 0, 100, 0)


def test_a_slave_whose_next_bytes_were_deleted_is_told_to_begin_again() -> None:
    with pytest.raises(FrameError, match="empty the slave's store"):
        feed().report(99, 100, 250, 0)


def test_an_empty_slave_may_report_0_until_it_has_something(slave: SlaveFeed) -> None:
    slave.report(0, 0, 250, 0)
    slave.report(0, 0, 250, 5_000)
    assert slave.acknowledged == 0
    slave.note_sent(30, 5_000)
    slave.report(230, 0, 250, 5_001)
    assert slave.acknowledged == 230


def test_reports_confirm_what_was_stored_after_the_first_one(slave: SlaveFeed) -> None:
    assert slave.confirmed is None
    slave.report(190, 0, 250, 0)
    assert slave.confirmed == ConfirmedRange(250, 190)
    slave.note_sent(90, 0)
    slave.report(280, 0, 280, 0)
    assert slave.confirmed == ConfirmedRange(250, 280)


@pytest.mark.parametrize("lie", [189, 0, 221, 150])
def test_a_report_that_cannot_be_true_ends_the_connection(lie: int, slave: SlaveFeed) -> None:
    slave.report(190, 0, 250, 0)
    slave.note_sent(10, 0)
    slave.note_sent(20, 0)
    with pytest.raises(FrameError, match="sent the log up to 220"):
        slave.report(lie, 0, 250, 0)


def test_a_slave_that_has_reported_less_than_where_it_began_lies(slave: SlaveFeed) -> None:
    slave.report(0, 0, 250, 0)
    with pytest.raises(FrameError, match="has 1"):
        slave.report(1, 0, 250, 0)


def test_a_heartbeat_is_due_after_a_silence(slave: SlaveFeed) -> None:
    slave.report(10, 0, 10, 0)
    assert not slave.is_heartbeat_due(4_999, 5_000)
    assert slave.is_heartbeat_due(5_000, 5_000)
    slave.note_sent(0, 5_000)
    assert not slave.is_heartbeat_due(9_999, 5_000)


def test_a_slave_that_reports_nothing_is_silent_from_then_on(slave: SlaveFeed) -> None:
    assert not slave.is_silent(20_000, 20_000)
    assert slave.is_silent(20_001, 20_000)
    slave.report(0, 0, 0, 20_001)
    assert not slave.is_silent(40_001, 20_000)
