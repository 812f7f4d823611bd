"""Claims about sockets to listen with."""

from __future__ import annotations

import asyncio
import socket

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.http import HttpServer
from orbitmq.net.listening import bound_socket
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.wire.headers import GetRouteInfo

from .support import EchoService, handlers

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6"),
]


async def can_connect(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.transport.abort()
    return True


async def test_a_server_on_the_ipv6_wildcard_serves_both_families_and_names_ipv4_peers_as_such():
    server = Server(handlers, EchoService(), name="test")
    lost: list[str] = []
    server.on_connection_lost(lambda peer: lost.append(peer.remote.rpartition(":")[0]))
    port = await server.start("::", 0)
    pool = ConnectionPool()
    try:
        for address in (f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert (await pool.request(address, GetRouteInfo(topic="t"))).body == b"t"
            with await asyncio.to_thread(BlockingConnection, address) as blocking:
                assert (await asyncio.to_thread(blocking.request, GetRouteInfo(topic="t"))).body == b"t"
    finally:
        await pool.close()
        await server.close()
    assert set(lost) == {"127.0.0.1", "[::1]"}


async def test_metrics_on_the_ipv6_wildcard_are_read_over_both_families():
    server = HttpServer({})
    port = await server.start("::", 0)
    try:
        assert await can_connect("127.0.0.1", port)
        assert await can_connect("::1", port)
    finally:
        await server.close()


def test_an_ipv6_address_of_its_own_is_not_one_of_ipv4():
    with bound_socket("::1", 0) as six, bound_socket("127.0.0.1", six.getsockname()[1]) as four:
        assert six.getsockname()[1] == four.getsockname()[1]
