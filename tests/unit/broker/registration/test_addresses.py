"""Addresses of the broker itself, and of others: remembered until they do not answer."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration.addresses import (
    AnnouncedAddressCheck,
    announced_host,
    broker_address,
    kept_port,
    reserved_port,
    vip_port,
)
from orbitmq.broker.registration.other_servers import OtherBrokers
from orbitmq.errors import ConfigError, ConnectionFailed, RouteNotFound
from orbitmq.model.message import Host
from orbitmq.model.route import BrokerData, TopicRoute
from orbitmq.wire.command import Command


def config(**settings: object) -> BrokerConfig:
    return BrokerConfig(broker_name="a", **settings)  # type: ignore[arg-type]


def test_clients_are_told_what_the_settings_say_first_and_the_bound_address_otherwise() -> None:
    assert announced_host(config(broker_ip1="10.1.2.3", bind_address="127.0.0.1")) == "10.1.2.3"
    assert announced_host(config(bind_address="127.0.0.7")) == "127.0.0.7"


@pytest.mark.real
@each_case("0.0.0.0", "::")
def test_a_broker_that_listens_everywhere_tells_an_address_that_can_be_reached(everywhere: str) -> None:
    assert not ip_address(announced_host(config(bind_address=everywhere))).is_unspecified


@each_case(("::1", "10.1.2.3"), ("0.0.0.0", "fd00::7"), ("10.0.0.1", "::1"))
def test_an_announced_address_of_a_family_that_is_not_bound_is_refused(bound: str, announced: str) -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1.*bindAddress=:: listens on"):
        broker_address(config(bind_address=bound, broker_ip1=announced), 10911)


def test_a_host_with_ipv6_alone_tells_its_address_of_that_family(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyIpv6(socket.socket):
        def connect(self, address: Any) -> None:
            if self.family == socket.AF_INET:
                raise OSError("Network is unreachable")

        def getsockname(self) -> Any:
            return ("2001:db8::7", 9, 0, 0)

    monkeypatch.setattr(socket, "socket", OnlyIpv6)
    assert announced_host(config(bind_address="::")) == "2001:db8::7"


@pytest.mark.real
async def test_an_announced_address_that_cannot_be_reached_is_known_until_it_can(caplog: Any) -> None:
    placeholder = kept_port("127.0.0.1", 0)
    port = placeholder.getsockname()[1]
    check = AnnouncedAddressCheck(config(broker_ip1="127.0.0.1"), f"127.0.0.1:{port}")
    with placeholder:
        await check.look()
        assert f"127.0.0.1:{port}" in (check.failure or "")
        assert "brokerIP1" in caplog.text
        placeholder.listen()
        await check.run()  # ends, for it is reached
        assert check.failure is None


async def test_a_bound_address_that_is_announced_needs_no_check() -> None:
    check = AnnouncedAddressCheck(config(bind_address="127.0.0.1"), "127.0.0.1:1")
    await check.run()
    assert check.failure is None


def test_a_host_without_a_network_tells_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "socket", Offline)
    assert announced_host(config(bind_address="0.0.0.0")) == "127.0.0.1"


def test_an_address_has_one_form_for_records_one_for_clients_and_one_for_brokers() -> None:
    address = broker_address(config(broker_ip1="localhost"), 10911)
    assert address == (Host("127.0.0.1", 10911), "localhost:10911", "localhost:10912")


def test_an_address_may_be_one_of_ipv6() -> None:
    address = broker_address(config(bind_address="::", broker_ip1="::1"), 10911)
    assert address == (Host("::1", 10911), "[::1]:10911", "[::1]:10912")
    assert broker_address(config(bind_address="::1"), 10911) == address


def test_a_name_with_addresses_of_both_kinds_stands_in_records_as_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("10.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_names: [*both, both[0]])
    assert broker_address(config(broker_ip1="dual"), 1).host == Host("10.0.0.1", 1)


def test_an_unknown_name_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match="brokerIP1"):
        broker_address(config(broker_ip1="no-such-host.invalid"), 10911)


def test_a_given_port_is_left_to_the_server() -> None:
    with reserved_port("127.0.0.1", 4711, has_vip=True) as port:
        assert port == 4711


@pytest.mark.real
@each_case(("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6))
def test_port_0_is_a_free_port_that_stays_ours_until_the_server_has_it(host: str, family: int) -> None:
    with reserved_port(host, 0, has_vip=False) as port:
        assert port > 0
        with socket.socket(family) as other, pytest.raises(OSError):
            other.bind((host, port))
        with socket.socket(family) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, port))
            server.listen()


@pytest.mark.real
def test_two_brokers_at_the_same_time_get_two_ports() -> None:
    with reserved_port("127.0.0.1", 0, has_vip=False) as one, reserved_port("127.0.0.1", 0, has_vip=False) as other:
        assert one != other


@pytest.mark.real
def test_the_vip_port_of_a_chosen_port_is_kept_for_the_server_as_well() -> None:
    with reserved_port("127.0.0.1", 0, has_vip=True) as port, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", vip_port(port)))


@pytest.mark.real
def test_a_port_whose_vip_port_is_taken_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []

    class FirstPairTaken(socket.socket):
        def bind(self, address: Any) -> None:
            if len(bound) == 1:
                bound.append(address[1])
                raise OSError("in use")
            super().bind(address)
            bound.append(self.getsockname()[1])

    monkeypatch.setattr(socket, "socket", FirstPairTaken)
    with reserved_port("127.0.0.1", 0, has_vip=True) as port:
        assert bound[1] == vip_port(bound[0])
        assert (port, vip_port(port)) == tuple(bound[-2:])


@pytest.mark.real
def test_a_host_without_two_free_ports_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoneFree(socket.socket):
        def bind(self, address: Any) -> None:
            if address[1]:
                raise OSError("in use")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", NoneFree)
    with pytest.raises(OSError, match="in use"), reserved_port("127.0.0.1", 0, has_vip=True):
        pass


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
        self.others = OtherBrokers(self.find_route, self, timeout_ms=77)  # type: ignore[arg-type]

    async def find_route(self, topic: str) -> TopicRoute | None:
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


@each_case("headless", "unknown")
async def test_a_name_without_a_master_in_the_route_cannot_be_asked(broker_name: str) -> None:
    with pytest.raises(RouteNotFound, match=f"{broker_name} is in no route of topic t"):
        await Network().ask(broker_name)


async def test_a_topic_that_no_name_server_knows_has_no_brokers() -> None:
    with pytest.raises(RouteNotFound):
        await Network(None).ask()
