"""The settings of a topic on every broker that has it."""

from __future__ import annotations

import pytest

from orbitmq.admin import TopicChange
from orbitmq.admin.topics.configs import change_configs, create_header, find_configs
from orbitmq.errors import RemoteRefused, RouteNotFound
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.wire.bodies.topics import encode_topic_config
from orbitmq.wire.command import Command
from orbitmq.wire.headers import CreateTopic, GetTopicConfig

MASTERS = {"b": "b:1", "a": "a:1"}


class Brokers:
    """Brokers, some of which have the topic `orders`; they refuse what they are told to."""

    def __init__(self, *holders: str, refusals: dict[str, int] | None = None) -> None:
        self.perms = dict.fromkeys(holders, 6)
        self.refusals = refusals or {}

    async def tell(self, address: str, header: object) -> Command:
        if address in self.refusals:
            raise RemoteRefused(self.refusals[address], "no", address)
        if isinstance(header, CreateTopic):
            self.perms[address] = header.perm
            return Command(code=0)
        assert isinstance(header, GetTopicConfig)
        if address not in self.perms:
            raise RemoteRefused(17, "no such topic", address)
        return Command(code=0, body=encode_topic_config(TopicConfig(topic="orders", perm=self.perms[address])))


def test_brokers_without_the_topic_are_left_out() -> None:
    assert [*run(find_configs(Brokers("b:1").tell, MASTERS, "orders"))] == ["b"]
    with pytest.raises(RouteNotFound, match="orders is on none of the brokers a, b"):
        run(find_configs(Brokers().tell, MASTERS, "orders"))


def test_another_refusal_is_the_callers() -> None:
    with pytest.raises(RemoteRefused, match="code 16"):
        run(find_configs(Brokers("a:1", refusals={"b:1": 16}).tell, MASTERS, "orders"))


def test_a_change_goes_to_those_that_have_the_topic_and_what_they_say_then_is_returned() -> None:
    brokers = Brokers("a:1")
    changed = run(change_configs(brokers.tell, MASTERS, "orders", TopicChange(perm=4)))
    assert {name: config.perm for name, config in changed.items()} == {"a": 4}
    assert brokers.perms == {"a:1": 4}


def test_a_request_carries_every_setting() -> None:
    config = TopicConfig(topic="t", read_queue_count=1, write_queue_count=2, perm=4, order=True, attributes={"-a": ""})
    header = create_header(config)
    assert (header.topic, header.read_queue_nums, header.write_queue_nums) == ("t", 1, 2)
    assert (header.perm, header.order, header.attributes) == (4, True, "-a")
