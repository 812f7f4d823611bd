"""Brokers as administrators see them: what they have counted of topics and groups, and settings by what can be done with them."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.admin.broker_settings import MAY_CHANGE, WITHOUT_EFFECT, Setting, list_settings
from orbitmq.admin.stats import find_traffic
from orbitmq.broker.settings.changes import CHANGEABLE_MARK, MARK
from orbitmq.errors import RemoteRefused
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.loop import run
from orbitmq.wire.bodies.groups import encode_group_list
from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem, encode_stats
from orbitmq.wire.bodies.topics import TopicTable, encode_topic_table
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetAllTopicConfig, QueryTopicConsumers, ViewBrokerStats


def stats(count: int) -> BrokerStatsData:
    return BrokerStatsData(*(BrokerStatsItem(count, 1.0, 1.0),) * 3)


class Broker:
    """Has two topics, of which one was sent to and read by a group."""

    counted = {("TOPIC_PUT_NUMS", "orders"): 5, ("GROUP_GET_NUMS", "orders@billing"): 3}

    def __init__(self, refusal: int = 1) -> None:
        self.refusal = refusal
        self.asked: list[object] = []

    async def request(self, address: str, header: object) -> Command:
        self.asked.append(header)
        if isinstance(header, GetAllTopicConfig):
            topics = {name: TopicConfig(topic=name) for name in ("orders", "bills")}
            return Command(code=0, body=encode_topic_table(TopicTable(DataVersion(), topics)))
        if isinstance(header, QueryTopicConsumers):
            return Command(code=0, body=encode_group_list(["idle", "billing"]))
        assert isinstance(header, ViewBrokerStats)
        count = self.counted.get((header.stats_name, header.stats_key))
        if count is None:
            raise RemoteRefused(self.refusal, "not exist", address)
        return Command(code=0, body=encode_stats(stats(count)))


def test_what_was_sent_and_what_each_group_got_is_found() -> None:
    found = run(find_traffic(Broker().request, {"a": "a:1"}))
    assert found == [("a", "orders", None, stats(5)), ("a", "orders", "billing", stats(3))]


def test_one_topic_is_asked_for_without_the_list_of_all() -> None:
    broker = Broker()
    assert len(run(find_traffic(broker.request, {"a": "a:1", "b": "b:1"}, "orders"))) == 4
    assert GetAllTopicConfig() not in broker.asked


def test_one_group_is_asked_for_without_what_was_sent() -> None:
    broker = Broker()
    assert run(find_traffic(broker.request, {"a": "a:1"}, group="billing")) == [("a", "orders", "billing", stats(3))]
    assert not any(isinstance(header, QueryTopicConsumers) for header in broker.asked)


def test_a_broker_that_forbids_to_ask_is_no_broker_without_traffic() -> None:
    with pytest.raises(RemoteRefused, match="code 16"):
        run(find_traffic(Broker(refusal=16).request, {"a": "a:1"}))


def test_a_broker_of_many_topics_is_asked_by_few_tasks() -> None:
    names = [f"t{number:04}" for number in range(2_000)]

    class Large(Broker):
        tasks_max = 0

        async def request(self, address: str, header: object) -> Command:
            if isinstance(header, GetAllTopicConfig):
                topics = {name: TopicConfig(topic=name) for name in names}
                return Command(code=0, body=encode_topic_table(TopicTable(DataVersion(), topics)))
            self.tasks_max = max(self.tasks_max, len(asyncio.all_tasks()))
            await asyncio.sleep(0)
            if isinstance(header, QueryTopicConsumers):
                return Command(code=0, body=encode_group_list([]))
            return Command(code=0, body=encode_stats(stats(1)))

    broker = Large()
    found = run(find_traffic(broker.request, {"a": "a:1"}))
    assert [traffic.topic for traffic in found] == names
    assert broker.tasks_max < 50


def test_the_marks_are_those_that_our_broker_shows() -> None:
    assert (WITHOUT_EFFECT, MAY_CHANGE) == (MARK, CHANGEABLE_MARK)


def test_settings_are_marked_and_sorted() -> None:
    shown = {
        "traceOn": "true",
        "slaveTimeout": "3",
        "listenPort": "1",
        MARK: "slaveTimeout,x",
        CHANGEABLE_MARK: "traceOn",
    }
    assert list_settings(shown) == [
        Setting("listenPort", "1", has_effect=True, may_change=False),
        Setting("slaveTimeout", "3", has_effect=False, may_change=False),
        Setting("traceOn", "true", has_effect=True, may_change=True),
    ]


def test_what_a_broker_does_not_say_is_not_known() -> None:
    assert list_settings({"traceOn": "true"}) == [Setting("traceOn", "true", has_effect=None, may_change=None)]
