"""Memory that strangers make a NameServer keep: bounded in bytes in all, and gone when its reason is."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hostile.served import Child, frame, kept_bytes, leaving_of, serving
from orbitmq.address import parse_address
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.wire.headers import GetRouteInfo
from unit.nameserver.support import registration

KIB, MIB = 1024, 1024 * 1024
HEADER_PADDING = "x" * (200 * KIB)
BROKERS_HONEST, CLIENTS_HONEST = 1_000, 20_000


@pytest.mark.proof
@pytest.mark.parametrize("count", [640])
def test_route_queries_with_large_headers_are_not_kept(count: int, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as link:
        link.register("a")
        with kept_bytes() as kept:
            for number in range(count):
                assert link.ask(GetRouteInfo(topic="T1"), pad=f"{number}{HEADER_PADDING}").code == 0
            assert kept() < count * len(HEADER_PADDING) / 2


@pytest.mark.parametrize("count", [100, pytest.param(640, marks=pytest.mark.proof)])
def test_registrations_with_large_headers_are_not_kept(count: int, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as link, kept_bytes() as kept:
        for number in range(count):
            header, body = registration(f"broker-{number}", "T1", "T2")
            assert link.ask(header, body, pad=HEADER_PADDING).code == 0
        assert kept() < count * len(HEADER_PADDING) / 2


@pytest.mark.parametrize("count", [80, pytest.param(400, marks=pytest.mark.proof)])
def test_answers_that_are_kept_count_by_their_bytes_whatever_keeps_them(count: int, tmp_path: Path) -> None:
    """Each of these topics has a route of its own, and all routes show the broker's filter servers."""
    servers = tuple(f"filter-{number}.example:10911" for number in range(20_000))
    topics = {f"T{number}": TopicConfig(topic=f"T{number}", read_queue_count=number) for number in range(count)}
    with serving(tmp_path) as served, served.link() as link:
        registered = link.ask(*registration("a", configs=topics, filter_servers=servers))
        with kept_bytes() as kept:
            size = sum(len(link.ask(GetRouteInfo(topic=topic)).body) for topic in topics)
            # Half of it, or nothing of the kind was entered in the first place.
            assert kept() < size / 2 or registered.code == 1


@pytest.mark.proof
def test_a_group_that_changes_again_and_again_leaves_no_former_state_behind(tmp_path: Path) -> None:
    """Each slave that joins makes another route; what is kept grows with the slaves, not with their square."""
    count = 200
    with serving(tmp_path) as served, served.link() as link:
        link.register("a")
        grown = []
        with kept_bytes() as kept:
            for number in range(1, 2 * count + 1):
                link.register("a", broker_id=number)
                assert link.route("T1") is not None
                if number % count == 0:
                    grown.append(kept())
    assert grown[1] - grown[0] < 1.5 * grown[0]


@pytest.mark.proof
def test_brokers_that_come_and_go_leave_little_behind_for_each(tmp_path: Path) -> None:
    """An encoder may keep 20,000 brokers' parts of routes, of a hundred bytes each and not of some thousand."""
    count = 400
    with serving(tmp_path) as served, served.link() as link, kept_bytes() as kept:
        for number in range(count):
            link.register(f"broker-{number}")
            assert link.route("T1") is not None
            link.ask(leaving_of(f"broker-{number}"))
        assert link.brokers() == set()
        assert kept() < count * 4 * KIB


@pytest.mark.parametrize("leaves", [pytest.param(False, marks=pytest.mark.proof), True])
def test_the_body_of_a_broker_that_is_gone_goes_with_it(leaves: bool, tmp_path: Path) -> None:
    """An id that moves from address to address leaves nothing behind; nor does the last of them when it leaves."""
    large = {topic: TopicConfig(topic=topic, attributes={"+note": "x" * 400 * KIB}) for topic in ("T1", "T2")}
    count = 40
    with serving(tmp_path) as served, served.link() as link, kept_bytes() as kept:
        for number in range(count):
            link.register("a", configs=large, version=number, broker_addr=f"moved-{number}:10911")
        if leaves:
            link.register("a", configs=large, version=count)
            link.ask(leaving_of("a"))
            assert link.brokers() == set()
        assert kept() < 10 * 800 * KIB


def test_unfinished_frames_of_many_connections_share_one_budget(tmp_path: Path) -> None:
    count, size = 24, 15 * MIB
    half = frame(GetRouteInfo(topic="T1"), bytes(size))[:-1]
    with Child(tmp_path) as child, child.link() as honest:
        before = memory_of(child)
        attackers = [_send_what_is_taken(child.address, half) for _ in range(count)]
        _settle(lambda: memory_of(child))
        grown = memory_of(child) - before
        honest.register("a", *(f"topic-{number}" for number in range(500)))  # goes on being served
        for attacker in attackers:
            attacker.close()
        assert grown < count * size / 2


def test_connections_are_limited_unless_set_otherwise() -> None:
    wanted = BROKERS_HONEST + CLIENTS_HONEST
    assert NameServerConfig().connections_max > wanted


def memory_of(child: Child) -> int:
    return psutil.Process(child.process_id).memory_info().rss


def _send_what_is_taken(address: str, data: bytes) -> socket.socket:
    """Send until all is sent, or the server takes no more, or ends the connection."""
    sender = socket.create_connection(parse_address(address))
    sender.settimeout(0.3)
    with contextlib.suppress(OSError):
        sender.sendall(data)
    return sender


def _settle(look: Callable[[], int]) -> None:
    """Wait until a figure stays as it is."""
    before = -1
    while (now := look()) != before:
        before = now
        time.sleep(0.2)
