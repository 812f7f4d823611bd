"""Machines' connections: streams of bytes that are late, cut into other pieces, held back by broken links, and reset.

A stream loses nothing while both ends live, as TCP's: behind a broken link it waits, and goes on when the link is whole again.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any

from simulation.loop import PROCESS, SimLoop

if TYPE_CHECKING:
    from simulation.machines import Machine, Process

WINDOW = 256 * 1024
"""Bytes that may be under way, or wait to be read."""
_PIECE_MAX = 64 * 1024
_HIGH_WATER = 64 * 1024
_SYN_S = (1.0, 2.0, 4.0, 8.0)
"""After which pauses a connection is asked for again."""
_EPHEMERAL = 32_768


class Network:
    """Who listens where, which links are broken, and how long bytes take.

    Args:
        trace: is told what happens.
    """

    def __init__(self, loop: SimLoop, random: Random, trace: Callable[[str], None]) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace
        self.latency_s = 0.000_2
        self.jitter_s = 0.000_5
        self.slow: dict[tuple[str, str], float] = {}
        """Links that take longer, by seconds."""
        self.cut: set[tuple[str, str]] = set()
        """Links that are broken, from one address to another."""
        self.machines: dict[str, Machine] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._streams: list[Stream] = []
        self._port = _EPHEMERAL

    def break_link(self, source: str, target: str) -> None:
        """Let nothing through from one machine to another."""
        self.cut.add((source, target))

    def mend(self) -> None:
        """Make all links whole and fast."""
        self.cut.clear()
        self.slow.clear()
        self._streams = [stream for stream in self._streams if not stream.is_over]
        for stream in self._streams:
            stream.go_on()

    def mend_link(self, source: str, target: str) -> None:
        self.cut.discard((source, target))
        for stream in self._streams:
            if (stream.source, stream.target) == (source, target):
                stream.go_on()

    def delay_s(self, source: str, target: str) -> float:
        """Return how long the next piece takes."""
        return self.latency_s + self.random.random() * self.jitter_s + self.slow.get((source, target), 0.0)

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> Listener:
        """Listen on an address of the machine that runs now."""
        process = _running()
        address = process.machine.address if host in ("", "0.0.0.0", "127.0.0.1", None) else host
        assert address == process.machine.address, f"{address} is none of {process.machine}"
        port = port or self.free_port()
        old = self._listeners.get((address, port))
        if old is not None and old.is_open:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listener = self._listeners[address, port] = Listener(factory, process, (address, port))
        return listener

    def free_port(self) -> int:
        """Return a free port."""
        self._port += 1
        return self._port

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Transport, Any]:
        """Connect from the machine that runs now.

        Raises:
            ConnectionRefusedError: no listener there. OSError: the machine does not answer.
        """
        process = _running()
        source = process.machine.address
        for pause in _SYN_S:
            if (source, host) not in self.cut and (host, source) not in self.cut and self._is_up(host):
                break
            await asyncio.sleep(pause)
        else:
            raise OSError(errno.ETIMEDOUT, "Connection timed out")
        await asyncio.sleep(self.delay_s(source, host) + self.delay_s(host, source))
        listener = self._listeners.get((host, port))
        if listener is None or not listener.is_open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{host}', {port})")
        here = Transport(self, process, (source, self.free_port()), (host, port), copy_context())
        there = Transport(self, listener.process, (host, port), here.local, listener.context)
        here.out, there.out = Stream(self, here, there), Stream(self, there, here)
        self._streams += (here.out, there.out)
        self.trace(f"{here.local} connects to {there.local}")
        protocol = factory()
        here.protocol = protocol
        self.loop.call_soon(there.begin, listener.factory, context=listener.context)
        protocol.connection_made(here)
        return here, protocol

    def end_of(self, process: Process, *, is_silent: bool) -> None:
        """Let a process's connections end with it: immediately, or without a word when its machine has no power."""
        self.trace(f"{process} ends")
        for stream in [stream for stream in self._streams if stream.sender.process is process]:
            stream.sender.is_lost = True
            if is_silent:
                stream.is_over = True
            else:
                stream.end(is_reset=self.random.random() < 0.5)
        self._streams = [stream for stream in self._streams if not stream.is_over]

    def _is_up(self, address: str) -> bool:
        machine = self.machines.get(address)
        return machine is not None and machine.has_power


class Listener:
    """What `create_server` returns (asyncio.Server, as much of it as is used), and its one socket."""

    def __init__(self, factory: Callable[[], Any], process: Process, address: tuple[str, int]) -> None:
        self.factory = factory
        self.process = process
        self.context = copy_context()
        self._address = address
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return not self._is_closed and not self.process.is_dead

    @property
    def sockets(self) -> tuple[Listener, ...]:
        return () if self._is_closed else (self,)

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._is_closed = True

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""


class Stream:
    """One direction of a connection: bytes, at last an end or a reset."""

    def __init__(self, network: Network, sender: Transport, receiver: Transport) -> None:
        self._network = network
        self.sender, self.receiver = sender, receiver
        self.source, self.target = sender.local[0], receiver.local[0]
        self.is_over = False
        self.under_way = 0
        self._pieces: deque[tuple[float, bytes | None]] = deque()
        """With the time of arrival; None is the end."""
        self._is_reset = False
        self._last_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        return WINDOW - self.under_way

    def send(self, data: bytes) -> None:
        """Put bytes on the way, in pieces."""
        random, start = self._network.random, 0
        self.under_way += len(data)
        while start < len(data):
            size = random.randint(1, _PIECE_MAX) if random.random() < 0.2 else _PIECE_MAX
            self._put(data[start : start + size])
            start += size

    def end(self, *, is_reset: bool) -> None:
        """Nothing more comes; a reset overtakes what is under way."""
        if is_reset:
            self._pieces.clear()
            self._is_reset = True
        self._put(None)

    def go_on(self) -> None:
        """The link is whole again: what has waited comes when it is sent the next time."""
        if self._pieces and not self.is_over:
            self._arm(self._network.loop.time() + 0.2 + self._network.random.random())

    def taken(self, size: int) -> None:
        """The other end has read so much."""
        self.under_way -= size
        self.sender.push()

    def _put(self, piece: bytes | None) -> None:
        if self.is_over:
            return
        now = self._network.loop.time()
        self._last_s = max(self._last_s, now + self._network.delay_s(self.source, self.target))
        self._pieces.append((self._last_s, piece))
        if self._timer is None:
            self._arm(self._last_s)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._network.loop.call_at(when, self._arrive, context=_WORLD)

    def _arrive(self) -> None:
        self._timer = None
        if self.is_over or (self.source, self.target) in self._network.cut:
            return  # `go_on` comes when the link is whole
        now = self._network.loop.time()
        while self._pieces and self._pieces[0][0] <= now:
            _, piece = self._pieces.popleft()
            if not self.receiver.process.machine.has_power:
                return
            if piece is None:
                self.is_over = True
                self.receiver.end(
                    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer") if self._is_reset else None
                )
            elif self.receiver.is_lost:
                self._network.loop.call_soon(
                    self.sender.end, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
                )
                self.is_over = True
            else:
                self.receiver.take(piece)
        if self._pieces:
            self._arm(self._pieces[0][0])


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, network: Network, process: Process, local: tuple[str, int], remote: tuple[str, int], context: Context
    ) -> None:
        super().__init__()
        self._network = network
        self.process = process
        self.local, self.remote = local, remote
        self.out: Stream
        self.protocol: Any = None
        self.is_lost = False
        self._context = context
        self._buffer = bytearray()
        self._is_closing = False
        self._is_reading = True
        self._is_paused = False
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._inbox: deque[bytes] = deque()
        self._end: list[Exception | None] = []

    def begin(self, factory: Callable[[], Any]) -> None:
        if not self.is_lost:
            self.protocol = factory()
            self.protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.remote, "sockname": self.local}.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def is_closing(self) -> bool:
        return self._is_closing or self.is_lost

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._network.loop.call_soon(self._read, context=self._context)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def write(self, data: Any) -> None:
        if self.is_lost or self._is_closing:
            return
        self._buffer += data
        self.push()
        if len(self._buffer) > self._high and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if not self.is_closing():
            self._is_closing = True
            self.push()

    def abort(self) -> None:
        if not self.is_lost:
            self._is_closing = True
            self._buffer.clear()
            self.out.end(is_reset=True)
            self._lose(None)

    def push(self) -> None:
        """Give to the network what it takes."""
        if self.is_lost:
            return
        if self._buffer and (size := min(self.out.room, len(self._buffer))) > 0:
            self.out.send(bytes(self._buffer[:size]))
            del self._buffer[:size]
            if self._is_paused and len(self._buffer) <= self._low:
                self._is_paused = False
                self._network.loop.call_soon(self._resume_writing, context=self._context)
        if self._is_closing and not self._buffer:
            self.out.end(is_reset=False)
            self._lose(None)

    def take(self, piece: bytes) -> None:
        """A piece arrives."""
        self._inbox.append(piece)
        self._network.loop.call_soon(self._read, context=self._context)

    def end(self, error: Exception | None) -> None:
        """The other end has ended."""
        if not self.is_lost:
            self._end.append(error)
            self._network.loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        if self._end and self._end[-1] is not None:
            self._inbox.clear()
        while self._inbox and self._is_reading and not self.is_lost:
            piece = self._inbox.popleft()
            self._other_out.taken(len(piece))
            if not self._is_closing:
                self.protocol.data_received(piece)
        if self._end and not self._inbox and not self.is_lost:
            error = self._end[-1]
            if error is None and not self._is_closing and self.protocol.eof_received():
                return
            self.out.end(is_reset=bool(error))
            self._buffer.clear()
            self._lose(error)

    @property
    def _other_out(self) -> Stream:
        return self.out.receiver.out

    def _resume_writing(self) -> None:
        if not self.is_lost:
            self.protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        self.is_lost = True
        self._inbox.clear()
        self._network.loop.call_soon(self._tell_lost, error, context=self._context)

    def _tell_lost(self, error: Exception | None) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(error)


_WORLD = Context()
"""Of what no process does."""


def _running() -> Process:
    process = PROCESS.get()
    assert process is not None, "only processes of machines have a network"
    return process
