"""Messages by key and id, over all brokers of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from cases import each_case
from orbitmq.admin.messages import FoundMessages, find_by_id, find_by_key, find_lost
from orbitmq.errors import ClientError, RemoteRefused, RequestTimeout, RouteNotFound
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


def record(keys: str, stored_at_ms: int, topic: str = "orders", unique: str = "", *, physical_offset: int = 0) -> bytes:
    properties = f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique or stored_at_ms}\x02".encode()
    return format_record(
        topic=topic,
        body=b"%d" % stored_at_ms,
        properties=properties,
        stored_at_ms=stored_at_ms,
        physical_offset=physical_offset,
    )


class Brokers:
    """Brokers by their address, with the store times and records that they have; an error is what they answer instead."""

    def __init__(self, a: Any = (), b: Any = (), limit: int = 64) -> None:
        self.answers = {A: a, B: b}
        self.limit = limit
        self.by_offset: Callable[[int], bytes | int] = lambda offset: 1
        self.asked: list[tuple[str, object]] = []

    async def request(self, address: str, header: object) -> Command:
        self.asked.append((address, header))
        found = self.answers[address]
        if isinstance(found, Exception):
            raise found
        if isinstance(header, ViewMessage):
            body = self.by_offset(header.physical_offset)
        else:
            assert isinstance(header, QueryMessage)
            kept = [
                record(keys, at_ms, physical_offset=index, **more)
                for index, (keys, at_ms, more) in enumerate(found)
                if header.begin_ms <= at_ms <= header.end_ms
            ]
            body = b"".join(kept[-min(header.count_max, self.limit) :]) or 22
        if isinstance(body, int):
            raise RemoteRefused(body, "no", address)
        return Command(0, 1, body=body)


def one(keys: str, stored_at_ms: int, **more: str) -> tuple[str, int, dict[str, str]]:
    return keys, stored_at_ms, more


def stored(found: FoundMessages) -> list[int]:
    return [message.stored_at_ms for message in found.messages]


def find(brokers: Brokers, key: str = "k", **limits: Any) -> FoundMessages:
    return run(find_by_key(ROUTE, brokers.request, "orders", key, **limits))


def test_every_broker_is_asked_and_the_oldest_message_comes_first() -> None:
    brokers = Brokers(a=[one("k", 5), one("x k", 9)], b=[one("k", 7)])
    found = find(brokers, count_max=10, begin_ms=1, end_ms=20)
    assert stored(found) == [5, 7, 9]
    assert [message.broker_name for message in found.messages] == ["a", "b", "a"]
    assert (found.silent, found.is_cut, found.notices) == ({}, False, [])
    header = QueryMessage(topic="orders", key="k", count_max=10, begin_ms=1, end_ms=20, is_unique_key=False)
    assert {(A, header), (B, header)} <= {*brokers.asked}


def test_the_newest_of_all_brokers_are_given_and_the_others_mentioned() -> None:
    brokers = Brokers(a=[one("k", 5), one("k", 9)], b=[one("k", 7)])
    found = find(brokers, count_max=2)
    assert (stored(found), found.is_cut) == ([7, 9], True)
    assert found.notices == ["these are the newest 2: there may be more, stored until 1970-01-01T00:00:00.007Z"]
    assert stored(find(brokers, count_max=0)) == []


@each_case(7, 64, 1_000)
def test_more_messages_than_an_answer_has_are_asked_for_again(limit: int) -> None:
    brokers = Brokers(a=[one("k", at // 5) for at in range(5, 155)], b=[one("k", 3)], limit=limit)
    found = find(brokers, count_max=200)
    assert (len(found.messages), found.is_cut) == (151, False)
    found = find(brokers, count_max=100)
    assert (len(found.messages), found.is_cut) == (100, True)
    assert stored(found) == sorted(stored(found))


def test_more_messages_of_one_ms_than_an_answer_has_are_mentioned() -> None:
    found = find(Brokers(a=[one("k", 5)] * 70), count_max=200)
    assert (len(found.messages), found.is_cut) == (64, True)


@each_case(2, 3)
def test_messages_of_one_ms_that_an_answer_had_no_room_for_are_mentioned(limit: int) -> None:
    found = find(Brokers(a=[one("k", 3), *[one("k", 5)] * 9, one("k", 7)], limit=limit), count_max=200)
    assert (stored(found)[0], stored(found)[-1], found.is_cut) == (3, 7, True)


def test_large_messages_of_one_ms_may_be_more_than_an_answer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(a=[one("k", 5)] * 9, limit=2)
    assert not find(brokers).is_cut  # small ones would all be in the answer
    monkeypatch.setattr("orbitmq.admin.messages._SIZE_LIMITED_PAGE", 2 * len(record("k", 5)))
    assert find(brokers).is_cut


def test_a_search_for_a_table_keeps_the_beginnings_of_bodies() -> None:
    brokers = Brokers(a=[one("k", 12345)])
    assert [message.body for message in find(brokers, body_size_max=3).messages] == [b"123"]


def test_a_silent_broker_hides_no_message_of_another_one() -> None:
    found = find(Brokers(a=[one("k", 5)], b=RequestTimeout("no answer within 3000 ms")))
    assert (stored(found), found.silent) == ([5], {"b": "no answer within 3000 ms"})
    assert found.notices == ["without b: no answer within 3000 ms"]
    with pytest.raises(RequestTimeout):
        find(Brokers(a=RequestTimeout("a"), b=RequestTimeout("b")))


def test_a_broker_that_falls_silent_between_two_pages_keeps_what_it_gave() -> None:
    class Failing(Brokers):
        async def request(self, address: str, header: object) -> Command:
            if isinstance(header, QueryMessage) and address == A and header.end_ms < 100:
                raise RequestTimeout("gone")
            return await super().request(address, header)

    found = find(Failing(a=[one("k", at) for at in range(100)]), count_max=200)
    assert (len(found.messages), found.silent) == (64, {"a": "gone"})


def test_messages_of_another_key_with_the_same_hash_are_left_out() -> None:
    brokers = Brokers(a=[one("other", 5), one("k", 6, topic="bills"), one("", 7, unique="k")])
    assert stored(find(brokers)) == [7]
    assert stored(find(brokers, "other", is_unique=True)) == []


def test_brokers_without_a_find_are_no_error_and_refusals_are() -> None:
    assert stored(find(Brokers())) == []
    assert find(Brokers(b=RemoteRefused(2, "no", B))).silent.keys() == {"b"}
    with pytest.raises(RouteNotFound):
        run(find_by_key(TopicRoute(brokers=(), queues=()), Brokers().request, "orders", "k"))


def test_an_id_of_a_client_is_found_by_key() -> None:
    brokers = Brokers(b=[one("", 7, unique="0A0B")])
    found = run(find_by_id(ROUTE, brokers.request, "orders", "0A0B"))
    assert found is not None
    assert (found.stored_at_ms, found.broker_name) == (7, "b")
    assert run(find_by_id(ROUTE, Brokers().request, "orders", "0A0B")) is None


def test_an_id_is_unknown_where_only_a_silent_broker_may_have_it() -> None:
    silent = RequestTimeout("no answer")
    found = run(find_by_id(ROUTE, Brokers(a=silent, b=[one("", 7, unique="0A0B")]).request, "orders", "0A0B"))
    assert found is not None
    with pytest.raises(ClientError, match="no broker that answers has the message 0A0B; without a: no answer"):
        run(find_by_id(ROUTE, Brokers(a=silent).request, "orders", "0A0B"))


def test_an_id_of_a_broker_is_looked_up_there_and_nowhere_else() -> None:
    brokers = Brokers()
    brokers.by_offset = lambda offset: record("", 7) if offset == 500 else 1
    found = run(find_by_id(ROUTE, brokers.request, "orders", offset_message_id(Host("127.0.0.1", 1001), 500)))
    assert found is not None
    assert (found.stored_at_ms, found.broker_name) == (7, "a")
    assert run(find_by_id(ROUTE, brokers.request, "orders", offset_message_id(Host("127.0.0.1", 1001), 501))) is None
    assert run(find_by_id(ROUTE, brokers.request, "bills", offset_message_id(Host("127.0.0.1", 1001), 500))) is None
    stranger = offset_message_id(Host("10.0.0.1", 1001), 500)
    assert run(find_by_id(ROUTE, brokers.request, "orders", stranger)) is None
    assert {address for address, _ in brokers.asked} == {A, B}


def test_a_broker_is_lost_where_its_last_event_says_so_and_it_is_not_back() -> None:
    def event(name: str, cause: str) -> dict[str, str]:
        return {"brokerName": name, "cause": cause}

    newest_first = [
        event("lost", "connection closed"),
        event("hung", "lease expired"),
        event("stopped", "unregistration"),
        event("stopped", "connection closed"),
        event("back", "lease expired"),
        event("changed", "topic deletion"),
    ]
    assert find_lost(newest_first, {"back"}) == {
        "hung": "it left the route: lease expired",
        "lost": "it left the route: connection closed",
    }
    lost = find_lost(newest_first, {"back"})
    found = find(Brokers(a=[one("k", 5)]), lost=lost)
    assert (stored(found), found.silent) == ([5], lost)
