"""Topics that are LMQs."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.topics.system_topics import system_topics
from orbitmq.broker.topics.table import TopicTable, check_topic_name, plain_topic, with_lmq_topics
from orbitmq.errors import Rejected
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig
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
from unit.broker.parts import Serve
from waiting import until


def table(**settings: object) -> TopicTable:
    config = BrokerConfig(broker_name="a", **settings)  # type: ignore[arg-type]
    topics = TopicTable(auto_create_enable=config.auto_create_topic_enable)
    topics.add_missing(system_topics(config), now_ms=1)
    return topics


@pytest.fixture
def topics() -> TopicTable:
    return table()


def test_a_sent_topic_gets_the_lesser_queue_count_and_loses_the_inherit_bit(topics: TopicTable) -> None:

    created = topics.auto_create("orders", AUTO_CREATE_TOPIC, 4, now_ms=2)

    assert created is not None
    assert (created.read_queue_count, created.write_queue_count, created.perm) == (4, 4, 6)
    assert topics.auto_create("many", AUTO_CREATE_TOPIC, 99, now_ms=2).write_queue_count == 8
    assert topics.get("orders") is created


def test_a_topic_is_not_made_from_a_template_that_may_not_be_inherited(topics: TopicTable) -> None:
    assert topics.auto_create("orders", "BenchmarkTest", 4, now_ms=2) is None
    assert topics.auto_create("orders", "nothing", 4, now_ms=2) is None
    assert topics.auto_create("orders", AUTO_CREATE_TOPIC, 0, now_ms=2) is None


def test_automatic_creation_can_be_switched_off_even_when_the_template_was_stored() -> None:
    stored = TopicConfig(topic=AUTO_CREATE_TOPIC, perm=7)
    topics = TopicTable([stored], auto_create_enable=False)
    assert topics.auto_create("orders", AUTO_CREATE_TOPIC, 4, now_ms=2) is None
    assert table(auto_create_topic_enable=False).get(AUTO_CREATE_TOPIC) is None


def test_every_change_makes_a_new_version_and_no_change_keeps_it(topics: TopicTable) -> None:
    before = topics.version
    topics.add_missing([TopicConfig(topic="a")], now_ms=5)
    assert topics.version.counter == before.counter == len(topics.all)

    topics.update(TopicConfig(topic="new"), now_ms=7)
    assert topics.version == before.next(7)
    assert topics.delete("new", now_ms=8)
    assert not topics.delete("new", now_ms=9)
    assert topics.version == before.next(7).next(8)


def test_attributes_are_added_and_removed_by_their_signs(topics: TopicTable) -> None:
    topics.update(TopicConfig(topic="t", attributes={"+queue.type": "SimpleCQ", "+message.type": "FIFO"}), now_ms=2)
    changed = topics.update(TopicConfig(topic="t", attributes={"-message.type": "", "+reserve.time": "2"}), now_ms=3)
    assert changed.attributes == {"queue.type": "SimpleCQ", "reserve.time": "2"}


@each_case(
    TopicConfig(topic="../../etc"),
    TopicConfig(topic="a" * 128),
    TopicConfig(topic="t", read_queue_count=0),
    TopicConfig(topic="t", write_queue_count=1_000_000),
    TopicConfig(topic="t", perm=16),
    TopicConfig(topic="t", topic_filter_type="BOTH"),
)
def test_a_forbidden_topic_is_refused(bad: TopicConfig, topics: TopicTable) -> None:
    before = topics.version
    with pytest.raises(Rejected) as caught:
        topics.update(bad, now_ms=2)
    assert caught.value.code == 29
    assert topics.version == before


def test_a_topic_of_a_master_is_taken_with_its_attributes_as_they_are(topics: TopicTable) -> None:
    config = TopicConfig(topic="typed", attributes={"message.type": "FIFO"})
    for _ in range(2):
        assert topics.copy(config, 0).attributes == {"message.type": "FIFO"}
    with pytest.raises(Rejected):
        topics.copy(TopicConfig(topic="a b"), 0)


def test_a_registration_never_gives_more_permission_than_the_broker_has(topics: TopicTable) -> None:
    topics.update(TopicConfig(topic="t"), now_ms=2)
    assert topics.masked(6)["t"].perm == 6
    assert topics.masked(4)["t"].perm == 4
    assert topics.masked(4)[AUTO_CREATE_TOPIC].perm == 4
    assert topics.get("t").perm == 6


def test_a_retry_topic_is_made_once(topics: TopicTable) -> None:
    first = topics.create_retry_topic("%RETRY%g", 1, now_ms=2)
    assert topics.create_retry_topic("%RETRY%g", 3, now_ms=3) is first


def test_a_topic_name_outside_the_alphabet_answers_29() -> None:
    with pytest.raises(Rejected) as caught:
        check_topic_name("a b")
    assert caught.value.code == 29


@each_case(
    TopicConfig(topic="t", read_queue_count=1, write_queue_count=1),
    TopicConfig(topic="t", read_queue_count=16_384, write_queue_count=16_384),
    TopicConfig(topic="t", perm=0),
    TopicConfig(topic="t", perm=15),
    TopicConfig(topic="t", topic_filter_type="MULTI_TAG"),
)
def test_a_topic_at_the_limits_is_taken(topic: TopicConfig) -> None:
    assert table().update(topic, now_ms=2) == topic


@each_case(
    TopicConfig(topic="t", read_queue_count=16_385),
    TopicConfig(topic="t", write_queue_count=0),
    TopicConfig(topic="t", perm=-1),
)
def test_a_topic_just_beyond_the_limits_is_refused(bad: TopicConfig) -> None:
    with pytest.raises(Rejected) as caught:
        table().update(bad, now_ms=2)
    assert caught.value.code == 29


def test_a_sender_that_asks_for_one_queue_gets_one() -> None:
    made = table().auto_create("orders", AUTO_CREATE_TOPIC, 1, now_ms=2)
    assert made is not None
    assert (made.read_queue_count, made.write_queue_count) == (1, 1)


LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}
A, B = "%LMQ%a", "%LMQ%b"


def naming(*names: str, **more: str) -> str:
    properties = {"INNER_MULTI_DISPATCH": ",".join(names), **more}
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def test_a_light_topic_is_there_without_having_been_made() -> None:
    table = TopicTable([plain_topic("orders", 4)])
    find = with_lmq_topics(table.get)
    assert find("orders") is table.get("orders")
    found = find(A)
    assert found is not None
    assert (found.topic, found.read_queue_count, found.perm) == (A, 1, 4)
    assert (find("other"), find("%LMQ%a/b"), table.get(A)) == (None, None, None)


async def test_a_message_is_pulled_from_each_lmq_that_it_names(serve: Serve) -> None:
    async with serve(**LIGHT) as harness:
        for number, names in enumerate([(A, B), (B,), ()]):
            properties = naming(*names, UNIQ_KEY=f"K{number}") if names else "TAGS\x01t\x02"
            assert (await harness.send(body=b"%d" % number, properties=properties)).code == 0
        for topic, bodies in ((A, [b"0"]), (B, [b"0", b"1"])):
            answer, records = await harness.pull(topic)
            assert [bytes(record.body) for record in records] == bodies
            assert answer.ext_fields["nextBeginOffset"] == str(len(bodies))
        assert (await harness.answer(GetMaxOffset(topic=B, queue_id=0), OffsetResponse)).offset == 2
        assert (await harness.answer(GetMinOffset(topic="%LMQ%none", queue_id=0), OffsetResponse)).offset == 0
        assert (await harness.pull(B, queue_id=1))[0].code == 29
        assert await harness.code(CleanUnusedTopics()) == 0
        assert len((await harness.pull(A))[1]) == 1
    async with serve() as harness:  # without LMQs they are not in use, and stay
        await _cleaned(harness)


async def _cleaned(harness: Any) -> None:
    assert (await harness.pull(A))[0].code == 17
    assert await harness.code(CleanUnusedTopics()) == 0
    assert harness.broker.service.store.max_offset(A, 0) == 1


async def test_a_pull_waits_for_an_lmq_that_has_no_message_yet(serve: Serve) -> None:
    async with serve(**LIGHT) as harness:
        pulls = harness.broker.service.delivery.pulls
        waiting = asyncio.ensure_future(harness.pull(A, sys_flag=6, suspend_timeout_ms=30_000))
        await until(lambda: pulls.held_count == 1)
        assert (await harness.send(properties=naming(B))).code == 0
        assert pulls.held_count == 1
        assert (await harness.send(properties=naming(A))).code == 0
        assert (await waiting)[0].code == 0


async def test_names_are_looked_at_before_a_message_is_taken(serve: Serve) -> None:
    rows = [
        (naming("orders"), 13),
        (naming(A, A), 13),
        (naming(A, TIMER_DELAY_SEC="60").replace(A, "orders"), 13),
        (naming(A, B), 0),
        (naming(A, B, "%LMQ%c"), 1),
    ]
    async with serve(**LIGHT, max_lmq_consume_queue_num=2) as harness:
        store = harness.broker.service.store
        for key, (sent, code) in product(["", "UNIQ_KEY\x01K\x02"], rows):  # the slow path's, and the fast path's
            before = store.max_offset("t", 0)
            for _ in range(3):
                assert (await harness.send(properties=sent + key)).code == code, sent
            assert store.max_offset("t", 0) == before + (0 if code else 3)


@pytest.mark.parametrize("is_on", [False, True])
async def test_numbers_that_a_sender_gives_do_not_count(serve: Serve, is_on: bool) -> None:
    async with serve(enable_lmq=is_on, enable_multi_dispatch=is_on) as harness:
        forged = naming(A, INNER_MULTI_QUEUE_OFFSET="7")
        assert (await harness.send(properties=forged)).code == 0
        (record,) = (await harness.pull())[1]
        numbers = find_property(record.properties, b"INNER_MULTI_QUEUE_OFFSET")
        assert numbers == (b"0" if is_on else None)


async def test_an_lmq_is_emptied_by_the_deletion_of_its_topic(serve: Serve) -> None:
    async with serve(**LIGHT) as harness:
        for _ in range(2):
            assert (await harness.send(properties=naming(A, B))).code == 0
        assert await harness.code(DeleteTopicInBroker(topic=A)) == 0
        assert (await harness.pull(A))[0].code == 19
        assert (await harness.send(body=b"new", properties=naming(A, B))).code == 0
        assert [bytes(record.body) for record in (await harness.pull(A))[1]] == [b"new"]
        assert len((await harness.pull(B))[1]) == 3


async def test_an_lmq_topic_takes_no_sends(serve: Serve) -> None:
    async with serve(**LIGHT) as harness:
        assert (await harness.send(A)).code == 16


async def test_offsets_of_lmqs_and_of_light_groups_are_kept(serve: Serve) -> None:
    groups = ("g", "%LMQ%g")

    async with serve(**LIGHT) as harness:
        await harness.make_group()
        assert (await harness.send(properties=naming(A))).code == 0
        for group in groups:
            for topic in (A, "%LMQ%none"):
                header = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
                assert await harness.code(header) == 0
        assert not [key for key in harness.broker.service.tables.offsets.all if "none" in key]
    async with serve(**LIGHT) as harness:
        for group in groups:
            answer = await harness.ask(QueryConsumerOffset(consumer_group=group, topic=A, queue_id=0))
            assert decode_header(OffsetResponse, answer.ext_fields).offset == 1


@pytest.mark.parametrize(("setting", "code"), [("enable_lmq", 19), ("enable_multi_dispatch", 17)])
async def test_only_one_of_both_settings_puts_nothing_into_lmqs(serve: Serve, setting: str, code: int) -> None:
    async with serve(**{setting: True}) as harness:
        assert (await harness.send(properties=naming(A))).code == 0
        assert harness.broker.service.store.topics() == ["t"]
        assert (await harness.pull(A))[0].code == code
