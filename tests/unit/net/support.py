"""Builders for the tests of connections: handlers that echo, raw sockets, frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Reply
from orbitmq.net.limits import Limits
from orbitmq.net.server import Server
from orbitmq.wire.command import Command, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.headers import (
    BrokerHeartbeat,
    GetAllTopics,
    GetClusterInfo,
    GetRouteInfo,
    GetTopicsByCluster,
    WipeWritePerm,
)

ECHO = 105


class EchoService:
    """What the test handlers share: calls to be answered later, and what came one-way."""

    def __init__(self) -> None:
        self.held: list[Call[Any]] = []
        self.seen: list[str] = []
        self.arrived = asyncio.Event()


handlers: Handlers[EchoService] = Handlers()


@handlers.on(GetRouteInfo)
def echo(service: EchoService, call: Call[GetRouteInfo]) -> Reply:
    service.seen.append(call.header.topic)
    service.arrived.set()
    return Reply(body=call.header.topic.encode() + call.command.body)


@handlers.on(GetClusterInfo)
def hold(service: EchoService, call: Call[GetClusterInfo]) -> Any:
    service.held.append(call)
    service.arrived.set()
    return LATER


@handlers.on(GetAllTopics)
def fail(service: EchoService, call: Call[GetAllTopics]) -> Reply:
    raise ZeroDivisionError("by design")


@handlers.on(WipeWritePerm, body_size_max=10)
def refuse(service: EchoService, call: Call[WipeWritePerm]) -> Reply:
    raise Rejected(16, "not for you")


@handlers.on(GetTopicsByCluster)
def large(service: EchoService, call: Call[GetTopicsByCluster]) -> Reply:
    return Reply(body=bytes(int(call.header.cluster)))


@handlers.on(BrokerHeartbeat)
def answer_directly(service: EchoService, call: Call[BrokerHeartbeat]) -> Any:
    call.answer(Reply(remark="before returning"))
    return LATER


@asynccontextmanager
async def serving(limits: Limits | None = None, **options: Any) -> AsyncIterator[Server[EchoService]]:
    service = EchoService()
    server = Server(handlers, service, name="test", limits=limits or Limits(), **options)
    server.service = service  # type: ignore[attr-defined]
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


class RawClient:
    """A raw client: writes bytes, reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()
        self._commands: list[Command] = []

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> Command:
        while not self._commands:
            data = await self.reader.read(65536)
            if not data:
                raise EOFError
            self._commands += [decode_command(frame) for frame in self._decoder.feed(data)]
        return self._commands.pop(0)

    async def is_cut_off(self) -> bool:
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def peer_of(server: Server[Any]) -> AsyncIterator[RawClient]:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def request_frame(topic: str, opaque: int = 1, *, flag: int = 0, serialize_type: int = 0, body: bytes = b"") -> bytes:
    return encode_command(
        Command(ECHO, opaque, flag, ext_fields={"topic": topic}, body=body, serialize_type=serialize_type)
    )
