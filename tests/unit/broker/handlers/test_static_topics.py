"""Static topics are made, shown, kept and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

from cases import each_case
from orbitmq.model.static_topic import MappingItem, QueueMapping
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.static_topics import decode_mapping, encode_mapping
from orbitmq.wire.headers import CreateStaticTopic, DeleteTopicInBroker, GetAllTopicConfig, GetTopicConfig
from unit.broker.conftest import Harness
from unit.broker.parts import Serve
from waiting import until

ITEM = MappingItem(0, 1, "a", 0)


def header(topic: str = "t", **fields: Any) -> CreateStaticTopic:
    settings: dict[str, Any] = {
        "default_topic": "TBW102", "read_queue_nums": 2, "write_queue_nums": 2, "perm": 6, "topic_filter_type": "SINGLE_TAG",
    }  # fmt: skip
    return CreateStaticTopic(topic=topic, **settings | fields)


def mapping(**fields: Any) -> QueueMapping:
    settings: dict[str, Any] = {"topic": "t", "broker_name": "a", "queue_count": 2, "epoch": 1, "queues": {0: (ITEM,)}}
    return QueueMapping(**settings | fields)


async def test_a_static_topic_is_made_shown_and_kept_until_it_is_deleted(serve: Serve) -> None:
    async with serve() as harness:
        assert await harness.code(header(), encode_mapping(mapping())) == 0
        plain = await harness.ask(GetTopicConfig(topic="t"))
        assert "mappingDetail" not in fastjson.loads(plain.body)
    async with serve() as harness:
        static = harness.broker.service.tables.topics.static
        assert static.mappings == {"t": mapping()}
        table = fastjson.loads((await harness.ask(GetAllTopicConfig())).body)
        assert decode_mapping(fastjson.dumps_loose(table["topicQueueMappingDetailMap"]["t"])) == mapping()
        assert table["topicConfigTable"]["t"]["readQueueNums"] == 2
        assert await harness.code(DeleteTopicInBroker(topic="t")) == 0
        assert not static.mappings
    async with serve() as harness:
        assert not harness.broker.service.tables.topics.static.mappings
        assert "topicQueueMappingDetailMap" not in fastjson.loads((await harness.ask(GetAllTopicConfig())).body)


async def test_a_static_topic_has_no_order(harness: Harness) -> None:
    assert await harness.code(header(order=True), encode_mapping(mapping())) == 0
    table = fastjson.loads((await harness.ask(GetAllTopicConfig())).body)
    assert table["topicConfigTable"]["t"]["order"] is False


async def test_a_broker_may_have_no_queue_of_a_static_topic(harness: Harness) -> None:
    body = encode_mapping(mapping(queues={}))
    assert await harness.code(header(read_queue_nums=0, write_queue_nums=0), body) == 0
    assert (await harness.send("t")).code == 501


@each_case(
    ({"topic": "TBW102"}, mapping(topic="TBW102"), 29),
    ({"topic": "a/b"}, mapping(topic="a/b"), 29),
    ({"read_queue_nums": -1}, mapping(), 29),
    ({"perm": 99}, mapping(), 29),
    ({}, mapping(topic="other"), 29),
    ({}, mapping(broker_name="b"), 29),
    ({}, mapping(queues={0: (ITEM._replace(queue_id=-1),)}), 1),
    ({"attributes": "+x=y"}, mapping(), 1),
    ({}, None, 1),
)
async def test_a_static_topic_that_is_no_good_leaves_nothing(
    change: dict[str, Any], body: QueueMapping | None, code: int, harness: Harness
) -> None:

    topics = harness.broker.service.tables.topics
    before = topics.table.version
    assert await harness.code(header(**change), b"{" if body is None else encode_mapping(body)) == code
    assert not topics.static.mappings
    assert topics.table.version == before


async def test_pulls_that_wait_are_answered_when_the_mapping_changes(harness: Harness) -> None:
    assert await harness.code(header(), encode_mapping(mapping())) == 0
    waiting = asyncio.create_task(harness.pull("t", sys_flag=6, suspend_timeout_ms=60_000))
    await until(lambda: harness.broker.service.delivery.pulls.held_count == 1)
    moved = mapping(epoch=2, queues={0: (ITEM, MappingItem(1, 0, "b", -1))})
    assert await harness.code(header(), encode_mapping(moved)) == 0
    answer, _ = await waiting
    assert answer.code == 19
    assert (await harness.pull("t"))[0].code == 501
