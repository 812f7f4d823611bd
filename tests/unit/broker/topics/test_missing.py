from __future__ import annotations

import pytest

from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import Rejected
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig

from ..parts import Registries


def test_a_message_goes_where_it_says() -> None:
    registries = Registries(TopicTable([TopicConfig(topic="t")]))
    missing = MissingTopics(registries.topics)
    assert missing.destination({"REAL_TOPIC": "t", "REAL_QID": "3"}, 1) == ("t", 3)
    assert registries.log == []


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "t"},
        {"REAL_TOPIC": "t", "REAL_QID": "-1"},
        {"REAL_TOPIC": "t", "REAL_QID": "1" * 10},
        {"REAL_TOPIC": "", "REAL_QID": "1"},
        {"REAL_TOPIC": "../t", "REAL_QID": "1"},
        {"REAL_TOPIC": "t" * 256, "REAL_QID": "1"},
    ],
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
