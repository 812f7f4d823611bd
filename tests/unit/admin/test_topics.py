"""A change of a topic's settings."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.admin import TopicChange
from orbitmq.admin.topics import (
    attribute_changes,
    change_configs,
    create_header,
    find_configs,
    format_attribute_changes,
    parse_attribute_change,
)
from orbitmq.errors import InvalidArgument, RemoteRefused, RouteNotFound
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.wire.bodies.topics import encode_topic_config
from orbitmq.wire.command import Command
from orbitmq.wire.headers import CreateTopic, GetTopicConfig

ORDERS = TopicConfig(topic="orders", read_queue_count=4, write_queue_count=3, order=True, attributes={"a": "b"})


def test_what_is_not_named_stays_as_it_is() -> None:
    wanted = TopicChange(perm=4, attributes={"-a": ""}).applied_to(ORDERS)
    assert (wanted.read_queue_count, wanted.write_queue_count, wanted.perm, wanted.order) == (4, 3, 4, True)
    assert wanted.attributes == {"-a": ""}


def test_what_is_named_counts_also_where_it_is_nothing() -> None:
    wanted = TopicChange(read_queue_count=8, write_queue_count=9, perm=0, order=False).applied_to(ORDERS)
    assert (wanted.read_queue_count, wanted.write_queue_count, wanted.perm, wanted.order) == (8, 9, 0, False)
    assert wanted.attributes == {}


def test_changes_of_attributes_are_written_as_java_reads_them() -> None:
    assert (
        format_attribute_changes({"+message.type": "FIFO", "-reserve.time": ""}) == "+message.type=FIFO,-reserve.time"
    )
    assert format_attribute_changes({}) is None


@each_case(("+message.type=FIFO", ("+message.type", "FIFO")), ("-message.type", ("-message.type", "")))
def test_a_change_of_an_attribute_is_read(text: str, change: tuple[str, str]) -> None:
    assert parse_attribute_change(text) == change


@each_case("", "+", "-", "a=b", "a", "+a", "+a=", "-a=b", "-a=", "+=b", "+a=b,+c=d")
def test_what_is_no_change_of_an_attribute_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="attribute"):
        parse_attribute_change(text)


@each_case("message.type", "+", "")
def test_an_attribute_needs_a_sign(name: str) -> None:
    with pytest.raises(InvalidArgument, match="attributes"):
        TopicChange(attributes={name: "FIFO"})


MASTERS = {"b": "b:1", "a": "a:1"}


class Brokers:
    """Brokers, some of which have the topic `orders`; they refuse what they are told to."""

    def __init__(self, *holders: str, refusals: dict[str, int] | None = None) -> None:
        self.perms = dict.fromkeys(holders, 6)
        self.refusals = refusals or {}

    async def request(self, address: str, header: object) -> Command:
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
    assert [*run(find_configs(Brokers("b:1").request, MASTERS, "orders"))] == ["b"]
    with pytest.raises(RouteNotFound, match="orders is on none of the brokers a, b"):
        run(find_configs(Brokers().request, MASTERS, "orders"))


def test_another_refusal_is_the_callers() -> None:
    with pytest.raises(RemoteRefused, match="code 16"):
        run(find_configs(Brokers("a:1", refusals={"b:1": 16}).request, MASTERS, "orders"))


def test_a_change_goes_to_those_that_have_the_topic_and_what_they_say_then_is_returned() -> None:
    brokers = Brokers("a:1")
    changed = run(change_configs(brokers.request, MASTERS, "orders", TopicChange(perm=4)))
    assert {name: config.perm for name, config in changed.items()} == {"a": 4}
    assert brokers.perms == {"a:1": 4}


def test_a_request_carries_every_setting() -> None:
    config = TopicConfig(topic="t", read_queue_count=1, write_queue_count=2, perm=4, order=True, attributes={"-a": ""})
    header = create_header(config)
    assert (header.topic, header.read_queue_nums, header.write_queue_nums) == ("t", 1, 2)
    assert (header.perm, header.order, header.attributes) == (4, True, "-a")


def test_attributes_that_differ_are_changed_with_a_sign():
    wanted, present = {"message.type": "FIFO", "same": "1"}, {"same": "1", "gone": "2"}
    assert attribute_changes(wanted, {}) == {"+message.type": "FIFO", "+same": "1"}
    assert attribute_changes(wanted, present) == {"+message.type": "FIFO", "-gone": ""}
