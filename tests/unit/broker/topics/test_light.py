"""Topics that are light queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.broker.topics.light import with_light_topics
from orbitmq.broker.topics.table import TopicTable, plain_topic
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CleanUnusedTopics,
    DeleteTopicInBroker,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.messages.properties import find_property
from waiting import until

from ..parts import Serve

LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}
A, B = "%LMQ%a", "%LMQ%b"


def naming(*names: str, **more: str) -> str:
    properties = {"INNER_MULTI_DISPATCH": ",".join(names), **more}
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def test_a_light_topic_is_there_without_having_been_made() -> None:
    table = TopicTable([plain_topic("orders", 4)])
    find = with_light_topics(table.get)
    assert find("orders") is table.get("orders")
    found = find(A)
    assert found is not None
    assert (found.topic, found.read_queue_count, found.perm) == (A, 1, 4)
    assert (find("other"), find("%LMQ%a/b"), table.get(A)) == (None, None, None)


async def test_a_message_is_pulled_from_each_light_queue_that_it_names(serve: Serve) -> None:
    async with serve(**LIGHT) as rig:
        for number, names in enumerate([(A, B), (B,), ()]):
            properties = naming(*names, UNIQ_KEY=f"K{number}") if names else "TAGS\x01t\x02"
            assert (await rig.send(body=b"%d" % number, properties=properties)).code == 0
        for topic, bodies in ((A, [b"0"]), (B, [b"0", b"1"])):
            answer, records = await rig.pull(topic)
            assert [bytes(record.body) for record in records] == bodies
            assert answer.ext_fields["nextBeginOffset"] == str(len(bodies))
        assert (await rig.answer(GetMaxOffset(topic=B, queue_id=0), OffsetResponse)).offset == 2
        assert (await rig.answer(GetMinOffset(topic="%LMQ%none", queue_id=0), OffsetResponse)).offset == 0
        assert (await rig.pull(B, queue_id=1))[0].code == 29
        assert await rig.code(CleanUnusedTopics()) == 0
        assert len((await rig.pull(A))[1]) == 1
    async with serve() as rig:  # without light queues they are not in use, and stay
        await _cleaned(rig)


async def _cleaned(rig: Any) -> None:
    assert (await rig.pull(A))[0].code == 17
    assert await rig.code(CleanUnusedTopics()) == 0
    assert rig.broker.service.store.max_offset(A, 0) == 1


async def test_a_pull_waits_for_a_light_queue_that_has_no_message_yet(serve: Serve) -> None:
    async with serve(**LIGHT) as rig:
        pulls = rig.broker.service.pulls
        waiting = asyncio.ensure_future(rig.pull(A, sys_flag=6, suspend_timeout_ms=30_000))
        await until(lambda: pulls.parked_count == 1)
        assert (await rig.send(properties=naming(B))).code == 0
        assert pulls.parked_count == 1
        assert (await rig.send(properties=naming(A))).code == 0
        assert (await waiting)[0].code == 0


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (naming("orders"), 13),
        (naming(A, A), 13),
        (naming(A, TIMER_DELAY_SEC="60").replace(A, "orders"), 13),
        (naming(A, B), 0),
        (naming(A, B, "%LMQ%c"), 1),
    ],
)
@pytest.mark.parametrize("key", ["", "UNIQ_KEY\x01K\x02"])  # the long way's, and the fast path's
async def test_names_are_looked_at_before_a_message_is_taken(serve: Serve, sent: str, code: int, key: str) -> None:
    async with serve(**LIGHT, max_lmq_consume_queue_num=2) as rig:
        for _ in range(3):
            assert (await rig.send(properties=sent + key)).code == code
        assert rig.broker.service.store.max_offset("t", 0) == (0 if code else 3)


@pytest.mark.parametrize("is_on", [False, True])
async def test_numbers_that_a_sender_gives_do_not_count(serve: Serve, is_on: bool) -> None:
    async with serve(enable_lmq=is_on, enable_multi_dispatch=is_on) as rig:
        forged = naming(A, INNER_MULTI_QUEUE_OFFSET="7")
        assert (await rig.send(properties=forged)).code == 0
        (record,) = (await rig.pull())[1]
        numbers = find_property(record.properties, b"INNER_MULTI_QUEUE_OFFSET")
        assert numbers == (b"0" if is_on else None)


async def test_a_light_queue_is_emptied_by_the_deletion_of_its_topic(serve: Serve) -> None:
    async with serve(**LIGHT) as rig:
        for _ in range(2):
            assert (await rig.send(properties=naming(A, B))).code == 0
        assert await rig.code(DeleteTopicInBroker(topic=A)) == 0
        assert (await rig.pull(A))[0].code == 19
        assert (await rig.send(body=b"new", properties=naming(A, B))).code == 0
        assert [bytes(record.body) for record in (await rig.pull(A))[1]] == [b"new"]
        assert len((await rig.pull(B))[1]) == 3


async def test_nobody_sends_to_a_light_topic(serve: Serve) -> None:
    async with serve(**LIGHT) as rig:
        assert (await rig.send(A)).code == 16


async def test_offsets_of_light_queues_and_of_light_groups_are_kept(serve: Serve) -> None:
    groups = ("g", "%LMQ%g")

    async with serve(**LIGHT) as rig:
        await rig.make_group()
        assert (await rig.send(properties=naming(A))).code == 0
        for group in groups:
            for topic in (A, "%LMQ%none"):
                header = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
                assert await rig.code(header) == 0
        assert not [key for key in rig.broker.service.offsets.all if "none" in key]
    async with serve(**LIGHT) as rig:
        for group in groups:
            answer = await rig.ask(QueryConsumerOffset(consumer_group=group, topic=A, queue_id=0))
            assert decode_header(OffsetResponse, answer.ext_fields).offset == 1


@pytest.mark.parametrize(("setting", "code"), [("enable_lmq", 19), ("enable_multi_dispatch", 17)])
async def test_only_one_of_both_settings_puts_nothing_into_light_queues(serve: Serve, setting: str, code: int) -> None:
    async with serve(**{setting: True}) as rig:
        assert (await rig.send(properties=naming(A))).code == 0
        assert rig.broker.service.store.topics() == ["t"]
        assert (await rig.pull(A))[0].code == code
