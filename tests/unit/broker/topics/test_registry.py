"""The registry of topics, and messages whose topic is missing."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.broker.topics.registry import dead_letter_topic, retry_topic
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig

from ..parts import Registries

KEPT_AND_TOLD = ["topics saved", "announced"]


def test_a_change_is_kept_before_it_is_told_and_told_before_the_request_is_answered() -> None:
    harness, answered = Registries(), []
    harness.topics.update(TopicConfig(topic="orders"), 1, lambda: answered.append("orders"))
    assert harness.log == KEPT_AND_TOLD
    assert answered == []
    harness.waiting[0]()
    assert answered == ["orders"]


def test_a_refused_change_is_neither_kept_nor_told() -> None:
    harness = Registries()
    with pytest.raises(Rejected):
        harness.topics.update(TopicConfig(topic="a b"), 1)
    assert harness.topics.auto_create("orders", "none", 4, 1) is None
    assert harness.log == []


def test_a_topic_that_is_sent_to_is_kept_and_told() -> None:
    harness = Registries(TopicTable([TopicConfig(topic=AUTO_CREATE_TOPIC, perm=7)]))
    made = harness.topics.auto_create("orders", AUTO_CREATE_TOPIC, 4, 1)
    assert harness.topics.get("orders") is made is not None
    assert harness.log == KEPT_AND_TOLD


def test_a_groups_topic_is_kept_and_told_when_it_is_new_and_never_again() -> None:
    harness = Registries()
    made = harness.topics.create_retry_topic("%RETRY%g", 3, 1)
    assert made is not None
    assert (made.read_queue_count, made.write_queue_count) == (3, 3)
    assert harness.topics.create_retry_topic("%RETRY%g", 1, 2) is made
    assert harness.log == KEPT_AND_TOLD


def test_one_topic_too_many_is_not_made() -> None:
    harness = Registries(TopicTable([TopicConfig(topic=AUTO_CREATE_TOPIC, perm=7)], count_max=1))
    assert harness.topics.create_retry_topic("%RETRY%g", 1, 1) is None
    assert harness.topics.auto_create("orders", AUTO_CREATE_TOPIC, 4, 1) is None
    assert harness.topics.restore("orders", 4, 1) is None
    with pytest.raises(Rejected, match="topicsMax") as caught:
        harness.topics.update(TopicConfig(topic="orders"), 1)
    assert (caught.value.code, harness.topics.table.refused_count) == (1, 4)
    assert harness.log == []
    harness.topics.update(TopicConfig(topic=AUTO_CREATE_TOPIC, perm=6), 1)


WIDE = TopicConfig(topic="orders", read_queue_count=5, write_queue_count=2)


@each_case(0, 2, 4)
def test_a_queue_is_there_when_it_can_be_read_or_written(queue_id: int) -> None:
    Registries(TopicTable([WIDE])).topics.check_queue("orders", queue_id)


@each_case(-1, 5)
def test_a_queue_beyond_those_is_refused_with_1(queue_id: int) -> None:
    with pytest.raises(Rejected) as caught:
        Registries(TopicTable([WIDE])).topics.check_queue("orders", queue_id)
    assert caught.value.code == 1


def test_a_queue_of_no_topic_answers_17() -> None:
    with pytest.raises(Rejected) as caught:
        Registries().topics.check_queue("none", 0)
    assert caught.value.code == 17


def test_topics_of_groups_are_named_after_them() -> None:
    assert (retry_topic("g"), dead_letter_topic("g")) == ("%RETRY%g", "%DLQ%g")


FULL = OSError(28, "No space left on device", "/store/config/topics.json.tmp")


def test_a_topic_that_a_full_disk_refuses_is_not_there_and_is_not_announced() -> None:
    harness = Registries(TopicTable([TopicConfig(topic=AUTO_CREATE_TOPIC, perm=7)]))
    version = harness.topics.table.version
    harness.disk_error = FULL
    for make in (
        lambda: harness.topics.auto_create("orders", AUTO_CREATE_TOPIC, 4, 1),
        lambda: harness.topics.create_retry_topic("%RETRY%g", 1, 1),
        lambda: harness.topics.update(TopicConfig(topic="orders"), 1),
    ):
        with pytest.raises(Rejected) as caught:
            make()
        assert (caught.value.code, caught.value.remark) == (
            14, "the topic table cannot be saved: No space left on device",
        )  # fmt: skip
    assert list(harness.topics.table.all) == [AUTO_CREATE_TOPIC]
    assert harness.topics.table.version is version
    assert harness.log == []
    harness.disk_error = None
    assert harness.topics.auto_create("orders", AUTO_CREATE_TOPIC, 4, 1) is not None
    assert harness.log == KEPT_AND_TOLD


def test_a_topic_whose_change_or_deletion_a_full_disk_refuses_stays_as_it_was() -> None:
    harness = Registries()
    harness.topics.update(WIDE, 1)
    harness.topics.update(TopicConfig(topic="later"), 1)
    harness.disk_error = FULL
    with pytest.raises(Rejected):
        harness.topics.update(TopicConfig(topic="orders", read_queue_count=9), 2)
    with pytest.raises(Rejected):
        harness.topics.delete("orders", 2, lambda: pytest.fail("the topic is still there"))
    assert harness.topics.get("orders") == WIDE
    assert set(harness.topics.table.all) == {"orders", "later"}
    harness.disk_error = None
    harness.topics.delete("orders", 3, lambda: None)
    assert harness.topics.get("orders") is None


def test_what_belongs_to_a_topic_is_removed_after_the_file_is_written_and_before_it_is_announced() -> None:
    harness = Registries()
    harness.topics.update(TopicConfig(topic="orders"), 1)
    del harness.log[:]
    for now_ms in (2, 3):
        harness.topics.delete("orders", now_ms, lambda: harness.log.append("removed"))
        assert harness.log == ["topics saved", "removed", "announced"] * (now_ms - 1)


def test_a_deletion_that_fails_is_not_announced() -> None:
    harness = Registries()
    harness.topics.update(TopicConfig(topic="orders"), 1)
    del harness.log[:]

    def fail() -> None:
        raise StoreUnavailable("the disk is full")

    with pytest.raises(StoreUnavailable):
        harness.topics.delete("orders", 2, fail, lambda: pytest.fail("answered"))
    assert harness.log == ["topics saved"]


def test_a_message_goes_where_it_says() -> None:
    registries = Registries(TopicTable([TopicConfig(topic="t")]))
    missing = MissingTopics(registries.topics)
    assert missing.destination({"REAL_TOPIC": "t", "REAL_QID": "3"}, 1) == ("t", 3)
    assert registries.log == []


@each_case(
    {},
    {"REAL_TOPIC": "t"},
    {"REAL_TOPIC": "t", "REAL_QID": "-1"},
    {"REAL_TOPIC": "t", "REAL_QID": "1" * 10},
    {"REAL_TOPIC": "", "REAL_QID": "1"},
    {"REAL_TOPIC": "../t", "REAL_QID": "1"},
    {"REAL_TOPIC": "t" * 256, "REAL_QID": "1"},
)
def test_a_message_that_says_no_topic_and_queue_goes_nowhere(properties: dict[str, str]) -> None:
    assert MissingTopics(Registries().topics).destination(properties, 1) is None


def test_a_topic_that_is_gone_is_made_again_with_enough_queues() -> None:
    registries = Registries(TopicTable([TopicConfig(topic=AUTO_CREATE_TOPIC, write_queue_count=2)]))
    missing = MissingTopics(registries.topics)
    assert missing.destination({"REAL_TOPIC": "gone", "REAL_QID": "4"}, 1) == ("gone", 4)
    made = registries.topics.get("gone")
    assert made is not None
    assert made.read_queue_count == 5


def test_where_no_topic_may_be_made_messages_wait_in_its_queues_and_that_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    missing = MissingTopics(Registries().topics)
    for _ in range(2):
        assert missing.destination({"REAL_TOPIC": "gone", "REAL_QID": "4"}, 1) == ("gone", 4)
    assert caplog.text.count("the topic gone is missing") == 1


def test_a_disk_that_refuses_the_topic_table_refuses_the_message() -> None:
    registries = Registries(TopicTable([TopicConfig(topic=AUTO_CREATE_TOPIC)]))
    registries.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected):
        MissingTopics(registries.topics).destination({"REAL_TOPIC": "gone", "REAL_QID": "4"}, 1)
