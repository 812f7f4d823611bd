"""Messages by key and id, over all brokers of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from orbitmq.admin.messages import find_by_id, find_by_key
from orbitmq.errors import RemoteRefused, RouteNotFound
from orbitmq.model.message import Host
from orbitmq.model.route import BrokerData, TopicRoute
from orbitmq.wire.command import Command
from orbitmq.wire.headers import QueryMessage, ViewMessage
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.record import format_record

T = TypeVar("T")
A, B = "127.0.0.1:1001", "127.0.0.1:1002"
ROUTE = TopicRoute(
    brokers=(
        BrokerData(cluster="c", broker_name="a", addresses={0: A, 1: "127.0.0.1:9"}),
        BrokerData(cluster="c", broker_name="b", addresses={1: B}),
        BrokerData(cluster="c", broker_name="gone", addresses={}),
    ),
    queues=(),
)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def record(keys: str, stored_at_ms: int, topic: str = "orders", unique: str = "") -> bytes:
    properties = f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique or stored_at_ms}\x02".encode()
    return format_record(topic=topic, body=b"%d" % stored_at_ms, properties=properties, stored_at_ms=stored_at_ms)


class Brokers:
    """Answers of brokers by their address; an int is a refusal's code."""

    def __init__(self, **answers: bytes | int) -> None:
        self.answers = {A: answers.get("a", 22), B: answers.get("b", 22)}
        self.by_offset: Callable[[int], bytes | int] = lambda offset: 1
        self.asked: list[tuple[str, object]] = []

    async def tell(self, address: str, header: object) -> Command:
        self.asked.append((address, header))
        found = self.by_offset(header.physical_offset) if isinstance(header, ViewMessage) else self.answers[address]
        if isinstance(found, int):
            raise RemoteRefused(found, "no", address)
        return Command(0, 1, body=found)


def stored(messages: list[Any]) -> list[int]:
    return [message.stored_at_ms for message in messages]


def test_every_broker_is_asked_and_the_oldest_message_comes_first() -> None:
    brokers = Brokers(a=record("k", 5) + record("x k", 9), b=record("k", 7))
    found = run(find_by_key(ROUTE, brokers.tell, "orders", "k", count_max=10, begin_ms=1, end_ms=20))
    assert stored(found) == [5, 7, 9]
    assert [message.broker_name for message in found] == ["a", "b", "a"]
    header = QueryMessage(topic="orders", key="k", count_max=10, begin_ms=1, end_ms=20, is_unique_key=False)
    assert brokers.asked == [(A, header), (B, header)]


def test_the_newest_of_all_brokers_are_given() -> None:
    brokers = Brokers(a=record("k", 5) + record("k", 9), b=record("k", 7))
    assert stored(run(find_by_key(ROUTE, brokers.tell, "orders", "k", count_max=2))) == [7, 9]
    assert run(find_by_key(ROUTE, brokers.tell, "orders", "k", count_max=0)) == []


def test_messages_of_another_key_with_the_same_hash_are_left_out() -> None:
    brokers = Brokers(a=record("other", 5) + record("k", 6, topic="bills") + record("", 7, unique="k"))
    assert stored(run(find_by_key(ROUTE, brokers.tell, "orders", "k"))) == [7]
    assert run(find_by_key(ROUTE, brokers.tell, "orders", "other", is_unique=True)) == []


def test_brokers_without_a_find_are_no_error_and_others_are() -> None:
    assert run(find_by_key(ROUTE, Brokers().tell, "orders", "k")) == []
    with pytest.raises(RemoteRefused):
        run(find_by_key(ROUTE, Brokers(b=2).tell, "orders", "k"))
    with pytest.raises(RouteNotFound):
        run(find_by_key(TopicRoute(brokers=(), queues=()), Brokers().tell, "orders", "k"))


def test_an_id_of_a_client_is_found_by_key() -> None:
    brokers = Brokers(b=record("", 7, unique="0A0B"))
    found = run(find_by_id(ROUTE, brokers.tell, "orders", "0A0B"))
    assert found is not None
    assert (found.stored_at_ms, found.broker_name) == (7, "b")
    assert run(find_by_id(ROUTE, Brokers().tell, "orders", "0A0B")) is None


def test_an_id_of_a_broker_is_looked_up_there_and_nowhere_else() -> None:
    brokers = Brokers()
    brokers.by_offset = lambda offset: record("", 7) if offset == 500 else 1
    found = run(find_by_id(ROUTE, brokers.tell, "orders", offset_message_id(Host("127.0.0.1", 1001), 500)))
    assert found is not None
    assert (found.stored_at_ms, found.broker_name) == (7, "a")
    assert run(find_by_id(ROUTE, brokers.tell, "orders", offset_message_id(Host("127.0.0.1", 1001), 501))) is None
    assert run(find_by_id(ROUTE, brokers.tell, "bills", offset_message_id(Host("127.0.0.1", 1001), 500))) is None
    stranger = offset_message_id(Host("10.0.0.1", 1001), 500)
    assert run(find_by_id(ROUTE, brokers.tell, "orders", stranger)) is None
    assert {address for address, _ in brokers.asked} == {A, B}
