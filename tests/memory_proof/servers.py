"""Two NameServers on one loop that know the same and are asked the same: one remembers, one computes everything again."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from memory_proof.stream import Ask
from orbitmq.address import parse_address
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.wire.command import Command, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder

SCAN_MS = 600_000
"""Never by itself: time is the proof's own."""
_OPAQUE_STEP = 7_654_321
_TURNS_MAX = 10_000
_TURNS_AFTER_SCAN = 20


class FakeClock:
    """Time that only the proof moves."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


class Line(asyncio.Protocol):
    """A connection to one of the servers; it asks one thing, or several in one write, and waits."""

    def __init__(self) -> None:
        self.is_lost = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._count = 0
        self._places: dict[int, int] = {}
        self._answers: list[Command | None] = []
        self._whole: asyncio.Future[list[Command]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost.set_result(None)
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(ConnectionError("closed instead of answering"))

    def data_received(self, data: bytes) -> None:
        for answer in map(decode_command, self._decoder.feed(data)):
            self._answers[self._places.pop(answer.opaque)] = answer._replace(opaque=0)
        if not self._places and self._whole is not None:
            self._whole.set_result(cast(list[Command], self._answers))
            self._whole = None

    def ask(self, asks: tuple[Ask, ...]) -> asyncio.Future[list[Command]]:
        """Send requests; the result is their answers in the requests' order, all with opaque 0."""
        assert self._transport is not None
        self._whole = whole = asyncio.get_running_loop().create_future()
        if self.is_lost.done():
            whole.set_exception(ConnectionError("was closed before"))
            return whole
        self._answers = [None] * len(asks)
        frames = []
        for place, ask in enumerate(asks):
            opaque = self._next_opaque()
            while opaque in self._places:
                opaque = self._next_opaque()
            self._places[opaque] = place
            frames.append(_frame(ask, opaque))
        self._transport.write(b"".join(frames))
        return whole

    def _next_opaque(self) -> int:
        """Return opaques of every length."""
        self._count += 1
        return self._count * _OPAQUE_STEP % min(10 ** (self._count % 10 + 1), 2**31)

    def close(self) -> None:
        """End the connection."""
        assert self._transport is not None
        self._transport.abort()


class Side:
    """One of the two servers, with its connections by number."""

    def __init__(self, folder: Path, clock: FakeClock, *, has_memories: bool) -> None:
        config = NameServerConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            scan_not_active_broker_interval=SCAN_MS,
            wait_seconds_for_service=0,
            kv_config_path=folder / "kvConfig.json",
            config_store_path=folder / "namesrv.properties",
        )
        self.server = _make_server(config, clock, has_memories)
        self._lines: dict[int, Line] = {}

    async def start(self) -> None:
        """Listen."""
        await self.server.start()

    async def ask(self, asks: tuple[Ask, ...]) -> list[Command]:
        """Ask through the connection of the first request."""
        client = asks[0].client
        line = self._lines.get(client)
        if line is not None:
            with contextlib.suppress(ConnectionError):  # the server ends the connection of a broker whose lease is over
                return await line.ask(asks)
        host, port = parse_address(self.server.address)
        _, line = await asyncio.get_running_loop().create_connection(Line, host, port)
        self._lines[client] = line
        return await line.ask(asks)

    async def hang_up(self, client: int) -> None:
        """Close a connection, and wait until the server has seen it."""
        line = self._lines.pop(client, None)
        if line is None:
            return
        line.close()
        await line.is_lost
        for _ in range(_TURNS_MAX):
            if len(self.server.server.connections) <= len(self._lines):
                return
            await asyncio.sleep(0)
        raise AssertionError("the server has not seen that a connection has ended")

    async def scan(self) -> None:
        """Let the server look at the leases, and the connections that it ends be gone."""
        self.server.scan()
        for _ in range(_TURNS_AFTER_SCAN):
            await asyncio.sleep(0)
        for client in [client for client, line in self._lines.items() if line.is_lost.done()]:
            del self._lines[client]

    async def close(self) -> None:
        """Stop the server."""
        for line in self._lines.values():
            line.close()
        await self.server.stop()


@contextlib.asynccontextmanager
async def two_sides(clock: FakeClock) -> AsyncIterator[tuple[Side, Side]]:
    """Start both servers, empty."""
    memory_disk = Path("/dev/shm")  # the store's writes are none of the proof's business
    with tempfile.TemporaryDirectory(dir=memory_disk if memory_disk.is_dir() else None) as folder:
        remembering, bare = (
            Side(Path(folder, str(has_memories)), clock, has_memories=has_memories) for has_memories in (True, False)
        )
        await remembering.start()
        await bare.start()
        try:
            yield remembering, bare
        finally:
            await remembering.close()
            await bare.close()


def _make_server(config: NameServerConfig, clock: FakeClock, has_memories: bool) -> NameServer:
    server = NameServer(config, clock=clock, lease_clock=clock, memories=has_memories)
    if not has_memories:
        _forget_groups(server)
    return server


def _forget_groups(server: NameServer) -> None:
    """Have the value by which routes show a group recreated for each question, too."""
    tables: Any = server.service.tables

    def without_groups(question: Any) -> Any:
        def ask(*arguments: Any) -> Any:
            for group in tables._groups.values():
                group._data = None
            return question(*arguments)

        return ask

    tables.lookup, tables.cluster_info = without_groups(tables.lookup), without_groups(tables.cluster_info)


def _frame(ask: Ask, opaque: int) -> bytes:
    command = Command(
        ask.code,
        opaque,
        ext_fields=ask.fields,
        body=ask.body,
        language="JAVA",
        version=ask.version,
        serialize_type=int(ask.is_binary),
    )
    return encode_command(command)
