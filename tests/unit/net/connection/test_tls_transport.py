"""Claims about the layer between a transport and a connection; its modes are tested with `security.tls`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from orbitmq.net.connection.connection import Connection
from orbitmq.net.connection.tls_transport import TlsTransport
from orbitmq.net.counters import Counters
from orbitmq.net.limits import Limits
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.tls import ServerTls, TlsMode, client_context
from orbitmq.net.session import make_request
from orbitmq.wire.command import encode_command
from orbitmq.wire.headers import GetRouteInfo, GetTopicsByCluster
from waiting import until

from ..certificates import Authority
from ..support import peer_of, request_frame, serving


async def test_bytes_are_counted_as_the_network_carries_them(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    async with serving(tls=ServerTls(TlsMode.PERMISSIVE, files)) as server:
        frame = request_frame("t")
        async with peer_of(server) as plain:
            await plain.send(frame)
            await plain.receive()
        assert (server.counters.bytes_received, server.counters.connections_encrypted) == (len(frame), 0)

        pool = ConnectionPool(tls=client_context(files))
        await pool.request(server.address, GetRouteInfo(topic="t"))
        assert server.counters.connections_encrypted == 1
        handshaken = server.counters.bytes_received
        assert handshaken > 3 * len(frame), "a handshake and two frames"
        await pool.request(server.address, GetRouteInfo(topic="t"))
        assert server.counters.bytes_received - handshaken > len(frame), "a record has a header and a tag"
        await pool.close()


async def test_a_plain_connection_is_read_past_the_layer(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    async with serving(tls=ServerTls(TlsMode.PERMISSIVE, files)) as server, peer_of(server) as peer:
        await peer.send(request_frame("t", 1))
        await peer.receive()
        (connection,) = server.connections
        layer = connection._transport
        assert layer._transport.get_protocol() is connection
        assert layer.get_extra_info("ssl_object") is None
        await peer.send(request_frame("t", 2))
        assert (await peer.receive()).opaque == 2


async def test_a_handshake_that_ended_in_time_is_not_cut_off_later(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    tls = ServerTls(TlsMode.ENFORCING, files)
    async with serving(Limits(frame_ms=60), tls=tls) as server:
        pool = ConnectionPool(tls=client_context(files))
        await pool.request(server.address, GetRouteInfo(topic="t"))
        (connection,) = server.connections
        ended = asyncio.get_running_loop().time() + 0.12  # a deadline is a time: two of them must pass
        await until(lambda: asyncio.get_running_loop().time() > ended, pause_s=0.01)
        assert not connection.is_closed
        assert (await pool.request(server.address, GetRouteInfo(topic="t"))).body == b"t"
        await pool.close()


async def test_an_encrypted_peer_that_does_not_read_is_not_read(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    limits = Limits(write_pause_size=64 * 1024, write_stall_ms=0)
    async with serving(limits, tls=ServerTls(TlsMode.ENFORCING, files)) as server:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=client_context(files), limit=1024)
        writer.write(encode_command(make_request(GetTopicsByCluster(cluster=str(8 * 1024 * 1024)))))
        await until(lambda: len(server.connections) == 1)
        (connection,) = server.connections
        await until(lambda: connection._flow.is_paused, pause_s=0.001)
        size = 0
        while size < 8 * 1024 * 1024:
            size += len(await reader.read(1 << 20))
        await until(lambda: not connection._flow.is_paused, pause_s=0.001)
        writer.close()
        await until(lambda: not server.connections, pause_s=0.001)


async def test_a_good_bye_closes_the_connection_and_is_returned(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    async with serving(tls=ServerTls(TlsMode.ENFORCING, files)) as server:
        pool = ConnectionPool(tls=client_context(files))
        connection = await pool.connect(server.address)
        await pool.request(server.address, GetRouteInfo(topic="t"))
        await server.close()
        await until(lambda: connection.is_closed)
        assert pool.counters.connections_closed == 1
        await pool.close()


async def test_a_long_answer_to_a_plain_peer_goes_through_the_layer_unchanged(tmp_path: Path):
    files, size = Authority(tmp_path).issue("server"), 8 * 1024 * 1024
    async with serving(tls=ServerTls(TlsMode.PERMISSIVE, files)) as server, peer_of(server) as peer:
        for _ in range(2):
            await peer.send(encode_command(make_request(GetTopicsByCluster(cluster=str(size)))))
        assert [len((await peer.receive()).body) for _ in range(2)] == [size, size]


class FakeConnection:
    """Counts what a layer tells it."""

    def __init__(self) -> None:
        self.is_closed = False
        self.counters = Counters()
        self.activity = 0
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=5, low=2)

    def note_activity(self) -> None:
        self.activity += 1

    def data_received(self, data: bytes) -> None:
        self.received += data


class FakeTransport:
    """Remembers how much may wait in it."""

    def __init__(self) -> None:
        self.limits: tuple[int | None, int | None] = (None, None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low


async def test_a_handshake_is_activity_and_nothing_to_serve(tmp_path: Path):
    connection, transport = FakeConnection(), FakeTransport()
    tls = ServerTls(TlsMode.PERMISSIVE, Authority(tmp_path).issue("server"))
    loop = asyncio.get_running_loop()
    layer = TlsTransport(cast(Connection, connection), tls, loop, handshake_ms=0)
    layer.connection_made(cast(asyncio.BaseTransport, transport))
    for part in (b"\x16\x03\x01", b"\x02"):
        layer.data_received(part)
    assert (connection.activity, connection.received, connection.counters.bytes_received) == (2, b"", 4)
    assert transport.limits == (5, 2)
