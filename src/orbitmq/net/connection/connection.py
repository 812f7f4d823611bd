"""A connection on the event loop: the thin asyncio shell around a session.

All answers of one read leave in one write; answers that come later, and requests of our own, are joined per turn of
the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar, cast

from orbitmq.address import format_peer
from orbitmq.errors import ClientError, ConnectionFailed, FrameError, RequestTimeout
from orbitmq.net.connection.endpoint import Endpoint
from orbitmq.net.connection.socket_writer import Outlet
from orbitmq.net.connection.timeouts import Allowance, Watch
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.reply import Reply, encode_reply_parts
from orbitmq.net.security.tls import HANDSHAKE_BYTE, TlsLayer, TlsMode
from orbitmq.net.session import Session, Waiter, make_request
from orbitmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, decode_command
from orbitmq.wire.frame import Frame, count_frames, sniff_foreign

log = logging.getLogger(__name__)

T = TypeVar("T")

BAD_FRAME = "bad frame"
"""The reason under which connections are counted that sent no frame, and no protocol that we know."""

_NOTHING: list[Frame] = []
"""Shared by all connections that hold nothing back; never added to."""
_FIRST_BYTES = 16
_SAMPLE_MASK = 15
"""One read in sixteen is timed: the clock would cost as much as the histogram tells."""


class Connection(asyncio.Protocol):
    """One connection, of a server or of a client: both ends may ask and answer.

    `remote` is `host:port`; `id` is unique within the endpoint; `counters` are the endpoint's.
    """

    __slots__ = (
        "_allowance",
        "_answer_fast",
        "_dispatcher",
        "_endpoint",
        "_fast_path",
        "_first_bytes",
        "_frames",
        "_held",
        "_is_joining",
        "_is_paused",
        "_is_throttled",
        "_loop",
        "_outlet",
        "_owed",
        "_reads",
        "_session",
        "_timer",
        "_timer_ms",
        "_tls",
        "_transport",
        "_watch",
        "_writes",
        "counters",
        "id",
        "is_closed",
        "parked_count",
        "remote",
    )

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self.id = endpoint.next_id()
        self.remote = "unknown:0"
        self.is_closed = False
        self.parked_count = 0
        self._endpoint = endpoint
        self.counters = endpoint.counters
        self._dispatcher = endpoint.dispatcher
        self._fast_path = endpoint.fast_path
        self._tls: TlsLayer | None = None
        self._loop = loop
        self._session = Session(endpoint.limits.frame_size_max)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._reads = 0
        self._writes = 0
        self._frames = 0
        self._first_bytes = b""
        self._is_joining = False
        self._is_paused = False
        self._is_throttled = False
        self._outlet: Outlet | None = None
        self._owed = 0
        self._held = _NOTHING
        rate = endpoint.limits.requests_per_second_max
        self._allowance = Allowance(rate) if rate else None
        self._watch = Watch()
        self._answer_fast = endpoint.answer_fast

    # What programs use.

    def now_ms(self) -> int:
        """Read the endpoint's clock."""
        return self._endpoint.clock()

    async def request(self, header: object, body: bytes = b"", *, timeout_ms: int, code: int | None = None) -> Command:
        """Send a request and return its answer, whatever its code.

        Raises:
            RequestTimeout: no answer within `timeout_ms`.
            ConnectionFailed: the connection is closed, or breaks before the answer comes.
        """
        future: asyncio.Future[Command] = self._loop.create_future()

        def waiter(answer: Command | ClientError) -> None:
            if future.done():
                return
            if isinstance(answer, ClientError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.send_request(make_request(header, body, code=code), waiter, timeout_ms=timeout_ms)
        return await future

    def send_request(self, command: Command, waiter: Waiter, *, timeout_ms: int) -> None:
        """Send a request; `waiter` is told the answer or the error, without a future or a task."""
        if self.is_closed:
            waiter(ConnectionFailed(f"the connection to {self.remote} is closed"))
            return
        deadline_ms = int(self._loop.time() * 1000) + timeout_ms
        self._session.request(self._endpoint.signed(command), waiter, deadline_ms, self._reads)
        self._join()
        if self._timer is None or deadline_ms < self._timer_ms:
            self._arm(deadline_ms)

    def send_oneway(self, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        """Send a request that nobody answers; nothing happens on a closed connection."""
        if not self.is_closed:
            self._session.oneway(self._endpoint.signed(make_request(header, body, code=code)))
            self._join()

    def answer_later(self, command: Command, reply: Reply, *, was_parked: bool) -> None:
        """Send the answer of a handler that returned LATER."""
        if self.is_closed:
            return
        if was_parked:
            self.parked_count -= 1
        if reply.code:
            self.counters.refusals[command.code, reply.code] += 1
        if not command.flag & FLAG_ONEWAY:
            self._put(encode_reply_parts(command, reply))
            self._join()
        self._tell_waiting()

    def answer_held(self, answers: list[bytes]) -> None:
        """Send answers that a fast path held back; it raised `parked_count` by one for them."""
        if self.is_closed:
            return
        self.parked_count -= 1
        self._session.out += answers
        self._join()
        self._tell_waiting()

    def close(self) -> None:
        """Write what waits, then close."""
        if self._transport is not None and not self.is_closed:
            self._flush()
            if self._tls is not None:
                self._tls.end()
                self._write_through(b"")
            self.is_closed = True
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once and count why."""
        if self._transport is not None and not self.is_closed:
            self.counters.closed_by_us[reason] += 1
            self.is_closed = True
            self._transport.abort()

    def kill(self) -> None:
        """Close at once, whatever waits to be written."""
        if self._transport is not None:
            self.is_closed = True
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter the connection, unless a limit forbids it."""
        self._transport = cast(asyncio.Transport, transport)
        self.remote = format_peer(transport.get_extra_info("peername"))
        refusal = self._endpoint.admit(self, self._ip)
        if refusal is not None:
            self.counters.connections_refused += 1
            if is_worth_a_line(self.counters.connections_refused):
                log.warning("%s: refused a connection from %s: %s", self._endpoint.name, self.remote, refusal)
            self.is_closed = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._endpoint.limits.write_pause_size)

    def data_received(self, data: bytes) -> None:
        """Take every whole frame of one read; everything it makes us say leaves in one write."""
        if self.is_closed:
            return
        self._reads += 1
        self.counters.bytes_received += len(data)
        began = 0.0 if self._reads & _SAMPLE_MASK else perf_counter()
        session = self._session
        if self._answer_fast is None or session.partial or self._held:
            self._joined(self._take if self._endpoint.tls is None else self._take_encrypted, data)
        elif (taken := self._answer_fast(data, session.out, self)) == len(data):
            self._frames += 1
            self._flush()
        else:
            self._frames += taken > 0
            self._joined(self._take_unknown, data[taken:])
        if began:
            self.counters.service_s.observe(perf_counter() - began)

    def pause_writing(self) -> None:
        """Read nothing more from a client that does not read. A client goes on reading, or both would wait."""
        self._is_paused = True
        self._choose_reading()

    def resume_writing(self) -> None:
        """Serve what was held back, and go on reading."""
        self._is_paused = False
        self._watch.hears_again()
        self._serve_held()
        self._choose_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        why = f": {exc}" if exc else ""
        for pending in self._session.abandon():
            pending.waiter(ConnectionFailed(f"the connection to {self.remote} broke before the answer came{why}"))
        self._endpoint.forget(self, self._ip)

    def tick(self, elapsed_ms: int) -> None:
        """Close when idle, when a frame does not get whole, or when the peer does not read, for too long."""
        is_waited_for = self._session.partial or (self._tls is not None and not self._tls.is_established)
        reason = self._watch.tick(
            self._endpoint.limits,
            elapsed_ms,
            activity=self._reads + self._writes,
            frames=self._frames,
            awaits_answer=self._session.pending_count > 0,
            waits_for_frame=bool(is_waited_for) and not self._is_held_back,
            is_deaf=self._is_paused,
        )
        if reason is not None:
            self.abort(reason)

    @property
    def _is_held_back(self) -> bool:
        """True while it is us who do not read."""
        return self._is_paused or self._is_throttled or bool(self._held)

    @property
    def _ip(self) -> str:
        return self.remote.rpartition(":")[0]

    def _take(self, data: bytes) -> None:
        session = self._session
        if self._fast_path is not None and not session.partial and not self._held:
            taken = self._fast_path.answer(data, session.out, self)
            if taken:
                self._frames += 1
                if self._allowance is not None:
                    self._throttle(self._allowance, count_frames(data, taken))
                if taken == len(data):
                    return
                data = data[taken:]
        self._take_unknown(data)

    def _take_unknown(self, data: bytes) -> None:
        """Take bytes that no fast path knows."""
        session = self._session
        if not self._frames:
            self._first_bytes = (self._first_bytes + data[:_FIRST_BYTES])[:_FIRST_BYTES]
        frames = session.feed(data)
        if self._allowance is not None:
            self._throttle(self._allowance, len(frames))
        if self._held:
            self._held = [*self._held, *frames]
        else:
            self._serve_all(frames)

    def _take_encrypted(self, data: bytes) -> None:
        """Take bytes where TLS is spoken: a connection's first byte says whether it begins a handshake."""
        tls = self._endpoint.tls
        assert tls is not None, "only endpoints with TLS come here"
        if self._reads == 1:
            if data[0] == HANDSHAKE_BYTE:
                self._tls = tls.begin()
                self.counters.connections_encrypted += 1
            elif tls.mode is TlsMode.ENFORCING:
                self.abort("no TLS")
                return
        if self._tls is None:
            self._take(data)
            return
        try:
            plain = self._tls.receive(data)
        finally:  # an alert tells the peer what was wrong with its handshake
            self._write_through(b"")
        if plain:
            self._take(plain)
        if self._tls.is_over:
            self.close()

    def _write_through(self, data: bytes) -> None:
        assert self._transport is not None, "a connection that is made has a transport"
        if self._tls is not None:
            if data:
                self._tls.encrypt(data)
            data = self._tls.take_out()
        if data:
            self._transport.write(data)

    def _serve_all(self, frames: list[Frame]) -> None:
        """Serve frames until the peer owes us reading more than it may; the others wait until it has read."""
        owed_max = self._endpoint.limits.write_pause_size
        for place, frame in enumerate(frames, 1):
            self._frames += 1
            self._serve(frame)
            if self._owed > owed_max and self._endpoint.is_listener:
                self._flush()
                if self._transport is not None and self._transport.get_write_buffer_size() > owed_max:
                    self._held = frames[place:]
                    if not self._is_paused:
                        self._loop.call_soon(self._serve_held)
                    return

    def _serve_held(self) -> None:
        if self._held and not self._is_paused and not self.is_closed:
            frames, self._held = self._held, _NOTHING
            self._joined(self._serve_all, frames)

    def _joined(self, step: Callable[[T], None], argument: T) -> None:
        """Do something whose answers leave in one write."""
        self._is_joining = True
        try:
            step(argument)
        except FrameError as error:
            self._flush()
            self._refuse(error)
            return
        finally:
            self._is_joining = False
        self._flush()

    def _throttle(self, allowance: Allowance, count: int) -> None:
        """Read nothing more for a while from a peer that asks more often than it may."""
        pause_s = allowance.take(count, self._loop.time())
        if pause_s and not self._is_throttled:
            self._is_throttled = True
            self.counters.throttled += 1
            self._choose_reading()
            self._loop.call_later(pause_s, self._end_throttling)

    def _end_throttling(self) -> None:
        self._is_throttled = False
        self._choose_reading()

    def _choose_reading(self) -> None:
        if self._transport is None or self._transport.is_closing() or not self._endpoint.is_listener:
            return
        if self._is_held_back:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _serve(self, frame: Frame) -> None:
        command = decode_command(frame)
        if command.flag & FLAG_RESPONSE:
            if not self._session.resolve(command):
                self.counters.unmatched_answers += 1
            return
        for part in self._dispatcher.serve(frame, command, self):
            self._owed += len(part)
            self._session.out.append(part)

    def _tell_waiting(self) -> None:
        """Tell whoever waits for the last late answers, after this one has been written."""
        if self._endpoint.is_awaited:
            self._loop.call_soon(self._endpoint.note_change)

    def _put(self, parts: tuple[bytes, ...]) -> None:
        for part in parts:
            self._owed += len(part)
            self._session.out.append(part)

    def _refuse(self, error: FrameError) -> None:
        kind = sniff_foreign(self._first_bytes) if not self._frames and self._tls is None else None
        if kind is not None:
            self._endpoint.name_foreigner(kind, self.remote)
        elif is_worth_a_line(self.counters.closed_by_us[BAD_FRAME] + 1):
            log.warning("%s: disconnected %s: %s", self._endpoint.name, self.remote, error)
        self.abort(kind or BAD_FRAME)

    def _join(self) -> None:
        """Write at the end of this read, or of this turn of the loop."""
        if not self._is_joining:
            self._is_joining = True
            self._loop.call_soon(self._flush_joined)

    def _flush_joined(self) -> None:
        self._is_joining = False
        self._flush()

    def _flush(self) -> None:
        if not self._session.out or self._transport is None or self.is_closed:
            return
        self._owed = 0
        self._writes += 1
        out = self._session.out
        if self._tls is None:
            if self._outlet is None:  # not before: thousands may be idle, and 200 bytes each
                self._outlet = Outlet(self._transport)
            self.counters.bytes_sent += self._outlet.write(out)
            out.clear()
        else:
            data = self._session.take_out()
            self.counters.bytes_sent += len(data)
            self._write_through(data)
        if self._is_paused and self._transport.get_write_buffer_size() > self._endpoint.limits.write_buffer_max > 0:
            self.abort("write buffer")

    def _arm(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        is_dead = False
        for pending in self._session.expire(int(self._loop.time() * 1000) + 1):
            is_dead = is_dead or pending.reads == self._reads
            pending.waiter(RequestTimeout(f"{self.remote} did not answer request {pending.code} in time"))
        if is_dead and not self._endpoint.is_listener:
            # Nothing at all came since that request left: the server is gone, and TCP has not noticed.
            self.abort("silent peer")
            return
        deadline_ms = self._session.next_deadline_ms
        if deadline_ms is not None and self._timer is None and not self.is_closed:
            self._arm(deadline_ms)
