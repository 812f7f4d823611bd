"""Other brokers: found in a topic's route, remembered until they do not answer."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.broker.registration.other_brokers import OtherBrokers
from orbitmq.errors import ConnectionFailed, RouteNotFound
from orbitmq.model.route import BrokerData, TopicRoute
from orbitmq.wire.command import Command

ROUTE = TopicRoute(
    brokers=(
        BrokerData(cluster="c", broker_name="b", addresses={0: "b:1", 1: "slave:1"}),
        BrokerData(cluster="c", broker_name="headless", addresses={1: "slave:2"}),
    )
)


class Network:
    """Answers for every address; counts what it is asked."""

    def __init__(self, route: TopicRoute | None = ROUTE) -> None:
        self.route = route
        self.queries = 0
        self.asked: list[tuple[str, int | None]] = []
        self.is_down = False
        self.others = OtherBrokers(self.ask_route, self, timeout_ms=77)  # type: ignore[arg-type]

    async def ask_route(self, topic: str) -> TopicRoute | None:
        assert topic == "t"
        self.queries += 1
        return self.route

    async def request(self, address: str, header: object, *, timeout_ms: int, code: int | None = None) -> Command:
        assert timeout_ms == 77
        self.asked.append((address, code))
        if self.is_down:
            raise ConnectionFailed(address)
        return Command(0)

    async def ask(self, broker_name: str = "b") -> Any:
        return await self.others.ask("t", broker_name, object(), 30)


async def test_the_master_of_a_name_is_looked_for_once() -> None:
    network = Network()
    assert await network.ask() == await network.ask() == Command(0)
    assert (network.queries, network.asked) == (1, [("b:1", 30)] * 2)


async def test_a_broker_that_does_not_answer_is_looked_for_again() -> None:
    network = Network()
    network.is_down = True
    for _ in range(2):
        with pytest.raises(ConnectionFailed):
            await network.ask()
    assert network.queries == 2


@pytest.mark.parametrize("broker_name", ["headless", "unknown"])
async def test_a_name_without_a_master_in_the_route_cannot_be_asked(broker_name: str) -> None:
    with pytest.raises(RouteNotFound, match=f"{broker_name} is in no route of topic t"):
        await Network().ask(broker_name)


async def test_a_topic_that_no_name_server_knows_has_no_brokers() -> None:
    with pytest.raises(RouteNotFound):
        await Network(None).ask()
