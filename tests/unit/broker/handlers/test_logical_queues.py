"""Sends, pulls and offsets of logical queues at their leader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.codes import RequestCode
from orbitmq.model.static_topic import MappingItem, QueueMapping
from orbitmq.wire.bodies.static_topics import encode_mapping
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    ForwardedGetMaxOffset,
    ForwardedPullMessage,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    PullResponse,
    PullSysFlag,
    QueryConsumerOffset,
    SearchOffset,
    SendBatch,
    SendMessage,
    SendResponse,
    UpdateConsumerOffset,
)
from unit.broker.conftest import Harness, send_header
from unit.broker.handlers.test_static_topics import header
from waiting import until

OLD, MOVED_BACK = MappingItem(0, 1, "a", 0), MappingItem(2, 0, "a", 20_000)
REMOTE = MappingItem(1, 5, "b", 10_000)
GROUP: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 7}


async def make(harness: Any, *items: MappingItem) -> None:
    """Make, or move, the logical queue 7 of the topic t."""
    harness.epoch = getattr(harness, "epoch", 0) + 1
    mapping = QueueMapping(topic="t", broker_name="a", queue_count=8, epoch=harness.epoch, queues={7: items})
    assert await harness.code(header(), encode_mapping(mapping)) == 0


async def pulled(harness: Any, queue_offset: int, **fields: Any) -> tuple[int, PullResponse, list[bytes]]:
    answer, records = await harness.pull("t", queue_id=7, queue_offset=queue_offset, **fields)
    return answer.code, decode_header(PullResponse, answer.ext_fields), [bytes(record.body) for record in records]


async def offset(harness: Any, question: Any) -> int:
    return int((await harness.answer(question, OffsetResponse)).offset)


async def test_a_send_goes_to_the_leader_under_the_logical_queues_number(harness: Harness) -> None:
    await make(harness, OLD)
    await make(harness, OLD, MOVED_BACK)
    sent = [decode_header(SendResponse, (await harness.send("t", queue_id=7)).ext_fields) for _ in range(2)]
    assert [(found.queue_id, found.queue_offset) for found in sent] == [(7, 20_000), (7, 20_001)]
    picked = decode_header(SendResponse, (await harness.send("t", queue_id=-1)).ext_fields)
    assert (picked.queue_id, picked.queue_offset) == (7, 20_002)
    store = harness.broker.service.store
    assert (store.max_offset("t", 0), store.max_offset("t", 1)) == (3, 0)
    assert (await harness.send("t", queue_id=0)).code == 501


async def test_a_priority_leads_to_no_other_queue_than_the_leader(harness: Harness) -> None:
    await make(harness, OLD)
    await make(harness, OLD, MOVED_BACK)
    sent = decode_header(
        SendResponse, (await harness.send("t", queue_id=7, properties="_SYS_MSG_PRIORITY_\x011\x02")).ext_fields
    )
    assert (await pulled(harness, sent.queue_offset))[2] == [b"hello"]


async def test_every_form_of_a_send_goes_there(harness: Harness) -> None:
    await make(harness, OLD)
    v2 = send_header("t", queue_id=7)
    fields = {name: getattr(v2, name) for name in v2.__dataclass_fields__}
    old = SendMessage(**fields)
    batch = SendBatch(**fields | {"batch": True})
    message = b"\0\0\0\x16" + bytes(4 + 4 + 4) + b"\0\0\0\0" + b"\0\0"
    for number, (head, body) in enumerate(((old, b"x"), (batch, message), (v2, b"x"))):
        found = decode_header(SendResponse, (await harness.ask(head, body)).ext_fields)
        assert (found.queue_id, found.queue_offset) == (7, number)


async def test_a_pull_reads_on_from_one_item_in_the_next(harness: Harness) -> None:
    await harness.make_group()
    await make(harness, OLD)
    await harness.send("t", b"old", queue_id=7)
    assert await pulled(harness, 0) == (
        0, PullResponse(suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=1, offset_delta=0),
        [b"old"],
    )  # fmt: skip
    await make(harness, OLD, MOVED_BACK)
    await harness.send("t", b"new", queue_id=7)
    code, found, _ = await pulled(harness, 1, sys_flag=int(PullSysFlag.SUSPEND | 4), suspend_timeout_ms=60_000)
    assert (code, found.next_begin_offset) == (20, 20_000)
    code, found, bodies = await pulled(harness, 20_000)
    assert (code, bodies, found.next_begin_offset, found.offset_delta) == (0, [b"new"], 20_001, 20_000)
    code, found, _ = await pulled(harness, 5_000)
    assert (code, found.next_begin_offset) == (20, 20_000)


async def test_a_pull_waits_at_the_leaders_end_for_a_message(harness: Harness) -> None:
    await make(harness, OLD._replace(logic_offset=20_000))
    waiting = asyncio.create_task(
        pulled(harness, 20_000, sys_flag=int(PullSysFlag.SUSPEND | 4), suspend_timeout_ms=60_000)
    )
    await until(lambda: harness.broker.service.delivery.pulls.held_count == 1)
    await harness.send("t", b"new", queue_id=7)
    code, found, bodies = await waiting
    assert (code, found.next_begin_offset, found.offset_delta, bodies) == (0, 20_001, 20_000, [b"new"])


async def test_what_a_pull_commits_is_kept_in_the_queues_own_offsets(harness: Harness) -> None:
    await make(harness, OLD)
    for _ in range(3):
        await harness.send("t", queue_id=7)
    await make(harness, OLD, MOVED_BACK)
    for _ in range(3):
        await harness.send("t", queue_id=7)
    offsets = harness.broker.service.tables.offsets
    await pulled(harness, 20_002, sys_flag=5, commit_offset=20_002)
    assert (offsets.query("g", "t", 0), offsets.query("g", "t", 1)) == (2, -1)
    await pulled(harness, 20_002, sys_flag=5, commit_offset=3)  # of the older item: its reader tells of it by itself
    assert (offsets.query("g", "t", 0), offsets.query("g", "t", 1)) == (2, -1)


async def test_a_queue_without_a_decided_item_cannot_be_pulled(harness: Harness) -> None:
    await make(harness, OLD._replace(logic_offset=-1))
    assert (await harness.pull("t", queue_id=7))[0].code == 1
    sent = decode_header(SendResponse, (await harness.send("t", queue_id=7)).ext_fields)
    assert (sent.queue_id, sent.queue_offset) == (7, -1)


async def test_no_more_is_read_of_an_item_than_it_has(harness: Harness) -> None:
    await make(harness, OLD)
    for number in range(4):
        await harness.send("t", b"%d" % number, queue_id=7)
    await make(harness, OLD._replace(end_offset=2), MOVED_BACK)
    code, found, bodies = await pulled(harness, 0)
    assert (code, bodies, found.next_begin_offset) == (0, [b"0", b"1"], 2)


async def test_offsets_are_those_of_all_items_together(harness: Harness) -> None:
    await harness.make_group()
    await make(harness, OLD)
    for _ in range(3):
        await harness.send("t", queue_id=7)
    place: dict[str, Any] = {"topic": "t", "queue_id": 7}
    assert await harness.code(UpdateConsumerOffset(**GROUP, commit_offset=2)) == 0
    await make(harness, OLD, MOVED_BACK)
    await harness.send("t", queue_id=7)
    assert await offset(harness, GetMaxOffset(**place)) == 20_001
    assert await offset(harness, GetMinOffset(**place)) == 0
    assert await offset(harness, SearchOffset(**place, timestamp_ms=0)) == 0
    assert await harness.code(GetEarliestStoreTime(**place)) == 0
    assert await offset(harness, QueryConsumerOffset(**GROUP)) == 2
    assert await harness.code(UpdateConsumerOffset(**GROUP, commit_offset=20_001)) == 0
    assert await offset(harness, QueryConsumerOffset(**GROUP)) == 20_001
    assert await harness.code(GetMaxOffset(topic="t", queue_id=0)) == 501
    forwarded = ForwardedGetMaxOffset(topic="t", queue_id=1)
    answer = await harness.pool.request(harness.broker.address, forwarded, code=RequestCode.GET_MAX_OFFSET)
    assert decode_header(OffsetResponse, answer.ext_fields).offset == 3


async def test_what_another_broker_has_is_asked_of_it_without_waiting_there(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:

    await make(harness, REMOTE, MOVED_BACK)
    heard: list[Any] = []

    async def ask(topic: str, broker_name: str, forwarded: Any, code: int) -> Command:
        heard.append((topic, broker_name, forwarded, code))
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "9", "minOffset": "2", "maxOffset": "30"}
        return Command(0, ext_fields=fields)

    monkeypatch.setattr(harness.broker.service.tables.topics.static, "_ask", ask)
    code, found, _ = await pulled(harness, 10_005, sys_flag=7, commit_offset=10_005, suspend_timeout_ms=60_000)
    assert (code, found.next_begin_offset, found.min_offset, found.max_offset) == (0, 10_009, 10_002, 20_000)
    ((topic, broker_name, forwarded, number),) = heard
    assert (topic, broker_name, number) == ("t", "b", 11)
    assert isinstance(forwarded, ForwardedPullMessage)
    place = (forwarded.queue_id, forwarded.queue_offset, forwarded.sys_flag, forwarded.broker_name, forwarded.lo)
    assert place == (5, 5, 4, "b", False)


async def test_a_topic_that_is_not_static_is_served_as_ever_next_to_one_that_is(harness: Harness) -> None:
    await harness.make_group()
    await make(harness, OLD)
    assert decode_header(SendResponse, (await harness.send("plain", queue_id=1)).ext_fields).queue_id == 1
    answer, records = await harness.pull("plain", queue_id=1)
    assert (answer.code, len(records)) == (0, 1)
    assert decode_header(PullResponse, answer.ext_fields).offset_delta is None
    assert await offset(harness, GetMaxOffset(topic="plain", queue_id=1)) == 1
