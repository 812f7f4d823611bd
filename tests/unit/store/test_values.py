"""The store's values."""

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.model.message import Host
from orbitmq.store import AppendResult, Draft, FlushMode, ReadResult, ReadStatus, StoreConfig


def test_the_defaults_are_javas():
    config = StoreConfig(path=Path("x"))
    assert config.segment_size == 1024 * 1024 * 1024
    assert config.consume_queue_units * 20 == 6_000_000
    assert config.flush is FlushMode.ASYNC
    assert config.flush_interval_ms == 500
    assert config.record_crc is False


@each_case({"segment_size": 10}, {"consume_queue_units": 0}, {"flush_interval_ms": 0}, {"checkpoint_interval_ms": -1})
def test_a_configuration_out_of_range_is_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        StoreConfig(path=Path("x"), **bad)


def test_a_result_says_what_to_wait_for():
    assert AppendResult(queue_offset=1, physical_offset=100, size=20, stored_at_ms=5).end == 120


def test_the_smallest_store_is_one_of_small_files():
    StoreConfig(path=Path("x"), segment_size=1024, consume_queue_units=1, flush_interval_ms=1, checkpoint_interval_ms=1)


@each_case({"segment_size": 1023}, {"consume_queue_units": 0}, {"flush_interval_ms": 0}, {"checkpoint_interval_ms": 0})
def test_a_little_less_than_the_smallest_store_is_refused(bad):
    with pytest.raises(ConfigError, match=r"at least \d+"):
        StoreConfig(path=Path("x"), **bad)


def test_a_draft_says_nothing_but_what_it_is_given():
    assert Draft("orders", 3, b"body")[3:] == (b"", 0, 0, 0, Host("0.0.0.0", 0), 0, 0, None)


def test_outcomes_of_a_read_are_told_apart():
    assert [status.name for status in ReadStatus] == [
        "FOUND", "NO_MATCHED_MESSAGE", "NO_MATCHED_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_TOO_SMALL",
        "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY",
    ]  # fmt: skip


def test_a_read_that_found_nothing_has_no_messages():
    assert ReadResult(ReadStatus.NO_MATCHED_MESSAGE, 4, 0, 9)[4:] == (b"", 0)
