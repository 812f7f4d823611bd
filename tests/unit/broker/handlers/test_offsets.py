from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.delivery import in_memory_check
from orbitmq.broker.handlers import offsets as handlers
from orbitmq.errors import Rejected
from orbitmq.model.topic import TopicConfig
from orbitmq.store import Draft, Store
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.bodies.offsets import decode_time_spans
from orbitmq.wire.headers import (
    CreateTopic,
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
from unit.broker.conftest import Harness
from unit.broker.parts import Registries, Serve, broker_of, call, memory_store


def commit(offset: int, **fields: Any) -> UpdateConsumerOffset:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
    return UpdateConsumerOffset(**settings | fields, commit_offset=offset)


def query(**fields: Any) -> QueryConsumerOffset:
    settings: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
    return QueryConsumerOffset(**settings | fields)


def broker_with(store: Store) -> Any:
    registries = Registries()
    registries.topics.update(TopicConfig(topic="t", read_queue_count=1, write_queue_count=1), 0)
    return broker_of(registries, store=store)


async def test_a_committed_offset_comes_back_after_a_restart(serve: Serve) -> None:
    async with serve() as harness:
        await harness.make_group()
        for _ in range(3):
            await harness.send()
        assert await harness.code(commit(2)) == 0
    async with serve() as harness:
        assert (await harness.answer(query(), OffsetResponse)).offset == 2


async def test_a_new_group_starts_at_zero_while_the_queue_is_in_memory_and_asks_otherwise(
    harness: Harness, monkeypatch: Any
) -> None:
    await harness.send()
    assert (await harness.answer(query(), OffsetResponse)).offset == 0
    assert (await harness.answer(query(queue_id=3), OffsetResponse)).offset == 0
    assert await harness.code(query(set_zero_if_not_found=False)) == 22
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", 10)
    assert await harness.code(query()) == 22


async def test_the_ends_and_times_of_a_queue(harness: Harness) -> None:
    for _ in range(3):
        await harness.send()
    service = harness.broker.service
    times = [service.store.message_at("t", 0, offset).stored_at_ms for offset in range(3)]
    assert (await harness.answer(GetMaxOffset(topic="t", queue_id=0), OffsetResponse)).offset == 3
    assert (await harness.answer(GetMinOffset(topic="t", queue_id=0), OffsetResponse)).offset == 0
    earliest = await harness.answer(GetEarliestStoreTime(topic="t", queue_id=0), EarliestStoreTimeResponse)
    assert earliest.timestamp_ms == times[0]
    empty = await harness.answer(GetEarliestStoreTime(topic="t", queue_id=1), EarliestStoreTimeResponse)
    assert empty.timestamp_ms == -1

    async def search(timestamp_ms: int, boundary: str | None = None) -> int:
        header = SearchOffset(topic="t", queue_id=0, timestamp_ms=timestamp_ms, boundary_type=boundary)
        return int((await harness.answer(header, OffsetResponse)).offset)

    assert await search(times[0]) == 0
    assert await search(times[2] + 1) == 3
    assert await search(times[2] + 1, "upper") == 2


async def test_queues_that_are_not_there_are_refused(harness: Harness) -> None:
    await harness.make_group()
    await harness.send()
    for header_type in (GetMaxOffset, GetMinOffset, GetEarliestStoreTime):
        assert await harness.code(header_type(topic="none", queue_id=0)) == 17
        assert await harness.code(header_type(topic="t", queue_id=99)) == 1
    assert await harness.code(SearchOffset(topic="none", queue_id=0, timestamp_ms=0)) == 17
    assert await harness.code(commit(1, topic="none")) == 17
    assert await harness.code(commit(1, queue_id=-1)) == 1
    assert await harness.code(commit(1, consumer_group="nobody")) == 26


async def test_a_queue_that_its_topic_had_before_tells_what_it_holds_and_takes_commits(harness: Harness) -> None:
    await harness.make_group()
    await harness.send(queue_id=3)
    fewer: dict[str, Any] = {"read_queue_nums": 2, "write_queue_nums": 2, "perm": 6, "topic_filter_type": "SINGLE_TAG"}
    assert await harness.code(CreateTopic(topic="t", default_topic="x", **fewer)) == 0

    assert (await harness.answer(GetMaxOffset(topic="t", queue_id=3), OffsetResponse)).offset == 1
    assert (await harness.answer(GetMinOffset(topic="t", queue_id=3), OffsetResponse)).offset == 0
    earliest = await harness.answer(GetEarliestStoreTime(topic="t", queue_id=3), EarliestStoreTimeResponse)
    assert earliest.timestamp_ms > 0
    search = SearchOffset(topic="t", queue_id=3, timestamp_ms=0)
    assert (await harness.answer(search, OffsetResponse)).offset == 0
    assert await harness.code(commit(1, queue_id=3)) == 0
    assert await harness.code(GetMaxOffset(topic="t", queue_id=2)) == 1


async def test_what_is_not_found_is_said_in_javas_words(harness: Harness) -> None:
    await harness.make_group()
    await harness.send()
    assert (await harness.ask(commit(0, topic="none"))).remark == "Topic none not exist!"
    unset = await harness.ask(query(set_zero_if_not_found=False))
    assert (unset.code, unset.remark) == (22, "Not found, do not set to zero, maybe this group boot first")
    unknown = await harness.ask(query(topic="none"))
    assert (unknown.code, unknown.remark) == (22, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")


async def test_issue_4771_a_commit_past_the_end_is_cut_to_the_end_and_all_travel_to_slaves(harness: Harness) -> None:
    await harness.make_group()
    await harness.send()
    await harness.ask(commit(1_000_000))
    assert b'"t@g":{0:1}' in (await harness.ask(GetAllConsumerOffsets())).body


def test_a_queue_is_in_memory_up_to_a_size_behind_its_own_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    for topic in ("before", "t", "t"):
        store.append(Draft(topic, 0, b"x"))
    size = store.max_physical_offset - store.message_at("t", 0, 0).physical_offset
    broker = broker_with(store)
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", size)
    assert handlers.query_consumer_offset(broker, call(query())).header == OffsetResponse(offset=0)
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", size - 1)
    with pytest.raises(Rejected, match="boot first"):
        handlers.query_consumer_offset(broker, call(query()))


def test_a_queue_whose_very_first_message_is_gone_is_not_in_memory() -> None:
    disk = FakeDisk()
    store = memory_store(disk)
    for _ in range(2):
        store.append(Draft("t", 0, bytes(40_000)))
    store.close()
    disk.remove(Path("/store/commitlog") / f"{0:020}")
    store = memory_store(disk)
    assert store.min_offset("t", 0) == 1
    broker = broker_with(store)
    with pytest.raises(Rejected, match="boot first"):
        handlers.query_consumer_offset(broker, call(query()))


async def test_a_group_is_told_from_when_its_last_message_is_and_how_long_the_next_one_waits(harness: Harness) -> None:
    await harness.make_group()
    for _ in range(3):
        await harness.send()
    await harness.ask(commit(2))
    asked = QueryConsumeTimeSpan(topic="t", group="g")
    first, second, *_ = decode_time_spans((await harness.ask(asked)).body)
    times = [harness.broker.service.store.message_at("t", 0, offset).stored_at_ms for offset in range(3)]
    assert (first.min_ms, first.consumed_ms, first.max_ms) == tuple(times)
    assert 0 <= first.delay_ms < 60_000
    assert (second.min_ms, second.max_ms, second.consumed_ms, second.delay_ms) == (-1, -1, -1, 0)
    await harness.ask(commit(3))
    assert decode_time_spans((await harness.ask(asked)).body)[0].delay_ms == 0
    assert await harness.code(QueryConsumeTimeSpan(topic="nowhere", group="g")) == 17


async def test_the_slowest_group_is_the_correction_unless_the_compared_one_is_slower(harness: Harness) -> None:
    for _ in range(9):
        await harness.send()
    for group, offset in (("fast", 8), ("slow", 3), ("left-out", 1)):
        await harness.make_group(group)
        await harness.ask(commit(offset, consumer_group=group))

    async def corrections(group: str, left_out: str | None = None) -> bytes:
        header = QueryCorrectionOffset(topic="t", compare_group=group, filter_groups=left_out)
        body: bytes = (await harness.ask(header)).body
        return body

    assert await corrections("fast", "left-out,other") == b'{"correctionOffsets":{0:3}}'
    assert await corrections("fast") == b'{"correctionOffsets":{0:1}}'
    largest = b'{"correctionOffsets":{0:%d}}' % (2**63 - 1)
    assert await corrections("left-out", "left-out") == largest
    assert harness.broker.service.tables.offsets.query("left-out", "t", 0) == 1  # left out is not forgotten
