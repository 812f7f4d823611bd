"""Claims about the layer between a transport and a connection; its modes are tested with `security.tls`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from cases import each_case
from orbitmq.errors import FrameError
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
from .fakes import FakeLoop, FakeTransport


@pytest.mark.real
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


@pytest.mark.real
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


class FakeConnection:
    """Remembers what a layer tells it."""

    def __init__(self) -> None:
        self.is_closed = False
        self.counters = Counters()
        self.calls: list[tuple[Any, ...]] = []
        self.received = b""

    def move_onto(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=5, low=2)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append((name, *arguments))


class Layer:
    """A layer between a connection, a transport and a loop that do what the test says."""

    def __init__(self, folder: Path, mode: TlsMode = TlsMode.PERMISSIVE, *, handshake_ms: int = 0) -> None:
        self.connection, self.below, self.loop = FakeConnection(), FakeTransport(), FakeLoop()
        self.files = Authority(folder).issue("server")
        self.transport = TlsTransport(
            cast(Connection, self.connection),
            ServerTls(mode, self.files),
            cast(asyncio.AbstractEventLoop, self.loop),
            handshake_ms=handshake_ms,
        )
        self.transport.connection_made(cast(asyncio.BaseTransport, self.below))

    def begin(self) -> None:
        self.transport.data_received(b"\x16\x03\x01")

    def shake_hands(self) -> Client:
        """Return a client after its handshake."""
        client = Client(client_context(self.files), self)
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                client.tls.do_handshake()
            client.deliver()
        return client


class Client:
    """A client of the standard library whose bytes go to a layer when the test says so."""

    def __init__(self, context: ssl.SSLContext, layer: Layer) -> None:
        self._layer = layer
        self._to_client, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._to_client, self._to_server)

    def deliver(self) -> int:
        """Bring what waits to either side; return how many bytes went to the layer."""
        data = self._to_server.read()
        if data:
            self._layer.transport.data_received(data)
        self._to_client.write(b"".join(self._layer.below.writes))
        self._layer.below.writes.clear()
        return len(data)


def test_a_handshake_is_activity_and_nothing_to_serve(tmp_path: Path):
    layer = Layer(tmp_path)
    assert layer.connection.transport is layer.below
    for part in (b"\x16\x03\x01", b"\x02"):
        layer.transport.data_received(part)
        assert layer.connection.transport is layer.transport
    assert layer.connection.calls == [("note_activity",)] * 2
    assert (layer.connection.received, layer.connection.counters.bytes_received) == (b"", 4)
    assert layer.connection.counters.connections_encrypted == 1
    assert (layer.below.write_pause_size, layer.below.write_resume_size) == (5, 2)


def test_a_peer_that_cannot_be_served_tls_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    layer, error = Layer(tmp_path), FrameError("no TLS: no space left")

    def fail() -> None:
        raise error

    monkeypatch.setattr(layer.transport._tls, "begin", fail)
    layer.begin()
    assert layer.connection.calls == [("refuse", error)]


def test_a_layer_hides_nothing_of_the_transport_below_it(tmp_path: Path):
    layer = Layer(tmp_path)
    layer.below.unwritten_size = 77
    layer.transport.pause_reading()
    assert not layer.below.is_reading
    layer.transport.resume_reading()
    assert layer.below.is_reading
    assert (layer.transport.get_write_buffer_size(), layer.transport.is_closing()) == (77, False)
    assert layer.transport.get_extra_info("peername") == ("10.0.0.1", 5)
    assert layer.transport.get_extra_info("ssl_object", "none") == "none"
    layer.transport.writelines([b"a", b"b"])
    assert layer.below.writes == [b"ab"]
    layer.transport.close()
    assert (layer.below.calls, layer.transport.is_closing()) == (["close"], True)
    layer.transport.abort()
    assert layer.below.calls == ["close", "abort"]


def test_a_layer_tells_its_connection_what_it_hears(tmp_path: Path):
    layer, error = Layer(tmp_path), OSError("gone")
    layer.transport.pause_writing()
    layer.transport.resume_writing()
    layer.transport.connection_lost(error)
    assert layer.connection.calls == [("pause_writing",), ("resume_writing",), ("connection_lost", error)]


def test_an_encrypted_layer_is_known_as_such_and_says_good_bye(tmp_path: Path):
    layer = Layer(tmp_path)
    layer.begin()
    assert layer.transport.get_extra_info("ssl_object", "none") not in ("none", None)
    assert layer.transport.get_extra_info("peername") == ("10.0.0.1", 5)
    layer.transport.close()
    assert layer.below.calls == ["close"]


@each_case(*list(TlsMode)[1:])
def test_nothing_is_read_on_a_closed_connection(mode: TlsMode, tmp_path: Path):
    layer = Layer(tmp_path, mode)
    layer.connection.is_closed = True
    layer.begin()
    layer.transport.data_received(b"plain")
    counters = layer.connection.counters
    assert (counters.bytes_received, counters.connections_encrypted, layer.connection.calls) == (0, 0, [])
    assert layer.connection.received == b""


def test_plain_bytes_are_served_unless_they_are_forbidden(tmp_path: Path):
    plain, guarded = Layer(tmp_path), Layer(tmp_path, TlsMode.ENFORCING)
    for layer in (plain, guarded):
        layer.transport.data_received(b"plain")
    assert (plain.connection.received, plain.connection.calls) == (b"plain", [])
    assert plain.below.protocol is plain.connection
    assert (guarded.connection.received, guarded.connection.calls) == (b"", [("abort", "no TLS")])
    assert guarded.connection.counters.bytes_received == 5


def test_a_handshake_has_its_time_from_its_first_byte_on(tmp_path: Path):
    layer = Layer(tmp_path, handshake_ms=80)
    assert layer.loop.waiting == []
    layer.begin()
    layer.transport.data_received(b"\x02")
    assert [timer.when for timer in layer.loop.timers] == [50.08]
    layer.loop.fire()
    assert layer.connection.calls[-1] == ("abort", "frame deadline")

    without_limit, gone = Layer(tmp_path), Layer(tmp_path, handshake_ms=80)
    for layer in (without_limit, gone):
        layer.begin()
        layer.transport.connection_lost(None)
        assert layer.loop.waiting == []
    assert without_limit.loop.timers == []


def test_what_is_no_handshake_is_refused_with_an_alert(tmp_path: Path):
    layer = Layer(tmp_path)
    layer.transport.data_received(b"\x16\x03\x01\x00\x05hello")
    (told,) = layer.connection.calls
    assert (told[0], type(told[1])) == ("refuse", FrameError)
    assert layer.below.writes[0][:1] == b"\x15", "an alert"


def test_a_handshake_that_ended_in_time_is_not_cut_off_later(tmp_path: Path):
    layer = Layer(tmp_path, handshake_ms=80)
    client = layer.shake_hands()
    assert client.tls.version() is not None
    assert (len(layer.loop.timers), layer.loop.waiting) == (1, [])


def test_encrypted_bytes_are_counted_but_not_twice(tmp_path: Path):
    layer = Layer(tmp_path)
    client = layer.shake_hands()
    before, activity = layer.connection.counters.bytes_received, len(layer.connection.calls)
    client.tls.write(b"plain")
    carried = client.deliver()
    assert layer.connection.received == b"plain"
    assert layer.connection.counters.bytes_received - before == carried - len(b"plain"), "the connection counts those"
    assert len(layer.connection.calls) == activity

    layer.transport.writelines([b"an ", b"answer"])
    assert len(layer.below.writes) == 1
    client.deliver()
    assert client.tls.read() == b"an answer"


def test_a_good_bye_of_either_side_ends_the_connection(tmp_path: Path):
    layer = Layer(tmp_path)
    client = layer.shake_hands()
    layer.transport.close()
    client.deliver()
    assert client.tls.read() == b"", "without a good-bye, it would wait"

    layer = Layer(tmp_path)
    client = layer.shake_hands()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.deliver()
    assert layer.connection.calls[-1] == ("close",)
