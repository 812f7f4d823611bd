"""Logs as a query finds them: where they end while a broker writes, and after all that may happen to files."""

from __future__ import annotations

import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.commitlog import log as logs
from orbitmq.spark.commitlog.log import find_log
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint
from unit.spark.commitlog.log_files import LogBuilder

SIZE = 2000


@pytest.fixture
def live(monkeypatch):
    monkeypatch.setattr(logs, "is_running", lambda root: True)


def two_segments(store) -> tuple[LogBuilder, LogBuilder]:
    first = LogBuilder().add().add().fill(SIZE)
    first.write(store / "commitlog")
    return first, LogBuilder(SIZE).add().add().add()


def test_a_log_ends_behind_its_last_record(tmp_path):
    _, second = two_segments(tmp_path)
    second.write(tmp_path / "commitlog", SIZE)
    LogBuilder(2 * SIZE).write(tmp_path / "commitlog", SIZE)  # made ahead

    for path in (tmp_path, tmp_path / "commitlog"):
        found = find_log(str(path))
        assert (found.end, found.checked_from, found.missing) == (second.place, second.place, [])
        assert [(file.base, file.size) for file in found.files] == [(0, SIZE), (SIZE, SIZE), (2 * SIZE, SIZE)]


def test_a_torn_tail_is_no_part_of_the_log(tmp_path):
    _, second = two_segments(tmp_path)
    end = second.place
    second.add(body=b"x" * 100)
    second.raw[-60:] = bytes(60)
    second.write(tmp_path / "commitlog", SIZE)

    assert find_log(str(tmp_path)).end == end


def test_a_last_body_that_was_lost_is_no_part_of_the_log(tmp_path):
    _, second = two_segments(tmp_path)
    end = second.place
    second.add(body=b"x" * 100)
    second.raw[second.starts[-1] + 100] = 0
    second.write(tmp_path / "commitlog", SIZE)

    assert find_log(str(tmp_path)).end == end


def test_what_was_cut_off_earlier_stays_out_of_the_log(tmp_path):
    log = LogBuilder().add().add(stored_at_ms=9000)
    end = log.place
    log.raw += b"torn"
    log.add(stored_at_ms=8000)
    log.write(tmp_path, SIZE)

    assert find_log(str(tmp_path)).end == end


def test_records_behind_a_damaged_place_are_part_of_the_log(tmp_path):
    log = LogBuilder().add().add(body=b"x" * 50).add()
    log.raw[log.starts[1] + 5] = 0
    log.write(tmp_path, SIZE)

    assert find_log(str(tmp_path)).end == log.place


def test_a_clock_that_went_back_ends_no_log(tmp_path, monkeypatch):
    monkeypatch.setattr("orbitmq.spark.commitlog.scan.READ_SIZE", 300)
    log = LogBuilder()
    for n in range(10):
        log.add(stored_at_ms=9000 - n, body=b"x" * 150)
    log.write(tmp_path, 10_000)

    assert find_log(str(tmp_path)).end == log.place


def test_a_running_brokers_log_ends_where_it_says(tmp_path, live):
    _, second = two_segments(tmp_path)
    second.write(tmp_path / "commitlog", SIZE)
    confirmed = SIZE + second.starts[1]
    (tmp_path / "checkpoint").write_bytes(format_checkpoint(StoreCheckpoint(confirmed_offset=confirmed)))

    found = find_log(str(tmp_path))
    assert (found.end, found.checked_from) == (confirmed, confirmed)


def test_a_running_broker_that_says_nothing_is_read_to_its_last_whole_record(tmp_path, live):
    _, second = two_segments(tmp_path)
    second.write(tmp_path / "commitlog", SIZE)

    found = find_log(str(tmp_path))
    assert (found.end, found.checked_from) == (second.place, SIZE)


@pytest.mark.parametrize(("durable", "checked_from"), [(0, SIZE), (SIZE + 150, SIZE + 150)])
def test_what_no_sync_covers_is_checked(tmp_path, durable, checked_from):
    _, second = two_segments(tmp_path)
    second.write(tmp_path / "commitlog", SIZE)
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").write_bytes(
        format_checkpoint(StoreCheckpoint(flushed_offset=durable, confirmed_offset=durable))
    )

    assert find_log(str(tmp_path)).checked_from == checked_from


def test_a_file_that_is_missing_or_cut_is_told(tmp_path):
    LogBuilder().add().fill(SIZE).write(tmp_path)
    LogBuilder(2 * SIZE).add().fill(SIZE).write(tmp_path)
    cut = LogBuilder(3 * SIZE).add().add()
    cut.write(tmp_path)  # shorter than the others, and not the last
    last = LogBuilder(4 * SIZE).add()
    last.write(tmp_path, SIZE)

    found = find_log(str(tmp_path))
    assert (found.missing, found.end) == ([(SIZE, 2 * SIZE)], last.place)
    assert [file.size for file in found.files] == [SIZE] * 4


def test_a_log_without_a_record_is_empty(tmp_path):
    LogBuilder(SIZE).write(tmp_path, SIZE)

    assert find_log(str(tmp_path)).end == SIZE


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_directory_without_a_log_is_an_error(tmp_path, name):
    with pytest.raises(ConfigError, match="commitLogPath"):
        find_log(str(tmp_path / name))
