"""Claims about servers, over real loopback sockets: limits on connections, and how a server ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.limits import Limits
from orbitmq.net.server import Server
from orbitmq.wire.command import Command, encode_command
from waiting import until

from .support import RawClient, peer_of, request_frame, serving

pytestmark = pytest.mark.real


def _reply(body: bytes) -> Reply:
    return Reply(body=body)


async def test_a_listener_is_told_of_a_lost_connection():
    async with serving() as server:
        lost = []
        server.on_connection_lost(lambda connection: lost.append(connection.remote))
        async with peer_of(server) as peer:
            await until(lambda: len(server.connections) == 1)
            name = peer.writer.get_extra_info("sockname")
        await until(lambda: bool(lost))
        assert lost == [f"127.0.0.1:{name[1]}"]


async def test_connections_have_a_limit_in_all_and_per_address():
    for limits in (Limits(connections_max=2), Limits(connections_per_address_max=2)):
        async with serving(limits) as server, peer_of(server) as one, peer_of(server) as two:
            await one.send(request_frame("t"))
            await two.send(request_frame("t"))
            await one.receive()
            await two.receive()
            async with peer_of(server) as three:
                assert await three.is_cut_off()
            assert server.counters.connections_refused == 1
            assert server.counters.connections_refused_by_address == bool(limits.connections_per_address_max)
            one.writer.close()
            await until(lambda server=server: len(server.connections) == 1)
            async with peer_of(server) as four:
                await four.send(request_frame("t", 4))
                assert (await four.receive()).opaque == 4


async def test_draining_waits_for_late_answers_and_sends_new_requests_away():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(106, 1)))
        await server.service.arrived.wait()
        draining = asyncio.ensure_future(server.drain(60_000))
        await asyncio.sleep(0)
        await peer.send(request_frame("new", 2))
        away = await peer.receive()
        assert (away.code, away.remark) == (1500, "please go away")
        assert not draining.done()
        server.service.held[0].answer(_reply(b"late"))
        assert await draining
        assert (await peer.receive()).body == b"late"


async def test_draining_gives_up_when_its_time_is_over():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(106, 1)))
        await server.service.arrived.wait()
        assert not await server.drain(10)


async def test_a_server_that_drains_or_has_closed_accepts_no_new_connection():
    async with serving() as server:
        assert await server.drain(60_000)
        with pytest.raises(OSError):
            async with peer_of(server):
                pass
    async with serving() as server:
        await server.close()
        with pytest.raises(OSError):
            async with peer_of(server):
                pass
        await server.close()


async def test_closing_a_server_ends_its_connections():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(request_frame("t"))
        await peer.receive()
        await server.close()
        assert await peer.is_cut_off()
        assert len(server.connections) == 0


async def test_one_connection_may_be_closed_and_one_that_left_already_does_no_harm():
    async with serving() as server, peer_of(server) as one, peer_of(server) as two:
        await until(lambda: len(server.connections) == 2)
        first, second = sorted(connection.id for connection in server.connections)
        server.close_connection(first)
        await until(lambda: len(server.connections) == 1)
        server.close_connection(first)
        assert [connection.id for connection in server.connections] == [second]
        ended = [asyncio.ensure_future(peer.is_cut_off()) for peer in (one, two)]
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        assert sum(end.done() for end in ended) == 1


async def test_a_server_tells_which_port_the_system_chose():
    server = Server(Handlers(), None, name="test")
    port = await server.start("127.0.0.1", 0)
    assert port > 0
    assert server.address == f"127.0.0.1:{port}"
    await server.close()


async def test_a_second_port_is_served_and_limited_together_with_the_first():
    async with serving(Limits(connections_max=2)) as server:
        with socket.socket() as placeholder:
            placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            placeholder.bind(("127.0.0.1", 0))
            port = placeholder.getsockname()[1]
            await server.listen_also(port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        second = RawClient(reader, writer)
        await second.send(request_frame("t", 9))
        assert (await second.receive()).opaque == 9
        async with peer_of(server) as first:
            await first.send(request_frame("t"))
            await first.receive()
            async with peer_of(server) as third:
                assert await third.is_cut_off()
        await server.close()
        assert await second.is_cut_off()
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
