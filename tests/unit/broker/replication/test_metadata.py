from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.persistence import format_offsets
from orbitmq.broker.replication import metadata
from orbitmq.broker.replication.metadata import MasterProgress, MasterTables
from orbitmq.broker.transactions.recovery import TRANS_GROUP
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, Rejected
from orbitmq.model.topic import HALF_TOPIC, DataVersion, TopicConfig
from orbitmq.store.timers.checkpoint import TimerCheckpoint, format_timer_checkpoint
from orbitmq.wire.bodies.groups import GroupConfig, GroupTable, encode_group_table
from orbitmq.wire.bodies.stats import encode_replication_status
from orbitmq.wire.bodies.topics import TopicTable, encode_topic_table
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetReplicationStatus,
    GetTimerCheckpoint,
)
from orbitmq.wire.pop.revive_log import REVIVE_GROUP

from ..handlers.support import pop
from ..parts import Serve


class Registry:
    """Takes all configs of an update or none, and refuses one name."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.updates = 0
        self.table = self.configs = SimpleNamespace(get=self.known.get)

    def update_all(self, configs: Any, now_ms: int) -> None:
        self.updates += 1
        found = {getattr(config, "topic", None) or config.group: config for config in configs}
        if "bad" in found:
            raise Rejected(ResponseCode.SYSTEM_ERROR, "no")
        self.known |= found

    copy_all = update_all


class Master:
    """A master's tables, as it answers with them."""

    def __init__(self, *topics: str, version: int = 1) -> None:
        data_version = DataVersion(0, 0, version)
        configs = {name: TopicConfig(topic=name) for name in topics}
        self.answers = {
            GetAllTopicConfig: encode_topic_table(TopicTable(data_version, configs)),
            GetAllSubscriptionGroups: encode_group_table(GroupTable(data_version, {"g": GroupConfig(group="g")}, {})),
            GetAllConsumerOffsets: format_offsets(DataVersion(), {"t@g": {0: 7}}),
        }

    async def ask(self, address: str, header: object) -> bytes:
        return self.answers[type(header)]


def take_over(master: Master, topics: Registry, groups: Registry, offsets: GroupOffsets, times: int = 1) -> None:
    tables: Any = (topics, groups, offsets)
    progress: Any = SimpleNamespace()
    follower = MasterTables(
        master.ask, lambda: "m:1", tables[0], tables[1], tables[2], lambda topic, queue_id: 5, lambda: 0, progress
    )
    for _ in range(times):
        asyncio.run(follower.take_over("m:1"))


def test_a_topic_that_is_refused_keeps_no_other_away(caplog: pytest.LogCaptureFixture) -> None:
    topics, groups = Registry(), Registry()
    take_over(Master("a", "bad", "b"), topics, groups, GroupOffsets())
    assert set(topics.known) == {"a", "b"}
    assert set(groups.known) == {"g"}
    assert "'bad'" in caplog.text


def test_what_has_not_changed_is_not_written_again() -> None:
    topics, groups = Registry(), Registry()
    take_over(Master("a"), topics, groups, GroupOffsets(), times=3)
    assert (topics.updates, groups.updates) == (1, 1)


def test_a_group_is_never_further_than_the_log_that_is_here() -> None:
    offsets = GroupOffsets()
    take_over(Master("a"), Registry(), Registry(), offsets)
    assert offsets.query("g", "t", 0) == 5


def test_an_offset_beyond_the_log_is_taken_over_when_the_log_has_it() -> None:
    end, offsets, answers = 5, GroupOffsets(), Master("a")
    topics: Any = Registry()
    groups: Any = Registry()
    progress: Any = SimpleNamespace()
    follower = MasterTables(
        answers.ask, lambda: "m:1", topics, groups, offsets, lambda topic, queue_id: end, lambda: 0, progress
    )
    asyncio.run(follower.take_over("m:1"))
    end = 6
    follower.take_over_waiting()
    assert offsets.query("g", "t", 0) == 6
    end = 1_000
    follower.take_over_waiting()
    told = offsets.query("g", "t", 0)
    assert told is not None
    assert 6 < told < 1_000
    offsets.commit("g", "t", 0, 3, offset_max=1_000)
    follower.take_over_waiting()
    assert offsets.query("g", "t", 0) == 3


def test_offsets_keep_the_time_at_which_their_master_has_saved_them() -> None:
    master, offsets = Master("a"), GroupOffsets()
    master.answers[GetAllConsumerOffsets] = format_offsets(DataVersion(0, 5_000, 3), {"t@g": {0: 2}})
    take_over(master, Registry(), Registry(), offsets)
    assert offsets.version == DataVersion(0, 5_000, 3)


def test_a_master_that_does_not_answer_changes_nothing() -> None:
    topics, master = Registry(), Master("a")

    async def fail(address: str, header: object) -> bytes:
        raise ConnectionFailed(address)

    master.ask = fail  # type: ignore[method-assign]
    with pytest.raises(ConnectionFailed):
        take_over(master, topics, Registry(), GroupOffsets())
    assert topics.known == {}


class Kept:
    """Keeps what is taken over."""

    def __init__(self, *, is_used: bool = True) -> None:
        self.seen: list[Any] = []
        self._is_used = is_used

    async def take_over(self, progress: Any) -> bool:
        self.seen.append(progress)
        return self._is_used


def test_progress_is_taken_over_when_the_log_has_what_was_delivered(tmp_path: Path) -> None:
    checkpoint = TimerCheckpoint(7_000, 52, 3, 3)
    answers = {
        GetAllDelayOffsets: b'{"offsetTable":{1:9}}',
        GetTimerCheckpoint: format_timer_checkpoint(checkpoint),
        GetReplicationStatus: encode_replication_status(100),
    }
    asked: list[object] = []

    async def ask(address: str, header: object) -> bytes:
        asked.append(type(header))
        return answers[type(header)]

    delays: Any = Kept()
    timers: Any = Kept()
    log_end = 99
    progress = MasterProgress(ask, lambda: (log_end, 0), delays, timers, tmp_path / "since")
    assert not asyncio.run(progress.take_over())
    asyncio.run(progress.look("m:1"))
    assert asked[-1] is GetReplicationStatus  # or the log's end would not cover what was delivered
    assert not asyncio.run(progress.take_over())
    assert delays.seen == timers.seen == []
    log_end = 100
    assert asyncio.run(progress.take_over())
    assert (delays.seen, timers.seen) == ([answers[GetAllDelayOffsets]], [checkpoint])
    assert not asyncio.run(progress.take_over())


@pytest.mark.parametrize(
    ("read_ms", "since"), [(6_001, b"300"), (6_000, b"200"), (4_001, b"200"), (2_500, b"100"), (1_000, b"100")]
)
def test_copies_are_looked_for_from_where_no_progress_tells_of_them(tmp_path: Path, read_ms: int, since: bytes) -> None:
    async def ask(address: str, header: object) -> bytes:
        if isinstance(header, GetTimerCheckpoint):
            return format_timer_checkpoint(TimerCheckpoint(read_ms))
        return b"{}" if isinstance(header, GetAllDelayOffsets) else encode_replication_status(0)

    ends = iter([(100, 2_000), (200, 4_000), (300, 6_000)])
    now = 0, 0
    delays: Any = Kept(is_used=False)
    timers: Any = Kept()
    progress = MasterProgress(ask, lambda: now, delays, timers, tmp_path / "since")
    for now in ends:  # noqa: B007 - the lambda reads it
        asyncio.run(progress.look("m:1"))
    asyncio.run(progress.take_over())
    assert (tmp_path / "since").read_bytes() == since


def test_a_slave_without_waiting_messages_seldom_writes_its_place(tmp_path: Path) -> None:
    async def ask(address: str, header: object) -> bytes:
        if isinstance(header, GetTimerCheckpoint):
            return format_timer_checkpoint(TimerCheckpoint())
        return b"{}" if isinstance(header, GetAllDelayOffsets) else encode_replication_status(0)

    delays: Any = Kept(is_used=False)
    timers: Any = Kept(is_used=False)
    mib = 1024 * 1024
    log_end = 15 * mib
    progress = MasterProgress(ask, lambda: (log_end, -1), delays, timers, tmp_path / "since")
    written = []
    for end in (15 * mib, 16 * mib, 31 * mib, 32 * mib):
        log_end = end
        asyncio.run(progress.look("m:1"))
        assert asyncio.run(progress.take_over())
        written.append((tmp_path / "since").exists() and int((tmp_path / "since").read_bytes()) // mib)
    assert written == [False, 16, 16, 32]


async def test_a_failure_that_repeats_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata, "_LOOK_S", 0)
    looks = 0

    async def look(master: str) -> None:
        nonlocal looks
        looks += 1
        raise ConnectionFailed(master)

    async def take_over() -> bool:
        return False

    answers, tables = Master("a"), [Registry(), Registry(), GroupOffsets()]
    progress: Any = SimpleNamespace(look=look, take_over=take_over)
    given: list[Any] = [answers.ask, lambda: "m:1", *tables, lambda topic, queue_id: 5, lambda: 0, progress]
    running = asyncio.ensure_future(MasterTables(*given).run())
    while looks < 3:
        await asyncio.sleep(0)
    running.cancel()
    assert caplog.text.count("cannot be taken over") == 1


@pytest.mark.real
async def test_a_slaves_stop_keeps_the_offsets_that_it_took_over(serve: Serve) -> None:
    async with serve() as former_master:
        assert (await former_master.send(properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02", sys_flag=4)).code == 0
        assert (await former_master.send()).code == 0
        await former_master.make_group()
        await pop(former_master)
        store = former_master.broker.service.store
        topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
        (queue_id,) = store.queue_ids(topic)
        ends = {(TRANS_GROUP, HALF_TOPIC, 0): 1, (REVIVE_GROUP, topic, queue_id): store.max_offset(topic, queue_id)}
    for _ in range(2):
        async with serve(broker_role="SLAVE", broker_id=1) as slave:
            offsets = slave.broker.service.tables.offsets
            for queue, end in ends.items():
                offsets.commit(*queue, end, offset_max=end)
    async with serve(broker_role="SLAVE", broker_id=1) as slave:
        offsets = slave.broker.service.tables.offsets
        assert {queue: offsets.query(*queue) for queue in ends} == ends
