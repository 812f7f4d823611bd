from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.delivery import in_memory_check
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.handlers import offsets as handlers
from orbitmq.errors import Rejected
from orbitmq.model.topic import TopicConfig
from orbitmq.store import Draft, Store
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.bodies.offsets import decode_time_spans
from orbitmq.wire.headers import (
    EarliestStoreTimeResponse,
    GetAllConsumerOffsets,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from unit.broker.conftest import Rig
from unit.broker.parts import Registries, Serve, call, memory_store


def commit(offset: int, **fields: Any) -> UpdateConsumerOffset:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
    return UpdateConsumerOffset(**settings | fields, commit_offset=offset)


def query(**fields: Any) -> QueryConsumerOffset:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
    return QueryConsumerOffset(**settings | fields)


def tables_of(store: Store) -> handlers.OffsetTables:
    registries = Registries()
    registries.topics.update(TopicConfig(topic="t", read_queue_count=1, write_queue_count=1), 0)
    pops: Any = None  # nothing is set here
    return handlers.OffsetTables(store, registries.topics, GroupOffsets(), registries.groups, pops)


async def test_a_committed_offset_comes_back_after_a_restart(serve: Serve) -> None:
    async with serve() as rig:
        await rig.make_group()
        for _ in range(3):
            await rig.send()
        assert await rig.code(commit(2)) == 0
    async with serve() as rig:
        assert (await rig.answer(query(), OffsetResponse)).offset == 2


async def test_issue_4771_a_commit_past_the_end_is_cut_to_the_end(rig: Rig) -> None:
    await rig.make_group()
    await rig.send()
    await rig.ask(commit(1_000_000))
    assert (await rig.answer(query(), OffsetResponse)).offset == 1


async def test_a_new_group_starts_at_zero_while_the_queue_is_in_memory_and_asks_otherwise(
    rig: Rig, monkeypatch: Any
) -> None:
    await rig.send()
    assert (await rig.answer(query(), OffsetResponse)).offset == 0
    assert (await rig.answer(query(queue_id=3), OffsetResponse)).offset == 0
    assert await rig.code(query(set_zero_if_not_found=False)) == 22
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", 10)
    assert await rig.code(query()) == 22


async def test_the_ends_and_times_of_a_queue(rig: Rig) -> None:
    for _ in range(3):
        await rig.send()
    service = rig.broker.service
    times = [service.store.message_at("t", 0, offset).stored_at_ms for offset in range(3)]
    assert (await rig.answer(GetMaxOffset(topic="t", queue_id=0), OffsetResponse)).offset == 3
    assert (await rig.answer(GetMinOffset(topic="t", queue_id=0), OffsetResponse)).offset == 0
    earliest = await rig.answer(GetEarliestStoreTime(topic="t", queue_id=0), EarliestStoreTimeResponse)
    assert earliest.timestamp_ms == times[0]
    empty = await rig.answer(GetEarliestStoreTime(topic="t", queue_id=1), EarliestStoreTimeResponse)
    assert empty.timestamp_ms == -1

    async def search(timestamp_ms: int, boundary: str | None = None) -> int:
        header = SearchOffset(topic="t", queue_id=0, timestamp_ms=timestamp_ms, boundary_type=boundary)
        return int((await rig.answer(header, OffsetResponse)).offset)

    assert await search(times[0]) == 0
    assert await search(times[2] + 1) == 3
    assert await search(times[2] + 1, "upper") == 2


async def test_queues_that_are_not_there_are_refused(rig: Rig) -> None:
    await rig.make_group()
    await rig.send()
    for header_type in (GetMaxOffset, GetMinOffset, GetEarliestStoreTime):
        assert await rig.code(header_type(topic="none", queue_id=0)) == 17
        assert await rig.code(header_type(topic="t", queue_id=99)) == 1
    assert await rig.code(SearchOffset(topic="none", queue_id=0, timestamp_ms=0)) == 17
    assert await rig.code(commit(1, topic="none")) == 17
    assert await rig.code(commit(1, queue_id=-1)) == 1
    assert await rig.code(commit(1, consumer_group="nobody")) == 26


async def test_what_is_not_found_is_said_in_javas_words(rig: Rig) -> None:
    await rig.make_group()
    await rig.send()
    assert (await rig.ask(commit(0, topic="none"))).remark == "Topic none not exist!"
    unset = await rig.ask(query(set_zero_if_not_found=False))
    assert (unset.code, unset.remark) == (22, "Not found, do not set to zero, maybe this group boot first")
    unknown = await rig.ask(query(topic="none"))
    assert (unknown.code, unknown.remark) == (22, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")


async def test_all_offsets_travel_to_slaves(rig: Rig) -> None:
    await rig.make_group()
    await rig.send()
    await rig.ask(commit(1))
    assert b'"t@g":{0:1}' in (await rig.ask(GetAllConsumerOffsets())).body


def test_a_queue_is_in_memory_up_to_a_size_behind_its_own_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    for topic in ("before", "t", "t"):
        store.append(Draft(topic, 0, b"x"))
    size = store.max_physical_offset - store.message_at("t", 0, 0).physical_offset
    tables = tables_of(store)
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", size)
    assert handlers.query_consumer_offset(tables, call(query())).header == OffsetResponse(offset=0)
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", size - 1)
    with pytest.raises(Rejected, match="boot first"):
        handlers.query_consumer_offset(tables, call(query()))


def test_a_queue_whose_very_first_message_is_gone_is_not_in_memory() -> None:
    disk = FakeDisk()
    store = memory_store(disk)
    for _ in range(2):
        store.append(Draft("t", 0, bytes(40_000)))
    store.close()
    disk.remove(Path("/store/commitlog") / f"{0:020}")
    store = memory_store(disk)
    assert store.min_offset("t", 0) == 1
    tables = tables_of(store)
    with pytest.raises(Rejected, match="boot first"):
        handlers.query_consumer_offset(tables, call(query()))


async def test_a_group_is_told_from_when_its_last_message_is_and_how_long_the_next_one_waits(rig: Rig) -> None:
    await rig.make_group()
    for _ in range(3):
        await rig.send()
    await rig.ask(commit(2))
    asked = QueryConsumeTimeSpan(topic="t", group="g")
    first, second, *_ = decode_time_spans((await rig.ask(asked)).body)
    times = [rig.broker.service.store.message_at("t", 0, offset).stored_at_ms for offset in range(3)]
    assert (first.min_ms, first.consumed_ms, first.max_ms) == tuple(times)
    assert 0 <= first.delay_ms < 60_000
    assert (second.min_ms, second.max_ms, second.consumed_ms, second.delay_ms) == (-1, -1, -1, 0)
    await rig.ask(commit(3))
    assert decode_time_spans((await rig.ask(asked)).body)[0].delay_ms == 0
    assert await rig.code(QueryConsumeTimeSpan(topic="nowhere", group="g")) == 17


async def test_the_slowest_group_is_the_correction_unless_the_compared_one_is_slower(rig: Rig) -> None:
    for _ in range(9):
        await rig.send()
    for group, offset in (("fast", 8), ("slow", 3), ("left-out", 1)):
        await rig.make_group(group)
        await rig.ask(commit(offset, consumer_group=group))

    async def corrections(group: str, left_out: str | None = None) -> bytes:
        header = QueryCorrectionOffset(topic="t", compare_group=group, filter_groups=left_out)
        body: bytes = (await rig.ask(header)).body
        return body

    assert await corrections("fast", "left-out,other") == b'{"correctionOffsets":{0:3}}'
    assert await corrections("fast") == b'{"correctionOffsets":{0:1}}'
    largest = b'{"correctionOffsets":{0:%d}}' % (2**63 - 1)
    assert await corrections("left-out", "left-out") == largest
    assert rig.broker.service.offsets.query("left-out", "t", 0) == 1  # left out is not forgotten
