from __future__ import annotations

import pytest

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.topics.system_topics import system_topics
from orbitmq.broker.topics.table import TopicTable, check_topic_name
from orbitmq.errors import Rejected
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig


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


@pytest.mark.parametrize(
    "bad",
    [
        TopicConfig(topic="../../etc"),
        TopicConfig(topic="a" * 128),
        TopicConfig(topic="t", read_queue_count=0),
        TopicConfig(topic="t", write_queue_count=1_000_000),
        TopicConfig(topic="t", perm=16),
        TopicConfig(topic="t", topic_filter_type="BOTH"),
    ],
)
def test_a_topic_that_nobody_may_have_is_refused(bad: TopicConfig, topics: TopicTable) -> None:
    before = topics.version
    with pytest.raises(Rejected) as caught:
        topics.update(bad, now_ms=2)
    assert caught.value.code == 29
    assert topics.version == before


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


@pytest.mark.parametrize(
    "topic",
    [
        TopicConfig(topic="t", read_queue_count=1, write_queue_count=1),
        TopicConfig(topic="t", read_queue_count=16_384, write_queue_count=16_384),
        TopicConfig(topic="t", perm=0),
        TopicConfig(topic="t", perm=15),
        TopicConfig(topic="t", topic_filter_type="MULTI_TAG"),
    ],
)
def test_a_topic_at_the_limits_is_taken(topic: TopicConfig) -> None:
    assert table().update(topic, now_ms=2) == topic


@pytest.mark.parametrize(
    "bad",
    [
        TopicConfig(topic="t", read_queue_count=16_385),
        TopicConfig(topic="t", write_queue_count=0),
        TopicConfig(topic="t", perm=-1),
    ],
)
def test_a_topic_just_beyond_the_limits_is_refused(bad: TopicConfig) -> None:
    with pytest.raises(Rejected) as caught:
        table().update(bad, now_ms=2)
    assert caught.value.code == 29


def test_a_sender_that_asks_for_one_queue_gets_one() -> None:
    made = table().auto_create("orders", AUTO_CREATE_TOPIC, 1, now_ms=2)
    assert made is not None
    assert (made.read_queue_count, made.write_queue_count) == (1, 1)
