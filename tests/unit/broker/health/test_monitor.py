"""Claims about a broker's health document and its alerts' lines in the log."""

from __future__ import annotations

import errno
import gc
import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from orbitmq.broker.health.monitor import BrokerMonitor
from orbitmq.broker.replication.group_members import GroupMembers
from orbitmq.net.limits import descriptor_limit
from orbitmq.store import StoreIssue, StoreIssueKind
from orbitmq.store.disk_usage import DiskUsage
from orbitmq.store.recovery import RecoveryReport
from orbitmq.testing import FakeClock, LocalCluster
from orbitmq.wire.headers import GetHealth
from waiting import until

from ..conftest import Harness
from ..parts import Serve

HALF = DiskUsage(100, 50, 50)


class Parts:
    """What a monitor looks at, each with figures that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.usage: DiskUsage | OSError = HALF
        monkeypatch.setattr("orbitmq.broker.health.monitor.disk_usage", self._disk_usage)
        self.clock = FakeClock(5_000)
        self.store = SimpleNamespace(
            issues=[], recovery_report=RecoveryReport(), max_physical_offset=70, durable_offset=60, quarantine_size=0
        )
        config = SimpleNamespace(
            store_path_root_dir=Path("/store"),
            broker_cluster_name="c",
            broker_name="a",
            broker_id=0,
            disk_space_clean_forcibly_ratio=85,
        )
        service: Any = SimpleNamespace(
            config=config,
            store=self.store,
            slave_listener=SimpleNamespace(members=GroupMembers(1)),
            address=SimpleNamespace(announced="h:10911"),
            monitoring=SimpleNamespace(stats=SimpleNamespace(started_at_ms=1_000)),
            sends=SimpleNamespace(
                timers=SimpleNamespace(warnings=[], timers=SimpleNamespace(lost_count=0)),
                delays=SimpleNamespace(undeliverable_count=0),
                transactions=SimpleNamespace(unreadable_count=0),
            ),
            delivery=SimpleNamespace(
                pop=SimpleNamespace(
                    revive_log=SimpleNamespace(unreadable_count=0), revival=SimpleNamespace(unreadable_count=0)
                ),
                pulls=SimpleNamespace(held_count=4),
            ),
            tables=SimpleNamespace(
                topics=SimpleNamespace(table=SimpleNamespace(all={"t": 1, "u": 2})),
                groups=SimpleNamespace(configs=SimpleNamespace(all={"g": 1})),
            ),
        )
        registrar: Any = SimpleNamespace(name_servers=("n:1", "n:2"), told=("n:1",), unreachable=())
        server: Any = SimpleNamespace(connections=[1, 2, 3])
        self.monitor = BrokerMonitor(service, server, registrar, clock=self.clock, warnings=["open"])

    def _disk_usage(self, path: Path) -> DiskUsage:
        assert path == Path("/store")
        if isinstance(self.usage, OSError):
            raise self.usage
        return self.usage


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(monkeypatch)


async def test_the_health_document_says_everything_under_its_name(parts: Parts) -> None:
    await parts.monitor.look()
    document = parts.monitor.health()
    assert document.pop("memory") > 0
    assert document == {
        "healthy": True,
        "ready": True,
        "notReady": [],
        "alerts": [],
        "warnings": ["open"],
        "tls": "disabled",
        "address": "h:10911",
        "cluster": "c",
        "brokerName": "a",
        "brokerId": 0,
        "uptimeMs": 4_000,
        "nameServers": {"n:1": True, "n:2": False},
        "topics": 2,
        "consumerGroups": 1,
        "connections": 3,
        "parkedPulls": 4,
        "logEndOffset": 70,
        "logDurableOffset": 60,
        "diskUsedRatio": 0.5,
        "quarantineBytes": 0,
        "recovery": {"cutBytes": 0, "lostBytes": 0, "unplacedRecords": 0, "rebuiltQueues": 0},
        "fileLimit": descriptor_limit(),
        "memoryLimit": parts.monitor.process_stats.memory_limit,
        "loopLagMs": 0,
    }


def test_a_fenced_store_is_neither_healthy_nor_ready_and_says_why(parts: Parts) -> None:
    parts.store.issues = [StoreIssue(StoreIssueKind.FENCED, "a sync failed"), StoreIssue(StoreIssueKind.BUSY, "wait")]
    document = parts.monitor.health()
    assert (document["healthy"], document["ready"]) == (False, False)
    assert document["notReady"] == ["a sync failed"]
    assert document["alerts"] == [{"rule": "RocketmqBrokerStoreFenced", "reason": "a sync failed"}]
    assert document["warnings"] == ["open", "wait"]


def test_what_the_last_start_met_is_told_in_words(parts: Parts) -> None:
    parts.store.recovery_report = RecoveryReport(unplaced_count=3, rebuilt=[("t", 7), ("u", 0)], lost_size=9)
    document = parts.monitor.health()
    assert document["warnings"][1:] == [
        "the last start went on without 9 bytes of the CommitLog, as it was told to",
        "the last start found 3 records that belong to no consume queue",
        "the last start rebuilt 2 consume queues, first t queue 7",
    ]
    assert document["recovery"] == {"cutBytes": 0, "lostBytes": 9, "unplacedRecords": 3, "rebuiltQueues": 2}


async def test_a_disk_that_hangs_is_asked_once_and_no_request_waits_for_it(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.health.monitor.DISK_MS", 1)
    await parts.monitor.look()
    answers, asked = threading.Event(), []

    def hang(_path: Path) -> DiskUsage:
        asked.append(1)
        answers.wait()
        return HALF

    monkeypatch.setattr("orbitmq.broker.health.monitor.disk_usage", hang)
    try:
        await parts.monitor.look()
        await parts.monitor.look()
        assert (parts.monitor.disk, parts.monitor.health()["diskUsedRatio"], asked) == (None, None, [1])
        parts.store.issues = [StoreIssue(StoreIssueKind.DISK_HANGS, "no answer")]
        assert not parts.monitor.health()["healthy"]
    finally:
        answers.set()
    monkeypatch.setattr("orbitmq.broker.health.monitor.DISK_MS", 60_000)
    await parts.monitor.look()
    assert (parts.monitor.disk, asked) == (HALF, [1])


async def test_alerts_begin_and_end_in_the_log_without_a_request(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orbitmq.broker")
    for used in (50, 90, 91, 50):
        parts.usage = DiskUsage(100, used, 100 - used)
        await parts.monitor.look()
    assert caplog.messages == [
        "alert RocketmqBrokerDiskNearlyFull: 90.0% of the disk are used: above 85% messages go before their time",
        "alert RocketmqBrokerDiskNearlyFull is over",
    ]


async def test_a_disk_that_does_not_answer_the_question_is_unknown_not_empty(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    await parts.monitor.look()
    parts.usage = OSError(errno.EIO, "Input/output error")
    await parts.monitor.look()
    assert parts.monitor.disk is None
    assert parts.monitor.health()["diskUsedRatio"] is None
    assert "the disk does not say how full it is: [Errno 5] Input/output error" in caplog.text


async def test_a_running_broker_looks_by_itself_and_answers_a_request_for_its_health(harness: Harness) -> None:
    monitor = harness.broker.running.monitor
    await until(lambda: monitor.disk is not None)
    before = monitor.process_stats.gc_count
    gc.collect()
    assert monitor.process_stats.gc_count > before
    document = orjson.loads((await harness.ask(GetHealth())).body)
    assert (document["address"], document["brokerName"]) == (harness.broker.address, "a")
    assert (document["ready"], document["nameServers"]) == (True, {})


async def test_a_broker_that_stopped_measures_nothing_any_more(serve: Serve) -> None:
    monitors = []

    async with serve() as harness:
        monitors.append(harness.broker.running.monitor)
        await until(lambda: monitors[0].disk is not None)
    before = monitors[0].process_stats.gc_count
    gc.collect()
    assert monitors[0].process_stats.gc_count == before


@pytest.mark.real
async def test_a_start_a_stop_and_a_restart_raise_no_alert(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orbitmq.broker")
    async with LocalCluster() as cluster:
        await cluster.restart_broker()
        await cluster.stop_broker()
    assert "stopped" in caplog.text, "what a broker logs is seen"
    assert [line for line in caplog.messages if line.startswith("alert")] == []
