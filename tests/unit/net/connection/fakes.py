"""A connection without a socket: a loop and a transport that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from orbitmq.errors import ClientError
from orbitmq.net.connection.connection import Connection
from orbitmq.net.connection.endpoint import Endpoint
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Dispatcher
from orbitmq.net.dispatch.fast_path import FastPath
from orbitmq.net.limits import Limits
from orbitmq.net.time_slices import TimeSlices
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import FrameDecoder

from ..support import EchoService, handlers


class FakeTimer:
    """A call that waits for its time, or was cancelled."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback, self.is_cancelled = when, callback, False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """Keeps calls until the test makes a turn, and timers until it lets their time come."""

    def __init__(self) -> None:
        self.now = 50.0
        self.soon: list[Callable[[], None]] = []
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., None], *arguments: object) -> None:
        self.soon.append(lambda: callback(*arguments))

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(when, callback))
        return self.timers[-1]

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: object) -> FakeTimer:
        return self.call_at(self.now + delay, lambda: callback(*arguments))

    @property
    def waiting(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if not timer.is_cancelled]

    def turn(self) -> None:
        """Do what is to be done soon."""
        calls, self.soon = self.soon, []
        for callback in calls:
            callback()

    def fire(self) -> None:
        """Let the time of the only timer come."""
        (timer,) = self.waiting
        timer.is_cancelled = True
        self.now = timer.when
        timer.callback()


class FakeTransport:
    """Keeps what is written to it; `unwritten_size` is what it says of the peer's reading."""

    def __init__(self, **extra: Any) -> None:
        self.extra = {"peername": ("10.0.0.1", 5), **extra}
        self.writes: list[bytes] = []
        self.unwritten_size = 0
        self.write_pause_size: int | None = None
        self.write_resume_size: int | None = None
        self.protocol: object = None
        self.is_reading = True
        self.calls: list[str] = []
        """How it was ended."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.extra.get(name, default)

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.write_pause_size, self.write_resume_size = high, low

    def get_write_buffer_size(self) -> int:
        return self.unwritten_size

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.writes.append(b"".join(parts))

    def is_closing(self) -> bool:
        return bool(self.calls)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


class Side:
    """One end of a connection, between a fake loop and a fake transport."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        is_listener: bool = True,
        fast_path: FastPath | None = None,
        transport: FakeTransport | None = None,
        **options: Any,
    ) -> None:
        self.loop, self.counters, self.service = FakeLoop(), Counters(), EchoService()
        self.transport = transport or FakeTransport()
        dispatcher = Dispatcher(
            handlers, self.service, name="test", counters=self.counters, clock=lambda: 7, fast_path=fast_path
        )
        self.endpoint = Endpoint(
            dispatcher,
            name="test",
            counters=self.counters,
            limits=limits or Limits(),
            clock=lambda: 7,
            fast_path=fast_path,
            is_listener=is_listener,
            **options,
        )
        self.now_s = 0.0
        self.endpoint.turns = TimeSlices(lambda: self.now_s)
        self.connection = Connection(self.endpoint, cast(asyncio.AbstractEventLoop, self.loop))
        self.connection.connection_made(cast(asyncio.Transport, self.transport))
        self.told: list[Command | ClientError] = []
        """What became of the requests sent by `ask`."""

    def ask(self, *, timeout_ms: int = 1000, code: int = 40) -> None:
        self.connection.send_request(Command(code), self.told.append, timeout_ms=timeout_ms)

    @property
    def written(self) -> list[Command]:
        """The commands that the peer can read by now."""
        return [decode_command(frame) for frame in FrameDecoder().feed(b"".join(self.transport.writes))]
