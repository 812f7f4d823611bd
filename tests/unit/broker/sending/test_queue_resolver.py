from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.sending.queue_resolver import QueueResolver
from orbitmq.broker.topics.system_topics import CLOSED_TO_CLIENTS
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import Rejected
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig
from unit.broker.conftest import send_header
from unit.broker.parts import Registries

TEMPLATE = TopicConfig(topic=AUTO_CREATE_TOPIC, perm=7, read_queue_count=8, write_queue_count=8)


class Harness(Registries):
    def __init__(self, *topics: TopicConfig, is_writable: bool = True, **settings: Any) -> None:
        super().__init__(TopicTable([TEMPLATE, *topics]), **settings)
        self.ordered: set[str] = set()
        self.queue_resolver = QueueResolver(
            self.topics,
            self.groups,
            ip="10.0.0.1",
            is_writable=is_writable,
            random=Random(7),
            is_ordered=self.ordered.__contains__,
        )

    def resolve(self, topic: str, **fields: Any) -> TopicConfig:
        return self.queue_resolver.resolve(send_header(topic, **fields), 1)

    def code(self, topic: str, **fields: Any) -> int:
        with pytest.raises(Rejected) as caught:
            self.resolve(topic, **fields)
        return caught.value.code


@each_case((6, True), (2, True), (7, True), (4, False), (1, False), (0, False))
def test_a_topic_is_open_to_sends_when_it_may_be_written(perm: int, is_open: bool) -> None:
    config = TopicConfig(topic="orders", perm=perm)
    assert Harness(config).queue_resolver.open_topic("orders") == (config if is_open else None)


def test_no_topic_is_open_on_a_broker_that_may_not_be_written() -> None:
    harness = Harness(TopicConfig(topic="orders"), is_writable=False)
    assert harness.queue_resolver.open_topic("orders") is None
    assert harness.code("orders") == 16


@each_case(*sorted(CLOSED_TO_CLIENTS))
def test_topics_that_the_broker_writes_itself_are_closed(topic: str) -> None:
    harness = Harness(TopicConfig(topic=topic))
    assert harness.queue_resolver.open_topic(topic) is None
    assert harness.code(topic) == 16


def test_a_topic_that_is_not_there_is_made_like_its_template() -> None:
    harness = Harness()
    assert harness.queue_resolver.open_topic("orders") is None
    made = harness.resolve("orders", default_topic_queue_nums=4)
    assert (made.write_queue_count, made.perm) == (4, 6)
    assert harness.resolve("orders") is made
    assert harness.code("others", default_topic="none") == 17
    assert harness.code("a b") == 29


def test_a_topic_that_is_one_too_many_is_told_so() -> None:
    harness = Harness()
    with pytest.raises(Rejected, match="autoCreateTopicEnable"):
        harness.resolve("orders", default_topic="none")
    harness.topics.table.count_max = 1
    with pytest.raises(
        Rejected, match=r"topic\[orders\] not exist, .*there are 1 topics, topicsMax allows no more"
    ) as caught:
        harness.resolve("orders")
    assert caught.value.code == 17


def test_a_topic_that_may_not_be_written_is_refused() -> None:
    assert Harness(TopicConfig(topic="orders", perm=4)).code("orders") == 16


def test_topics_of_groups_are_made_with_one_queue() -> None:
    for topic in ("%RETRY%g", "%DLQ%g"):
        assert Harness().resolve(topic, default_topic="none").write_queue_count == 1


def test_a_retry_always_gets_a_second_look() -> None:
    harness = Harness(TopicConfig(topic="%RETRY%g"))
    assert harness.queue_resolver.open_topic("%RETRY%g") is None
    assert harness.resolve("%RETRY%g").topic == "%RETRY%g"


@each_case((0, None, "%RETRY%g"), (3, None, "%RETRY%g"), (4, None, "%DLQ%g"), (2, 1, "%DLQ%g"), (4, 5, "%RETRY%g"))
def test_a_retry_over_the_limit_goes_to_the_dead_letters(times: int, times_max: int | None, topic: str) -> None:
    harness = Harness(TopicConfig(topic="%RETRY%g"))
    harness.groups.update(GroupConfig(group="g", retry_times_max=3), 1)
    found = harness.resolve("%RETRY%g", reconsume_times=times, max_reconsume_times=times_max)
    assert found.topic == topic


def test_what_a_group_that_keeps_order_sends_back_goes_to_the_dead_letters() -> None:
    harness = Harness(TopicConfig(topic="%RETRY%g"), TopicConfig(topic="%RETRY%h"))
    harness.ordered.add("g")
    assert harness.resolve("%RETRY%g", reconsume_times=1).topic == "%DLQ%g"
    assert harness.resolve("%RETRY%g").topic == "%DLQ%g"
    assert harness.code("%RETRY%g", queue_id=99) == 29
    assert harness.resolve("%RETRY%h", reconsume_times=1).topic == "%RETRY%h"


def test_the_dead_letters_are_announced_when_they_are_new_and_not_with_every_message() -> None:
    harness = Harness(TopicConfig(topic="%RETRY%g"))
    for _ in range(3):
        harness.resolve("%RETRY%g", reconsume_times=99)
    assert harness.log.count("announced") == 1


def test_a_retry_of_an_unknown_group_is_refused() -> None:
    harness = Harness(TopicConfig(topic="%RETRY%g"), auto_create_groups=False)
    assert harness.code("%RETRY%g", reconsume_times=1) == 26


def test_dead_letters_over_the_limit_of_topics_are_refused() -> None:
    harness = Harness(TopicConfig(topic="%RETRY%g"))
    harness.topics.table.count_max = 2
    assert harness.code("%RETRY%g", reconsume_times=99) == 1


@each_case(
    (0, (4, 4), True), (3, (4, 4), True), (4, (4, 4), False), (4, (5, 4), True), (4, (4, 5), True), (5, (4, 5), False)
)
def test_a_queue_is_taken_from_the_client_when_it_is_there(
    queue_id: int, counts: tuple[int, int], allowed: bool
) -> None:
    config = TopicConfig(topic="t", read_queue_count=counts[0], write_queue_count=counts[1])
    queue_resolver = Harness(config).queue_resolver
    if allowed:
        assert queue_resolver.choose_queue(config, send_header("t", queue_id=queue_id)) == queue_id
    else:
        with pytest.raises(Rejected) as caught:
            queue_resolver.choose_queue(config, send_header("t", queue_id=queue_id))
        assert caught.value.code == 29


def test_below_zero_the_broker_chooses_among_the_queues_to_write() -> None:
    config = TopicConfig(topic="t", read_queue_count=8, write_queue_count=3)
    queue_resolver = Harness(config).queue_resolver
    chosen = {queue_resolver.choose_queue(config, send_header("t", queue_id=-1)) for _ in range(100)}
    assert chosen == {0, 1, 2}


def test_dead_letters_go_to_their_only_queue() -> None:
    config = TopicConfig(topic="%DLQ%g", read_queue_count=1, write_queue_count=1)
    assert Harness(config).queue_resolver.choose_queue(config, send_header("%RETRY%g", queue_id=7)) == 0
