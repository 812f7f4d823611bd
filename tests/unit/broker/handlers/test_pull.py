from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.model.group import ConsumerInfo, Heartbeat, MessageModel, Subscription
from orbitmq.store import Draft
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    DeleteTopicInBroker,
    HeartbeatRequest,
    LitePullMessage,
    PullResponse,
    PullSysFlag,
    UpdateSubscriptionGroup,
)
from orbitmq.wire.messages.record import Record, iter_records
from unit.broker.conftest import Harness, send_header
from unit.broker.parts import Serve
from waiting import until

SUSPEND = PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION
FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21


def bodies(records: list[Record]) -> list[bytes]:
    return [bytes(record.body) for record in records]


async def held(harness: Any, count: int) -> None:
    await until(lambda: harness.broker.service.delivery.pulls.held_count == count)


async def beat(harness: Any, *subscriptions: Subscription, **fields: Any) -> None:
    info = ConsumerInfo(group="g", subscriptions=subscriptions, **fields)
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(info,))))


async def test_a_pull_says_where_to_go_on_and_where_the_queue_begins_and_ends(harness: Harness) -> None:
    for number in range(5):
        await harness.send(body=b"%d" % number)
    answer, records = await harness.pull(queue_offset=1, count_max=2)
    assert bodies(records) == [b"1", b"2"]
    assert decode_header(PullResponse, answer.ext_fields) == PullResponse(
        suggest_which_broker_id=0, next_begin_offset=3, min_offset=0, max_offset=5
    )
    lite = LitePullMessage(
        consumer_group="g", topic="t", queue_id=0, queue_offset=4, count_max=32, sys_flag=4 | 16, commit_offset=0,
        suspend_timeout_ms=0, subscription="*", sub_version=0,
    )  # fmt: skip
    assert bodies(list(iter_records((await harness.ask(lite)).body))) == [b"4"]


@each_case(
    ({"queue_offset": 2}, NOT_FOUND, 2),
    ({"queue_offset": 3}, MOVED, 2),
    ({"queue_offset": 2**62}, MOVED, 2),
    ({"queue_offset": -1}, MOVED, 0),
    ({"queue_id": 1}, NOT_FOUND, 0),
    ({"queue_id": 1, "queue_offset": 5}, MOVED, 0),
    ({"subscription": "nothing"}, RETRY, 2),
    ({"subscription": "a"}, FOUND, 2),
)
async def test_every_way_not_to_find_a_message_has_its_code(
    fields: dict[str, Any], code: int, next_offset: int, harness: Harness
) -> None:

    if harness.broker.service.tables.topics.get("t") is None:
        await harness.send(properties="TAGS\x01a\x02")
        await harness.send(properties="TAGS\x01b\x02")
    answer, records = await harness.pull(**fields | {"count_max": 1})
    assert answer.code == code
    assert decode_header(PullResponse, answer.ext_fields).next_begin_offset == next_offset
    assert len(records) == (code == FOUND)


async def test_issue_7948_a_huge_count_is_capped_and_moves_no_more_than_the_limit(serve: Serve) -> None:
    async with serve(max_transfer_bytes_on_message_in_memory=2048) as harness:
        for _ in range(20):
            await harness.send(body=b"x" * 500)
        _, few = await harness.pull(count_max=2**31 - 1, size_max=2**31 - 1)
        assert len(few) == 3
        _, one = await harness.pull(count_max=2**31 - 1, size_max=1)
        assert len(one) == 1
        assert (await harness.pull(count_max=0))[0].code == 1
        assert (await harness.pull(count_max=-5))[0].code == 1


@each_case(
    ({"topic": "none"}, 17),
    ({"queue_id": 4}, 29),
    ({"queue_id": -1}, 29),
    ({"consumer_group": "a b"}, 26),
    ({"subscription": "||"}, 23),
    ({"expression_type": "SQL92", "subscription": "a > 1"}, 1),
    ({"sys_flag": 0}, 24),
)
async def test_a_pull_that_is_not_allowed_is_refused_with_its_code(
    fields: dict[str, Any], code: int, harness: Harness
) -> None:
    await harness.send()
    answer, _ = await harness.pull(**fields)
    assert answer.code == code
    assert answer.remark


SQL = {"expression_type": "SQL92", "subscription": "price > 10"}
DEAR, CHEAP = "price\x0150\x02", "price\x015\x02"


async def test_a_pull_may_bring_an_expression(serve: Serve) -> None:
    async with serve(enable_property_filter=True) as harness:
        for number in range(6):
            await harness.send(body=b"%d" % number, properties=DEAR if number % 3 == 0 else CHEAP)
        answer, records = await harness.pull(**SQL)
        assert (answer.code, bodies(records)) == (FOUND, [b"0", b"3"])
        answer, _ = await harness.pull(**SQL | {"subscription": "price > 100"})
        assert answer.code == RETRY
        assert decode_header(PullResponse, answer.ext_fields).next_begin_offset == 6
        answer, _ = await harness.pull(**SQL | {"subscription": "price >"})
        assert (answer.code, "line 1, column 8" in answer.remark) == (23, True)


async def test_a_group_may_subscribe_by_an_expression(serve: Serve) -> None:
    async with serve(enable_property_filter=True) as harness:
        for number in range(3):
            await harness.send(body=b"%d" % number, properties=DEAR if number == 1 else CHEAP)

        async def subscribe(expression: str, version: int, kind: str = "SQL92") -> None:
            await beat(harness, Subscription(topic="t", expression=expression, expression_type=kind, version=version))

        await subscribe("price > 10", 1)
        assert bodies((await harness.pull(sys_flag=0, sub_version=1))[1]) == [b"1"]
        assert (await harness.pull(sys_flag=0, sub_version=2))[0].code == 25
        await subscribe("price <= 10", 2)
        assert bodies((await harness.pull(sys_flag=0, sub_version=2))[1]) == [b"0", b"2"]
        await subscribe("price > 10", 1)  # an old one changes nothing
        assert bodies((await harness.pull(sys_flag=0, sub_version=1))[1]) == [b"0", b"2"]
        await subscribe("price >", 3)
        answer, _ = await harness.pull(sys_flag=0, sub_version=3)
        assert (answer.code, "line 1, column 8" in answer.remark) == (27, True)
        await subscribe("*", 4, "TAG")
        assert len((await harness.pull(sys_flag=0, sub_version=4))[1]) == 3


async def test_a_held_pull_with_an_expression_is_woken_by_what_it_wants(serve: Serve) -> None:
    async with serve(enable_property_filter=True) as harness:
        await harness.send(properties=CHEAP)
        waiting = asyncio.create_task(harness.pull(queue_offset=1, sys_flag=SUSPEND, suspend_timeout_ms=30_000, **SQL))
        await held(harness, 1)
        other = harness.connect()
        for body, properties in ((b"cheap", CHEAP), (b"dear", DEAR)):
            await other.request(harness.broker.address, send_header(properties=properties), body, timeout_ms=20_000)
        answer, records = await waiting
        assert (answer.code, bodies(records)) == (FOUND, [b"dear"])
        assert decode_header(PullResponse, answer.ext_fields).next_begin_offset == 3


async def test_more_pulls_with_expressions_than_one_turn_has_time_for_are_all_answered(serve: Serve) -> None:
    async with serve(enable_property_filter=True) as harness:
        for _ in range(40):
            await harness.send(properties=CHEAP)
        wanted = " OR ".join(f"price = {number}" for number in range(100, 350))
        fields = {"expression_type": "SQL92", "subscription": wanted}
        answers = await asyncio.gather(*(harness.pull(**fields) for _ in range(50)), harness.pull())
        assert {answer.code for answer, _ in answers[:-1]} <= {RETRY, NOT_FOUND}
        assert answers[-1][0].code == FOUND


async def test_retries_are_filtered_once_more_where_that_is_asked_for(serve: Serve) -> None:
    async def check(harness: Any) -> None:
        filters = (Subscription(topic="t", expression="price > 10", expression_type="SQL92", version=1),)
        await beat(harness, *filters, Subscription(topic="%RETRY%g", version=1))
        for body, properties in ((b"cheap", CHEAP), (b"dear", DEAR)):
            harness.broker.service.store.append(
                Draft("%RETRY%g", 0, body, f"RETRY_TOPIC\x01t\x02{properties}".encode())
            )
        found = bodies((await harness.pull("%RETRY%g", sys_flag=0, sub_version=1))[1])
        assert found == ([b"dear"] if harness.broker.config.filter_support_retry else [b"cheap", b"dear"] * 2)
        assert bodies((await harness.pull("%RETRY%g", subscription="*"))[1]) == found

    async with serve(enable_property_filter=True, filter_support_retry=True) as harness:
        await check(harness)
    async with serve(enable_property_filter=True) as harness:
        await check(harness)


async def test_permissions_of_broker_topic_and_group_are_looked_at(serve: Serve) -> None:
    async with serve() as harness:
        topics = harness.broker.service.tables.topics
        await harness.send()
        await harness.ask(
            UpdateSubscriptionGroup(), encode_group_config(GroupConfig(group="shut", consume_enable=False))
        )
        assert (await harness.pull(consumer_group="shut"))[0].code == 16
        topics.table.update(dataclasses.replace(topics.get("t"), perm=2), now_ms=1)
        assert (await harness.pull())[0].code == 16
    async with serve(broker_permission=2) as harness:
        assert (await harness.pull())[0].code == 16


async def test_without_a_filter_in_the_request_the_heartbeats_filter_counts(harness: Harness) -> None:
    await harness.send(properties="TAGS\x01a\x02", body=b"A")
    await harness.send(properties="TAGS\x01b\x02", body=b"B")
    await beat(harness, Subscription(topic="t", expression="b || c", version=5))
    _, records = await harness.pull(sys_flag=0, sub_version=5)
    assert bodies(records) == [b"B"]
    assert (await harness.pull(sys_flag=0, sub_version=6))[0].code == 25
    assert (await harness.pull("TBW102", sys_flag=0))[0].code == 24


async def test_a_group_that_may_not_broadcast_does_not(harness: Harness) -> None:
    await harness.send()
    await beat(harness, Subscription(topic="t"), message_model=MessageModel.BROADCASTING)
    assert (await harness.pull(sys_flag=0))[0].code == 0
    config = GroupConfig(group="g", consume_broadcast_enable=False)
    await harness.ask(UpdateSubscriptionGroup(), encode_group_config(config))
    assert (await harness.pull(sys_flag=0))[0].code == 16


async def test_a_pull_waits_for_the_message_it_wants(harness: Harness) -> None:
    await harness.send(properties="TAGS\x01a\x02")
    wanted = asyncio.create_task(
        harness.pull(queue_offset=1, subscription="b", sys_flag=SUSPEND, suspend_timeout_ms=15_000)
    )
    anything = asyncio.create_task(harness.pull(queue_offset=1, sys_flag=SUSPEND, suspend_timeout_ms=15_000))
    await held(harness, 2)
    await harness.send(properties="TAGS\x01a\x02", body=b"A")
    assert bodies((await anything)[1]) == [b"A"]
    assert harness.broker.service.delivery.pulls.held_count == 1
    await harness.send(properties="TAGS\x01b\x02", body=b"B")
    assert bodies((await wanted)[1]) == [b"B"]


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
async def test_a_waiting_pull_is_answered_in_time_though_the_wall_clock_is_set_and_set_back(
    serve: Serve, ahead_ms: int
) -> None:
    wall, monotonic = FakeClock(), FakeClock(5_000)

    async with serve(clocks={"clock": wall, "monotonic": monotonic}) as harness:
        await harness.send()
        pulls = harness.broker.service.delivery.pulls
        wall.set(wall() + ahead_ms)
        waiting = asyncio.create_task(harness.pull(queue_offset=1, sys_flag=SUSPEND, suspend_timeout_ms=3_000))
        await held(harness, 1)
        wall.set(wall() - ahead_ms)
        monotonic.advance(2_999)
        pulls.answer_expired(harness.broker.service.context.monotonic())
        assert pulls.held_count == 1
        monotonic.advance(1)
        answer, _ = await asyncio.wait_for(waiting, 20)
        assert answer.code == NOT_FOUND


@pytest.mark.parametrize(
    "settings",
    [{"long_polling_enable": False, "short_polling_time_mills": 10}, {"parked_pulls_max": 0}],
    ids=["long polling is off", "pulls over the limit"],
)
async def test_a_pull_that_may_not_wait_long_is_answered_immediately(serve: Serve, settings: dict[str, Any]) -> None:
    async with serve(**settings) as harness:
        await harness.send()
        answer, _ = await harness.pull(queue_offset=1, sys_flag=SUSPEND, suspend_timeout_ms=60_000)
        assert answer.code == NOT_FOUND


async def test_waiting_pulls_are_answered_when_their_topic_or_the_broker_goes(harness: Harness) -> None:
    await harness.send("gone")
    await harness.send()
    first = asyncio.create_task(harness.pull("gone", queue_offset=1, sys_flag=SUSPEND, suspend_timeout_ms=15_000))
    second = asyncio.create_task(harness.pull(queue_offset=1, sys_flag=SUSPEND, suspend_timeout_ms=15_000))
    await held(harness, 2)
    assert await harness.code(DeleteTopicInBroker(topic="gone")) == 0
    assert (await first)[0].code == MOVED
    await harness.broker.stop()
    answer, _ = await second
    assert answer.code == NOT_FOUND
    assert decode_header(PullResponse, answer.ext_fields).next_begin_offset == 1


async def test_a_pull_can_commit_an_offset_on_its_way(harness: Harness) -> None:
    await harness.send()
    await harness.pull(commit_offset=1, sys_flag=4)
    assert harness.broker.service.tables.offsets.query("g", "t", 0) == -1
    await harness.pull(commit_offset=1, sys_flag=5)
    assert harness.broker.service.tables.offsets.query("g", "t", 0) == 1
    await harness.pull(commit_offset=99, sys_flag=5)
    assert harness.broker.service.tables.offsets.query("g", "t", 0) == 1


async def test_issue_8239_in_sync_flush_nothing_is_seen_before_it_is_on_the_disk(serve: Serve) -> None:
    async with serve(flush_disk_type="SYNC_FLUSH") as harness:
        await harness.send(body=b"durable")
        await harness.pull()  # makes the group, so that the next pull waits for nothing
        harness.broker.service.store.append(Draft("t", 0, b"not yet"))
        answer, records = await harness.pull()
        assert bodies(records) == [b"durable"]
        assert decode_header(PullResponse, answer.ext_fields).max_offset == 1


async def test_large_answers_are_whole_and_in_order_next_to_small_ones(harness: Harness) -> None:
    for number in range(40):
        await harness.send(body=b"%d" % number * 2000)
    pulls = [harness.pull(queue_offset=number, count_max=100 if number % 2 else 1) for number in range(40)]
    for number, (answer, records) in enumerate(await asyncio.gather(*pulls)):
        assert answer.code == 0
        assert len(records) == (40 - number if number % 2 else 1)
        assert bytes(records[0].body) == b"%d" % number * 2000


async def test_a_new_group_reads_from_a_broker_whose_disk_is_full(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    async with serve() as harness:
        assert (await harness.send(body=b"one")).code == 0
        with monkeypatch.context() as full:
            full.setattr("orbitmq.broker.groups.table_file.replace_file", refuse)
            for _ in range(2):
                _, (record,) = await harness.pull(consumer_group="new")
                assert bytes(record.body) == b"one"
            groups = harness.broker.service.tables.groups.configs
            assert groups.get("new") is None
        await harness.pull(consumer_group="new")
        assert groups.get("new") is not None
