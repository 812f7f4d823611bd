from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.topics.table import TopicTable
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk

from ..parts import Registries, memory_store, timer_service


def test_a_broker_without_a_wheel_opens_no_file() -> None:
    clock, disk = FakeClock(), FakeDisk()
    store = memory_store(clock=clock)
    disk.open(Path("/store/timerlog") / ("0" * 20), 65_536).buffer[:] = b"x" * 65_536
    files = dict(disk.files)
    service = timer_service(
        store, Registries().topics, clock=clock, disk=disk, timer_wheel_enable=False, mapped_file_size_timer_log=65_536
    )
    assert disk.files == files
    assert not service.timers.is_waiting


def test_rules_come_from_the_settings() -> None:
    clock = FakeClock()
    service = timer_service(
        memory_store(clock=clock),
        Registries().topics,
        clock=clock,
        timer_precision_ms=200,
        timer_max_delay_sec=7,
        timer_congest_num_each_slot=9,
    )
    assert service.rules == (True, 7, 200, 9)


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ({}, False),
        ({"file_reserved_time": 47}, True),
        ({"file_reserved_time": 47, "timer_roll_window_slot": 3_600}, False),
        ({"file_reserved_time": 1, "timer_max_delay_sec": 3_600}, False),
    ],
)
def test_a_start_tells_when_messages_may_be_deleted_before_their_time(
    settings: dict[str, Any], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    timer_service(memory_store(clock=clock), Registries().topics, clock=clock, **settings)
    assert ("timers wait up to 48 hours in one place" in caplog.text) is is_told


def test_counts_that_cannot_be_read_are_counted_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "timermetrics").write_bytes(b"x")
    registries = Registries(TopicTable([TopicConfig(topic="t")]))
    service = timer_service(memory_store(clock=clock), registries.topics, clock=clock, store_path_root_dir=tmp_path)
    assert service.metrics.counts == {}
    assert "timers are counted again" in caplog.text
