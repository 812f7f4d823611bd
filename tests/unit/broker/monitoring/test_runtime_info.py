"""Run-time values, times of creations, and failures that are logged once."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.monitoring.creations import CreationTimes
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.monitoring.runtime_info import FUTURE_MESSAGES, WARNINGS, RuntimeInfo
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.errors import Rejected
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, Store, StoreConfig
from orbitmq.testing import FakeClock

from ..parts import memory_store

DAY_MS = 86_400_000


def values_of(
    path: Path, now_ms: int, *, stats: BrokerStats | None = None, warnings: tuple[str, ...] = (), sync: bool = False
) -> dict[str, str]:
    mode = FlushMode.SYNC if sync else FlushMode.ASYNC
    store = memory_store(clock=FakeClock(77), flush=mode)
    store.append(Draft("t", 0, b"x"))
    security: Any = SimpleNamespace(warnings=warnings)
    config = BrokerConfig(broker_name="a", store_path_root_dir=path, flush_disk_type=mode.value)
    info = RuntimeInfo(
        config, store, stats or BrokerStats(0), security, held_count=lambda: 42, timers=lambda: {"timerCongestNum": 7}
    )
    return info.values(now_ms)


def test_the_time_since_the_start_is_told_in_days_hours_minutes_and_seconds(tmp_path: Path) -> None:
    stats = BrokerStats(1_000)
    values = values_of(tmp_path, 1_000 + 2 * DAY_MS + 3 * 3_600_000 + 4 * 60_000 + 5_999, stats=stats)
    assert values["runtime"] == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"
    assert values["bootTimestamp"] == "1000"


def test_counters_are_told_with_their_rates_and_mornings(tmp_path: Path) -> None:
    stats = BrokerStats(0)
    stats.put_count, stats.put_size, stats.get_count = 10, 1_000, 5
    stats.sample(DAY_MS)
    stats.put_count, stats.put_size, stats.found_count, stats.miss_count = 40, 5_000, 20, 30
    values = values_of(tmp_path, DAY_MS + 10_000, stats=stats)
    assert values["putTps"].split() == ["3.000"] * 3
    assert values["getTotalTps"].split() == ["5.000"] * 3
    assert (values["getFoundTps"].split()[0], values["getMissTps"].split()[0]) == ("2.000", "3.000")
    assert values["getTransferredTps"] == values["getTransferedTps"] == "0.000 0.000 0.000"
    assert values["putMessageAverageSize"] == "125.0"
    puts = ("msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow")
    gets = ("msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow")
    assert [values[name] for name in puts] == ["0", "10", "40"]
    assert [values[name] for name in gets] == ["0", "5", "5"]


def test_a_broker_without_messages_has_no_average_size(tmp_path: Path) -> None:
    assert values_of(tmp_path, 0)["putMessageAverageSize"] == "0.0"


def test_what_waits_for_the_disk_is_told_and_is_behind_only_where_readers_wait_for_it(tmp_path: Path) -> None:
    values = values_of(tmp_path, 0)
    size = values["commitLogMaxOffset"]
    assert int(size) > 0
    assert (values["remainHowManyDataToFlush"], values["dispatchBehindBytes"]) == (f"{size} B", "0")
    assert values_of(tmp_path, 0, sync=True)["dispatchBehindBytes"] == size
    assert (values["commitLogMinOffset"], values["earliestMessageTimeStamp"]) == ("0", "77")


def test_the_place_of_messages_of_the_future_is_told(tmp_path: Path) -> None:
    clock = FakeClock(DAY_MS)
    store = memory_store(clock=clock)
    store.append(Draft("t", 0, b"x"))
    clock.set(0)
    place = store.append(Draft("t", 0, b"x")).physical_offset
    security: Any = SimpleNamespace(warnings=())
    config = BrokerConfig(broker_name="a", store_path_root_dir=tmp_path)
    info = RuntimeInfo(config, store, BrokerStats(0), security, held_count=lambda: 0, timers=dict)
    assert info.values(0)[FUTURE_MESSAGES] == f"{place} {DAY_MS}"
    assert FUTURE_MESSAGES not in values_of(tmp_path, 0)


def test_waiting_pulls_and_warnings_are_told(tmp_path: Path) -> None:
    values = values_of(tmp_path, 0, warnings=("the door is open", "so is the window"))
    assert values["parkedPullCount"] == "42"
    assert values[WARNINGS] == "the door is open; so is the window"
    assert WARNINGS not in values_of(tmp_path, 0)
    assert values["sendThreadPoolQueueSize"] == values["timerEnqueueTps"] == "0"
    assert values["timerCongestNum"] == "7"


def test_a_broker_whose_log_is_cut_tells_its_warnings(tmp_path: Path) -> None:
    config = StoreConfig(path=tmp_path, segment_size=64 * 1024, has_index=False)
    store = Store.open(config, store_host=Host("127.0.0.1", 1))
    store.append(Draft("t", 0, b"x"))
    os.truncate(tmp_path / "commitlog" / f"{0:020d}", 0)
    security: Any = SimpleNamespace(warnings=())
    info = RuntimeInfo(
        BrokerConfig(broker_name="a", store_path_root_dir=tmp_path),
        store, BrokerStats(0), security, held_count=lambda: 0, timers=dict,
    )  # fmt: skip
    values = info.values(now_ms=5)
    assert values["earliestMessageTimeStamp"] == "5"
    assert "was cut short" in values[WARNINGS]
    store.close()


def test_the_disks_share_in_use_is_what_df_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(f_blocks=100 * 2**20, f_bfree=40 * 2**20, f_bavail=20 * 2**20, f_frsize=1024)
    monkeypatch.setattr("os.statvfs", lambda _path: usage)
    values = values_of(tmp_path, 0)
    assert values["commitLogDiskRatio"] == values["consumeQueueDiskRatio"] == "0.7500"
    assert values["commitLogDirCapacity"] == "Total : 100.0 GiB, Free : 20.0 GiB."


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_what_is_made_later_took_until_then() -> None:
    clock = Clock()
    creations = CreationTimes(clock)
    with creations.measure() as made:
        clock.now_ms = 5
    assert len(creations.times_ms) == 0
    clock.now_ms = 50
    made()
    ((end, found),) = creations.times_ms.items()
    assert (end, found.count, found.total) == ("success", 1, 50)


def test_what_is_refused_has_failed() -> None:
    clock = Clock()
    creations = CreationTimes(clock)

    def fail() -> None:
        with creations.measure():
            clock.now_ms = 7
            raise Rejected(1, "no")

    with pytest.raises(Rejected):
        fail()
    ((end, found),) = creations.times_ms.items()
    assert (end, found.count, found.total) == ("failure", 1, 7)


def test_a_failure_is_said_when_it_is_another_one_or_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    failure = RepeatedFailure(logging.getLogger("orbitmq.test"), "sweeping failed, it is tried again")
    told = []
    for error in (OSError("full"), OSError("full"), OSError("gone"), None, OSError("gone"), OSError("gone")):
        failure.note(error)
        told.append((failure.text, len(caplog.records)))
    assert told == [
        ("OSError: full", 1),
        ("OSError: full", 1),
        ("OSError: gone", 2),
        (None, 2),
        ("OSError: gone", 3),
        ("OSError: gone", 3),
    ]
    first = caplog.records[0]
    assert (first.levelname, first.message) == ("ERROR", "sweeping failed, it is tried again")
    assert first.exc_info is not None
