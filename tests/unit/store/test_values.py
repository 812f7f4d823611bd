"""The store's values."""

from pathlib import Path

import pytest

from orbitmq.errors import ConfigError
from orbitmq.store import AppendResult, StoreConfig


def test_the_defaults_are_javas():
    config = StoreConfig(path=Path("x"))
    assert config.segment_size == 1024 * 1024 * 1024
    assert config.consume_queue_units * 20 == 6_000_000


@pytest.mark.parametrize(
    "bad", [{"segment_size": 10}, {"consume_queue_units": 0}, {"flush_interval_ms": 0}, {"checkpoint_interval_ms": -1}]
)
def test_a_configuration_out_of_range_is_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        StoreConfig(path=Path("x"), **bad)


def test_a_result_says_what_to_wait_for():
    assert AppendResult(queue_offset=1, physical_offset=100, size=20, stored_at_ms=5).end == 120


def test_the_smallest_store_is_one_of_small_files():
    StoreConfig(path=Path("x"), segment_size=1024, consume_queue_units=1, flush_interval_ms=1, checkpoint_interval_ms=1)
