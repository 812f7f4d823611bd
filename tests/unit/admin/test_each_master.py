"""Several masters that are asked at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cases import each_case
from orbitmq.admin import AdminClient
from orbitmq.admin.each_master import ask_about, ask_all, ask_each, change_each, notices_of
from orbitmq.errors import ConnectionFailed, PartlyDone, RequestTimeout
from orbitmq.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute

BROKERS = tuple(BrokerData(cluster="c", broker_name=name, addresses={0: name}) for name in "ab")


async def answer(broker: str, address: str) -> str:
    if address == "silent":
        raise RequestTimeout(f"{broker} did not answer")
    return address


def test_answers_and_problems_are_told_apart() -> None:
    answers, problems = asyncio.run(ask_each({"a": "silent", "b": "here"}, answer))
    assert (answers, problems) == ({"b": "here"}, {"a": "a did not answer"})
    assert notices_of(problems) == ["without a: a did not answer"]


def test_one_master_without_an_answer_is_an_error_where_all_are_needed() -> None:
    assert asyncio.run(ask_all({"b": "here", "a": "there"}, answer)) == {"b": "here", "a": "there"}
    with pytest.raises(RequestTimeout, match="b did not answer"):
        asyncio.run(ask_all({"c": "here", "b": "silent", "a": "silent"}, answer))


def test_names_are_asked_about_in_their_order_and_32_at_the_same_time() -> None:
    names, running, counts = [str(number) for number in range(100)], set[str](), []

    async def ask(name: str) -> str:
        running.add(name)
        counts.append(len(running))
        await asyncio.sleep(0)
        running.remove(name)
        return name

    assert asyncio.run(ask_about(names, ask)) == names
    assert max(counts) == 32


def test_a_change_that_some_servers_have_not_made_names_them_and_the_others() -> None:
    async def make(server: str, state: str) -> str:
        if state == "away":
            raise ConnectionFailed("nothing listens")
        return await answer(server, state)

    with pytest.raises(PartlyDone) as caught:
        asyncio.run(change_each({"a": "away", "b": "here", "c": "here"}, make))
    assert (str(caught.value), caught.value.done) == ("done on b, c; not done on a: nothing listens", ("b", "c"))
    with pytest.raises(RequestTimeout, match=r"^a did not answer$"):
        asyncio.run(change_each({"a": "silent"}, answer))


def test_a_server_that_did_not_answer_may_have_made_the_change() -> None:
    """One that was frozen makes it when it goes on."""
    with pytest.raises(PartlyDone, match=r"^done on b; perhaps done on a: a did not answer$"):
        asyncio.run(change_each({"a": "silent", "b": "here"}, answer))


def test_of_servers_none_of_which_has_surely_made_a_change_each_is_named() -> None:
    """The first error alone says nothing of one that makes the change later."""

    async def make(broker: str, address: str) -> str:
        if address == "away":
            raise ConnectionFailed("nothing listens")
        return await answer(broker, address)

    with pytest.raises(ConnectionFailed, match="nothing listens") as caught:
        asyncio.run(change_each({"a": "away", "b": "silent"}, make))
    assert caught.value.__notes__ == ["perhaps done on b: b did not answer"]


class Frozen(AdminClient):
    """A cluster of two masters that answer nothing; how long that takes does not matter: both have to be asked first."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self._both = asyncio.Barrier(2)

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(brokers={data.broker_name: data for data in BROKERS}, clusters={"c": ("a", "b")})

    async def topic_route(self, topic: str) -> TopicRoute:
        queues = (QueueData(broker_name=name, read_queue_count=1, write_queue_count=1, perm=6) for name in "ab")
        return TopicRoute(queues=tuple(queues), brokers=BROKERS)

    async def _request(self, address: str, header: object, body: bytes = b"") -> Any:
        async with asyncio.timeout(1):
            await self._both.wait()
        raise RequestTimeout(f"{address} did not answer")


@each_case(
    lambda admin: admin.group_names(),
    lambda admin: admin.groups(),
    lambda admin: admin.group_status("g"),
    lambda admin: admin.group_lag("g"),
    lambda admin: admin.group_lag("g", "t"),
    lambda admin: admin.groups_that_answer(),
    lambda admin: admin.topic_groups("t"),
    lambda admin: admin.group_time_spans("g", "t"),
    lambda admin: admin.topic_stats("t"),
    lambda admin: admin.known_topic_stats("t"),
    lambda admin: admin.topic_configs("t"),
    lambda admin: admin.known_topic_configs("t"),
    lambda admin: admin.producers(),
    lambda admin: admin.known_producers(),
    lambda admin: admin.traffic("t", "g"),
    lambda admin: admin.known_traffic("t", "g"),
)
def test_no_master_is_waited_for_before_the_others_are_asked(call: Callable[[AdminClient], Awaitable[Any]]) -> None:
    async def ask() -> None:
        await call(Frozen())

    with pytest.raises(RequestTimeout, match="a did not answer"):
        asyncio.run(ask())
