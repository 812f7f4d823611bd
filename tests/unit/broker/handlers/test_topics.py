from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cases import each_case
from orbitmq.codes import RequestCode, Version
from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import decode_group_list
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.bodies.topics import (
    decode_consume_stats,
    decode_topic_config,
    decode_topic_list,
    decode_topic_stats,
    decode_topic_table,
    encode_topic_configs,
)
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.headers import (
    CreateTopic,
    CreateTopics,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetConsumeStats,
    GetSystemTopicsOfBroker,
    GetTopicConfig,
    GetTopicStats,
    HeartbeatRequest,
    PopMessage,
    QueryTopicConsumers,
    UpdateConsumerOffset,
)

from ..conftest import Harness
from ..fast_path.support import exchange
from ..parts import Serve


def create(topic: str = "orders", **fields: Any) -> CreateTopic:
    settings: dict[str, Any] = {
        "default_topic": "TBW102", "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6,
        "topic_filter_type": "SINGLE_TAG", "topic_sys_flag": 0, "order": False,
    }  # fmt: skip
    return CreateTopic(topic=topic, **settings | fields)


async def test_a_topic_is_made_changed_listed_and_kept(serve: Serve) -> None:
    async with serve() as harness:
        assert await harness.code(create()) == 0
        assert await harness.code(create(read_queue_nums=4, order=True, attributes="+message.type=FIFO")) == 0
        config = decode_topic_config((await harness.ask(GetTopicConfig(topic="orders"))).body)
        assert (config.read_queue_count, config.write_queue_count, config.order) == (4, 8, True)
        assert config.attributes == {"message.type": "FIFO"}
        table = decode_topic_table((await harness.ask(GetAllTopicConfig())).body)
        assert table.topics["orders"] == config
        assert await harness.code(GetTopicConfig(topic="none")) == 17
    async with serve() as harness:
        assert harness.broker.service.tables.topics.get("orders").read_queue_count == 4


@each_case(
    (Version.V5_3_1, True, "message.type"),
    (Version.V5_3_2, True, "+message.type"),
    (Version.V5_3_3, True, "+message.type"),
    (Version.V5_3_3 + 2, True, "message.type"),
    (Version.V5_3_3, False, "message.type"),
)
async def test_javas_slaves_get_attributes_as_they_take_them(
    version: int, is_slave: bool, name: str, harness: Harness
) -> None:
    """Slaves of 5.3.2 and 5.3.3 take them as changes alone; they ask on the VIP port, where administrators do not."""
    assert await harness.code(create("typed", attributes="+message.type=FIFO")) == 0
    assert await harness.code(create("plain")) == 0
    host, _, port = harness.broker.address.rpartition(":")
    asked = encode_command(Command(RequestCode.GET_ALL_TOPIC_CONFIG, language="JAVA", version=version))
    (answer,) = await asyncio.to_thread(exchange, f"{host}:{int(port) - 2 * is_slave}", [asked])
    table = decode_topic_table(answer.body)
    assert table.topics["typed"].attributes == {name: "FIFO"}
    assert not table.topics["plain"].attributes


async def test_attributes_that_no_topic_has_are_refused_as_javas_broker_does(harness: Harness) -> None:
    before = harness.broker.service.tables.topics.table.version
    for attributes in ("x=y", "+x=y", "-message.type"):
        assert await harness.code(create(attributes=attributes)) == 1
    for attribute, reason in (
        ("queue.type=BatchCQ", "batch consume queues are not built"),
        ("message.type=LITE", "RocketMQ 5.5"),
    ):
        answer = await harness.ask(create(attributes=f"+{attribute}"))
        remark = answer.remark or ""
        assert (answer.code, attribute in remark, reason in remark) == (1, True, True)
    assert harness.broker.service.tables.topics.table.version == before


@each_case(
    create("TBW102"),
    create("rmq_sys_x"),
    create("../../etc/passwd"),
    create(read_queue_nums=0),
    create(perm=99),
    DeleteTopicInBroker(topic="SCHEDULE_TOPIC_XXXX"),
    DeleteTopicInBroker(topic="../../etc"),
)
async def test_a_topic_change_that_is_not_allowed_is_refused(header: object, harness: Harness) -> None:
    before = harness.broker.service.tables.topics.table.version
    assert await harness.code(header) == 29
    assert harness.broker.service.tables.topics.table.version == before


async def test_a_deleted_topic_is_gone_with_its_messages_and_offsets(harness: Harness) -> None:
    await harness.send("orders")
    await harness.make_group()
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=1))
    assert await harness.code(DeleteTopicInBroker(topic="orders")) == 0
    assert await harness.code(DeleteTopicInBroker(topic="orders")) == 0
    assert (await harness.pull("orders"))[0].code == 17
    service = harness.broker.service
    assert service.tables.offsets.query("g", "orders", 0) == -1
    assert service.store.max_offset("orders", 0) == 0
    await harness.send("orders", body=b"new life")
    _, (record,) = await harness.pull("orders")
    assert bytes(record.body) == b"new life"


@pytest.mark.parametrize("clears", [True, False])
async def test_a_deleted_topic_takes_the_retries_of_its_popped_messages_along(serve: Serve, clears: bool) -> None:
    async with serve(clear_retry_topic_when_delete_topic=clears) as harness:
        topics = harness.broker.service.tables.topics
        retries = ["%RETRY%g_orders", "%RETRY%g+orders"]
        others = ["%RETRY%g", "%RETRY%g_bills", "%RETRY%h_orders"]
        await harness.make_group()
        assert await harness.code(create("orders")) == 0
        for topic in (*retries, *others):
            assert topics.create_retry_topic(topic, 1, 1) is not None
        commit = UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=0)
        assert await harness.code(commit) == 0
        assert await harness.code(DeleteTopicInBroker(topic="orders")) == 0
        assert topics.get("orders") is None
        assert [topics.get(topic) is None for topic in retries] == 2 * [clears]
        assert None not in [topics.get(topic) for topic in others]


@each_case("DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_any", "TBW102")
async def test_topics_of_the_broker_itself_are_neither_made_nor_changed_nor_deleted(
    topic: str, harness: Harness
) -> None:
    before = harness.broker.service.tables.topics.get(topic)
    refusal = (29, f"The topic[{topic}] is conflict with system topic.")
    body = encode_topic_configs([TopicConfig(topic=topic)])
    for header, content in (
        (create(topic), b""),
        (create(topic, attributes="no attribute"), b""),
        (CreateTopics(), body),
        (DeleteTopicInBroker(topic=topic), b""),
    ):
        answer = await harness.ask(header, content)
        assert (answer.code, answer.remark) == refusal
    assert harness.broker.service.tables.topics.get(topic) == before


@each_case(
    b"{}",
    b'{"topicConfigList":null}',
    b'{"topicConfigList":{}}',
    b'{"topicConfigList":[{"topicName":"t","order":" 5 "}]}',
)
async def test_a_list_of_topics_that_is_none_is_refused(listed: bytes, harness: Harness) -> None:
    assert await harness.code(CreateTopics(), listed) == 1


async def test_a_topic_that_is_not_there_is_named_in_javas_words(harness: Harness) -> None:
    assert (await harness.ask(GetTopicConfig(topic="none"))).remark == "No topic in this broker. topic: none"
    assert (await harness.ask(GetTopicStats(topic="none"))).remark == "topic[none] not exist"


async def test_system_topics_are_told_apart(harness: Harness) -> None:
    found = decode_topic_list((await harness.ask(GetSystemTopicsOfBroker())).body)
    assert {"TBW102", "CHECKPOINT_TOPIC", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_REVIVE_LOG_DefaultCluster"} <= set(
        found.topics
    )


async def test_who_reads_a_topic_is_known_from_heartbeats_and_offsets(harness: Harness) -> None:
    await harness.send("t")
    info = ConsumerInfo(group="now", subscriptions=(Subscription(topic="t"),))
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(info,))))
    await harness.make_group("before")
    await harness.ask(UpdateConsumerOffset(consumer_group="before", topic="t", queue_id=0, commit_offset=1))
    found = decode_group_list((await harness.ask(QueryTopicConsumers(topic="t"))).body)
    assert found == ("now", "before")


async def test_stats_list_every_queue_also_the_empty_ones(harness: Harness) -> None:
    for _ in range(3):
        await harness.send("t", queue_id=1)
    await harness.make_group()
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=1, commit_offset=2))
    stats = decode_topic_stats((await harness.ask(GetTopicStats(topic="t"))).body)
    assert {queue.queue_id: found.max_offset for queue, found in stats.items()} == {0: 0, 1: 3, 2: 0, 3: 0}
    assert stats[MessageQueue("t", "a", 1)].updated_at_ms > 0
    progress = decode_consume_stats((await harness.ask(GetConsumeStats(consumer_group="g"))).body)
    assert len(progress) == 4
    found = progress[MessageQueue("t", "a", 1)]
    assert (found.broker_offset, found.consumer_offset) == (3, 2)
    assert found.consumed_at_ms > 0
    for topic, topic_list in (("t", None), (None, "t;none")):
        header = GetConsumeStats(consumer_group="g", topic=topic, topic_list=topic_list)
        assert len(decode_consume_stats((await harness.ask(header)).body)) == 4


async def test_the_pull_offset_follows_what_a_group_has_pulled_filtered_away_or_popped(harness: Harness) -> None:
    queue = MessageQueue("t", "a", 0)
    for _ in range(6):
        await harness.send("t", properties="TAGS\x01A\x02")

    async def offsets(group: str) -> tuple[int, int]:
        answer = await harness.ask(GetConsumeStats(consumer_group=group, topic="t"))
        found = decode_consume_stats(answer.body)[queue]
        return found.consumer_offset, found.pull_offset

    assert await offsets("g") == (0, 0)
    await harness.pull(count_max=2)
    assert await offsets("g") == (0, 2)
    await harness.pull(queue_offset=2, subscription="B")
    assert await offsets("g") == (0, 6)
    await harness.pull(queue_offset=1, count_max=2)  # it has gone back
    assert await offsets("g") == (0, 3)
    popped: dict[str, Any] = {
        "topic": "t",
        "queue_id": 0,
        "count_max": 2,
        "invisible_ms": 60_000,
        "poll_ms": 0,
        "init_mode": 0,
    }
    assert await harness.code(PopMessage(**popped, consumer_group="pops")) == 0
    assert await offsets("pops") == (2, 2)
    assert await harness.code(PopMessage(**popped, consumer_group="in-order", order=True)) == 0
    assert await offsets("in-order") == (0, 2)


async def test_a_group_that_has_pulled_before_it_pops_is_where_it_popped(harness: Harness) -> None:
    for _ in range(6):
        await harness.send("t")
    await harness.pull()
    header = PopMessage(
        consumer_group="g", topic="t", queue_id=0, count_max=2, invisible_ms=60_000, poll_ms=0, init_mode=0
    )
    assert await harness.code(header) == 0
    progress = decode_consume_stats((await harness.ask(GetConsumeStats(consumer_group="g", topic="t"))).body)
    assert progress[MessageQueue("t", "a", 0)].pull_offset == 2


async def test_a_group_that_is_there_is_asked_about_its_topics_alone(harness: Harness) -> None:
    await harness.make_group()
    for topic in ("kept", "given-up"):
        assert await harness.code(create(topic, read_queue_nums=2, write_queue_nums=3)) == 0
        await harness.ask(UpdateConsumerOffset(consumer_group="g", topic=topic, queue_id=0, commit_offset=0))
    progress = decode_consume_stats((await harness.ask(GetConsumeStats(consumer_group="g"))).body)
    assert {(queue.topic, queue.queue_id) for queue in progress} == {
        (topic, queue_id) for topic in ("kept", "given-up") for queue_id in range(2)
    }
    info = ConsumerInfo(group="g", subscriptions=(Subscription(topic="kept"), Subscription(topic="new")))
    await harness.ask(HeartbeatRequest(), encode_heartbeat(Heartbeat(client_id="c", consumers=(info,))))
    progress = decode_consume_stats((await harness.ask(GetConsumeStats(consumer_group="g"))).body)
    assert {queue.topic for queue in progress} == {"kept"}


async def test_a_topic_of_which_nothing_more_is_said_is_a_plain_one(harness: Harness) -> None:
    assert await harness.code(create(topic_filter_type="", topic_sys_flag=None)) == 0
    config = harness.broker.service.tables.topics.get("orders")
    assert (config.topic_filter_type, config.topic_sys_flag) == ("SINGLE_TAG", 0)
    assert await harness.code(create(topic_filter_type="MULTI_TAG", topic_sys_flag=2)) == 0
    config = harness.broker.service.tables.topics.get("orders")
    assert (config.topic_filter_type, config.topic_sys_flag) == ("MULTI_TAG", 2)


async def test_times_are_those_of_the_last_message_stored_and_the_last_consumed(harness: Harness) -> None:
    store = harness.broker.service.store
    queue = MessageQueue("t", "a", 0)
    await harness.send("t")
    stats = decode_topic_stats((await harness.ask(GetTopicStats(topic="t"))).body)
    assert stats[queue].updated_at_ms == store.message_at("t", 0, 0).stored_at_ms
    progress = decode_consume_stats((await harness.ask(GetConsumeStats(consumer_group="g", topic="t"))).body)
    assert (progress[queue].consumer_offset, progress[queue].consumed_at_ms) == (0, 0)
    await harness.make_group()
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1))
    progress = decode_consume_stats((await harness.ask(GetConsumeStats(consumer_group="g", topic="t"))).body)
    assert progress[queue].consumed_at_ms == store.message_at("t", 0, 0).stored_at_ms
    assert await harness.code(GetTopicStats(topic="none")) == 17


async def test_many_topics_are_made_or_changed_in_one_request(harness: Harness) -> None:
    assert await harness.code(create("old")) == 0
    configs = [
        TopicConfig(topic="old", read_queue_count=4),
        TopicConfig(topic="new", attributes={"+message.type": "FIFO"}),
    ]
    assert await harness.code(CreateTopics(), encode_topic_configs(configs)) == 0
    assert await harness.code(CreateTopics(), encode_topic_configs(configs[:1])) == 0
    topics = harness.broker.service.tables.topics
    assert topics.get("old").read_queue_count == 4
    assert topics.get("new").attributes == {"message.type": "FIFO"}


@each_case(
    (TopicConfig(topic="a b"), 29),
    (TopicConfig(topic="TBW102"), 29),
    (TopicConfig(topic="t", read_queue_count=0), 29),
    (TopicConfig(topic="t", attributes={"+message.type": "none"}), 1),
    (TopicConfig(topic="t", attributes={"+message.type": "MIXED"}), 29),
)
async def test_one_bad_topic_of_many_refuses_all(config: TopicConfig, code: int, harness: Harness) -> None:
    version = harness.broker.service.tables.topics.table.version
    assert await harness.code(CreateTopics(), encode_topic_configs([TopicConfig(topic="good"), config])) == code
    assert harness.broker.service.tables.topics.get("good") is None
    assert harness.broker.service.tables.topics.table.version == version


async def test_topics_for_messages_of_every_type_need_a_setting(serve: Serve) -> None:
    mixed = create(attributes="+message.type=MIXED")

    async with serve() as harness:
        answer = await harness.ask(mixed)
        assert (answer.code, answer.remark) == (29, "MIXED message type is not supported.")
    async with serve(enable_mixed_message_type=True) as harness:
        assert await harness.code(mixed) == 0


async def test_stats_say_how_many_messages_come_and_go_per_second(harness: Harness) -> None:
    await harness.make_group()
    for _ in range(6):
        await harness.send("t")
    await harness.pull("t")
    await harness.ask(UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=6))
    stats = harness.broker.service.monitoring.stats
    stats.sample_flows(harness.broker.service.context.monotonic() + 60_000)
    assert 0 < float((await harness.ask(GetTopicStats(topic="t"))).body.rpartition(b":")[2].rstrip(b"}")) <= 0.6
    consumed = (await harness.ask(GetConsumeStats(consumer_group="g"))).body
    assert b'"consumeTps":0.0,' not in consumed
    await harness.ask(DeleteTopicInBroker(topic="t"))
    assert (len(stats.puts), len(stats.gets)) == (0, 0)
