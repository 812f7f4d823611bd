"""Claims about writing past the transport: every byte arrives once and in order, whatever the kernel takes at a time."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.net.connection import socket_writer as module
from orbitmq.net.connection.socket_writer import JOINED_SIZE_MAX, SocketWriter
from orbitmq.net.loop import run

from .fakes import FakeTransport

pytestmark = pytest.mark.real


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.Transport, socket.socket]]:
    """Return a transport with a small send buffer, and the socket at its other end."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    theirs.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    try:
        yield cast(asyncio.Transport, transport), theirs
    finally:
        transport.abort()
        theirs.close()


async def read_all(source: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        data += await loop.sock_recv(source, 1 << 20)
    return data


def parts_of(*sizes: int) -> list[bytes]:
    return [bytes([number % 251]) * size for number, size in enumerate(sizes)]


@given(st.lists(st.lists(st.integers(0, 3 * JOINED_SIZE_MAX), min_size=1, max_size=6), min_size=1, max_size=6))
def test_what_is_written_arrives_once_and_in_order(writes: list[list[int]]):
    async def play() -> None:
        async with connected() as (transport, source):
            writer = SocketWriter(transport, lambda: None)
            expected = b""
            for sizes in writes:
                parts = parts_of(*sizes)
                assert writer.write(parts) == sum(sizes)
                expected += b"".join(parts)
            assert await read_all(source, len(expected)) == expected

    run(play())


@pytest.mark.parametrize("last", [10, JOINED_SIZE_MAX + 1])
async def test_a_small_answer_reaches_the_kernel_immediately(last: int):
    async with connected() as (transport, source):
        SocketWriter(transport, lambda: None).write(parts_of(3, last))
        assert source.recv(1 << 20) == b"\0" * 3 + b"\1" * last


async def test_nothing_overtakes_what_waits_in_the_transport():
    async with connected() as (transport, source):
        writer = SocketWriter(transport, lambda: None)
        many, few = 1 << 20, 5
        writer.write([b"a" * many])
        assert transport.get_write_buffer_size() > 0
        source.recv(1 << 20)  # now the kernel would take more
        writer.write([b"b" * few])
        rest = await read_all(source, transport.get_write_buffer_size())
        while not rest.endswith(b"b" * few):
            rest += await read_all(source, 1)
        assert rest.count(b"b") == few


async def test_a_broken_line_is_the_transports_to_report():
    lost = asyncio.get_running_loop().create_future()

    class Protocol(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set_result(exc)

    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
    writer = SocketWriter(cast(asyncio.Transport, transport), lambda: None)
    theirs.close()
    assert writer.write([b"into the void"]) == 13
    await lost
    assert transport.is_closing()


async def test_where_a_socket_is_no_file_the_transport_writes(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> int:
        raise AssertionError("written past the transport")

    monkeypatch.setattr(module, "_IS_SOCKET_A_FILE", False)
    async with connected() as (transport, source):
        writer = SocketWriter(transport, lambda: None)
        monkeypatch.setattr(os, "write", refuse)
        monkeypatch.setattr(os, "writev", refuse)
        writer.write(parts_of(1, 1))
        writer.write(parts_of(1, JOINED_SIZE_MAX + 1))
        size = JOINED_SIZE_MAX + 4
        assert await read_all(source, size) == b"\0\1\0" + b"\1" * (JOINED_SIZE_MAX + 1)


class Kernel:
    """Takes as much of each write as the test says, and remembers in how many parts it came."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: int = 1 << 30) -> None:
        self.takes = takes
        self.part_counts: list[int] = []
        own = SimpleNamespace(write=lambda fd, data: self._take([data]), writev=lambda fd, parts: self._take(parts))
        monkeypatch.setattr(module, "os", own)

    def _take(self, parts: list[bytes]) -> int:
        self.part_counts.append(len(parts))
        return min(self.takes, sum(map(len, parts)))


@pytest.fixture
def plain() -> Iterator[FakeTransport]:
    """A transport with a socket that is not written to."""
    with socket.socket() as nowhere:
        yield FakeTransport(socket=nowhere)


def writer_of(transport: FakeTransport) -> SocketWriter:
    return SocketWriter(cast(asyncio.Transport, transport), lambda: None)


@pytest.mark.parametrize(
    ("sizes", "part_count"),
    [
        ([10, 10], 1),
        ([10, JOINED_SIZE_MAX], 1),
        ([JOINED_SIZE_MAX + 1, 10], 1),
        ([10, JOINED_SIZE_MAX + 1], 2),
        ([0] * 1023 + [JOINED_SIZE_MAX + 1], 1024),
        ([0] * 1024 + [JOINED_SIZE_MAX + 1], 1),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
def test_large_parts_are_named_to_the_kernel_and_small_or_too_many_are_joined(
    sizes: list[int], part_count: int, plain: FakeTransport, monkeypatch: pytest.MonkeyPatch
):
    kernel = Kernel(monkeypatch)
    assert writer_of(plain).write(parts_of(*sizes)) == sum(sizes)
    assert kernel.part_counts == [part_count]
    assert plain.writes == []


@pytest.mark.parametrize("last", [9, JOINED_SIZE_MAX + 1])
@pytest.mark.parametrize("state", ["closing", "full", "encrypted", "without a socket"])
def test_past_the_transport_goes_only_what_may(
    state: str, last: int, plain: FakeTransport, monkeypatch: pytest.MonkeyPatch
):
    kernel, parts = Kernel(monkeypatch), parts_of(3, last)
    match state:
        case "closing":
            plain.close()
        case "full":
            plain.unwritten_size = 1
        case "encrypted":
            plain.extra["ssl_object"] = object()
        case _:
            del plain.extra["socket"]
    assert writer_of(plain).write(parts) == 3 + last
    assert (kernel.part_counts, plain.writes) == ([], [b"".join(parts)])


@pytest.mark.parametrize("last", [9, JOINED_SIZE_MAX + 1])
@pytest.mark.parametrize("takes", [0, 2, 3, 4, 10])
def test_the_transport_writes_what_the_kernel_did_not_take(
    takes: int, last: int, plain: FakeTransport, monkeypatch: pytest.MonkeyPatch
):
    Kernel(monkeypatch, takes)
    parts = parts_of(3, 1, last)
    assert writer_of(plain).write(parts) == 4 + last
    assert plain.writes == [b"".join(parts)[takes:]]


def test_a_part_that_the_kernel_took_whole_leaves_no_empty_one(plain: FakeTransport, monkeypatch: pytest.MonkeyPatch):
    handed: list[list[bytes]] = []
    monkeypatch.setattr(plain, "writelines", handed.append)
    Kernel(monkeypatch, 4)
    large = bytes(JOINED_SIZE_MAX + 1)
    writer_of(plain).write([b"one", b"2", b"three", large])
    assert handed == [[b"three", large]]
