from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.model.topic import TopicConfig
from orbitmq.store import Draft
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import ConsumerSendBack, SendResponse, UpdateSubscriptionGroup
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.properties import parse_properties
from unit.broker.parts import Serve
from waiting import until


async def test_a_message_sent_back_returns_to_its_group_and_dies_when_its_attempts_are_used_up(harness: Any) -> None:
    service = harness.broker.service
    sent = decode_header(SendResponse, (await harness.send(body=b"hard", properties="UNIQ_KEY\x01K\x02")).ext_fields)
    offset = parse_offset_message_id(sent.message_id)[1]
    assert await harness.code(ConsumerSendBack(physical_offset=offset, group="g", delay_level=1)) == 0
    await until(lambda: service.store.max_offset("%RETRY%g", 0), pause_s=0.01)
    _, (record,) = await harness.pull("%RETRY%g")
    properties = parse_properties(record.properties)
    assert (bytes(record.body), record.reconsume_times) == (b"hard", 1)
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("t", sent.message_id)
    assert properties["UNIQ_KEY"] == "K"

    await harness.ask(UpdateSubscriptionGroup(), encode_group_config(GroupConfig(group="g", retry_times_max=1)))
    again = ConsumerSendBack(physical_offset=record.physical_offset, group="g", delay_level=0)
    assert await harness.code(again) == 0
    _, (dead,) = await harness.pull("%DLQ%g")
    properties = parse_properties(dead.properties)
    assert properties["DLQ_ORIGIN_TOPIC"] == "t"
    assert properties["ORIGIN_MESSAGE_ID"] == properties["DLQ_ORIGIN_MESSAGE_ID"] == sent.message_id
    assert dead.reconsume_times == 2


@each_case(
    ("%RETRY%g_t", b""),
    ("%RETRY%g+t", b""),
    ("%RETRY%g+t", b"RETRY_TOPIC\x01t\x02"),
    ("%RETRY%g_t", b"RETRY_TOPIC\x01%RETRY%g_t\x02"),
)
async def test_a_dead_letter_that_was_popped_names_the_topic_it_was_sent_to(
    topic: str, properties: bytes, harness: Any
) -> None:
    await harness.send()
    store = harness.broker.service.store
    assert harness.broker.service.tables.topics.create_retry_topic(topic, 1, now_ms=1) is not None
    offset = store.append(Draft(topic, 0, b"x", properties)).physical_offset
    assert await harness.code(ConsumerSendBack(physical_offset=offset, group="g", delay_level=-1)) == 0
    assert (
        parse_properties(store.message_at("%DLQ%g", 0, store.max_offset("%DLQ%g", 0) - 1).properties)[
            "DLQ_ORIGIN_TOPIC"
        ]
        == "t"
    )


async def test_a_message_sent_back_leaves_the_checksum_of_its_old_record_behind(harness: Any) -> None:
    store = harness.broker.service.store
    await harness.send()
    checksum = b"A\x01b\x02__CRC32#\x010123456789\x02"
    offset = store.append(Draft("t", 0, b"x", checksum)).physical_offset
    for level, topic, queue_id in ((3, "SCHEDULE_TOPIC_XXXX", 2), (-1, "%DLQ%g", 0)):
        assert await harness.code(ConsumerSendBack(physical_offset=offset, group="g", delay_level=level)) == 0
        properties = parse_properties(store.message_at(topic, queue_id, 0).properties)
        assert properties["A"] == "b"
        assert "__CRC32#" not in properties
    assert properties["DELAY"] == "0"  # as Java's dead letters


@each_case((0, 3), (1, 4), (14, 17), (15, 18))
async def test_each_attempt_waits_one_level_longer(reconsume_times: int, level: int, harness: Any) -> None:
    service = harness.broker.service
    await harness.send()
    offset = service.store.append(Draft("t", 0, b"x", reconsume_times=reconsume_times)).physical_offset
    assert await harness.code(ConsumerSendBack(physical_offset=offset, group="g", delay_level=0)) == 0
    assert service.store.max_offset("SCHEDULE_TOPIC_XXXX", level - 1) == 1


@each_case(0, 18)
async def test_no_attempt_waits_longer_than_the_highest_level(delay_level: int, serve: Serve) -> None:
    async with serve(message_delay_level="1s 1h") as harness:
        service = harness.broker.service
        await harness.send()
        offset = service.store.append(Draft("t", 0, b"x")).physical_offset
        assert await harness.code(ConsumerSendBack(physical_offset=offset, group="g", delay_level=delay_level)) == 0
        assert service.store.queue_ids("SCHEDULE_TOPIC_XXXX") == [1]


async def test_what_cannot_be_sent_back_is_refused_with_its_code(harness: Any) -> None:
    await harness.send()
    assert await harness.code(ConsumerSendBack(physical_offset=3, group="g", delay_level=0)) == 1
    assert await harness.code(ConsumerSendBack(physical_offset=0, group="a b", delay_level=0)) == 26
    assert await harness.code(ConsumerSendBack(physical_offset=0, group="g", delay_level=-1)) == 0
    assert len((await harness.pull("%DLQ%g"))[1]) == 1


async def test_in_sync_flush_a_message_is_sent_back_when_it_is_on_the_disk(serve: Serve) -> None:
    async with serve(flush_disk_type="SYNC_FLUSH") as harness:
        await harness.send()
        assert await harness.code(ConsumerSendBack(physical_offset=0, group="g", delay_level=-1)) == 0
        store = harness.broker.service.store
        assert store.durable_offset == store.max_physical_offset


async def test_a_message_is_not_sent_back_into_a_store_that_takes_nothing(harness: Any) -> None:
    await harness.send()
    harness.broker.service.store._change(fault="the disk is gone")
    answer = await harness.ask(ConsumerSendBack(physical_offset=0, group="g", delay_level=0))
    assert (answer.code, "disk" in answer.remark) == (14, True)


async def test_dead_letters_are_in_the_one_queue_of_their_topic_even_where_there_are_more(harness: Any) -> None:
    topic = TopicConfig(topic="%DLQ%g", read_queue_count=8, write_queue_count=8)
    harness.broker.service.tables.topics.update(topic, now_ms=1)
    await harness.send()
    for _ in range(20):
        assert await harness.code(ConsumerSendBack(physical_offset=0, group="g", delay_level=-1)) == 0
    assert harness.broker.service.store.max_offset("%DLQ%g", 0) == 20


async def test_a_broker_that_may_not_be_written_takes_nothing_back(serve: Serve) -> None:
    async with serve() as harness:
        await harness.send()
    async with serve(broker_permission=4) as harness:
        end = harness.broker.service.store.max_physical_offset
        for level in (0, -1):
            answer = await harness.ask(ConsumerSendBack(physical_offset=0, group="g", delay_level=level))
            assert (answer.code, "forbidden" in answer.remark) == (16, True)
        assert harness.broker.service.store.max_physical_offset == end


@pytest.mark.parametrize(("queue_count", "is_stored"), [(0, False), (1, True)])
async def test_a_group_without_retries_loses_what_it_sends_back_and_is_not_told(
    harness: Any, queue_count: int, is_stored: bool
) -> None:

    await harness.send()
    config = GroupConfig(group="g", retry_queue_count=queue_count)
    await harness.ask(UpdateSubscriptionGroup(), encode_group_config(config))
    end = harness.broker.service.store.max_physical_offset
    assert await harness.code(ConsumerSendBack(physical_offset=0, group="g", delay_level=0)) == 0
    assert (harness.broker.service.store.max_physical_offset > end) is is_stored


async def test_a_message_whose_sync_fails_was_not_taken_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with serve(flush_disk_type="SYNC_FLUSH") as harness:
        await harness.send()
        with monkeypatch.context() as patch:
            patch.setattr("os.fdatasync", fail)
            assert await harness.code(ConsumerSendBack(physical_offset=0, group="g", delay_level=-1)) == 14


async def test_topics_of_a_group_are_refused_where_there_are_too_many_or_they_may_not_be_written(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:

    await harness.send()
    topics = harness.broker.service.tables.topics
    back = ConsumerSendBack(physical_offset=0, group="g", delay_level=0)
    with monkeypatch.context() as patch:
        patch.setattr(topics.table, "count_max", 1)
        answer = await harness.ask(back)
        assert (answer.code, answer.remark) == (1, "topic[%RETRY%g] not exist")
    assert await harness.code(back) == 0
    assert await harness.code(ConsumerSendBack(physical_offset=0, group="g", delay_level=-1)) == 0
    assert topics.get("%DLQ%g").write_queue_count == topics.get("%DLQ%g").read_queue_count == 1
    topics.update(TopicConfig(topic="%RETRY%g", perm=4), now_ms=1)
    assert await harness.code(back) == 16
