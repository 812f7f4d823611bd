"""A connection on the event loop: the thin asyncio shell around a session.

All answers of one read leave in one write; answers that come later, and requests of our own, are joined per turn of
the loop. Next to it stand its flow control, its timeouts and the timer of its requests; TLS is a layer below it
(`tls_transport`), of which it knows nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from itertools import chain
from time import perf_counter
from typing import TypeVar, cast

from orbitmq.address import format_peer
from orbitmq.errors import ClientError, ConnectionBroken, ConnectionFailed, FrameError, RequestTimeout
from orbitmq.net.connection.budgets import LARGE_SIZE
from orbitmq.net.connection.endpoint import Endpoint
from orbitmq.net.connection.flow_control import FlowControl
from orbitmq.net.connection.request_timers import RequestTimers
from orbitmq.net.connection.socket_writer import SocketWriter
from orbitmq.net.connection.timeouts import Timeouts
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.reply import Reply, encode_reply_parts
from orbitmq.net.session import Pending, Session, Waiter, make_request
from orbitmq.net.time_slices import TURN_COUNT, cost_of
from orbitmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, decode_command
from orbitmq.wire.frame import Frame, count_frames, sniff_foreign

log = logging.getLogger(__name__)

T = TypeVar("T")

BAD_FRAME = "bad frame"
"""The reason under which connections are counted that sent no frame, and no protocol that we know."""

_FIRST_BYTES = 16
_DONE = object()
_SAMPLE_MASK = 15
_REJOINED_SIZE_MAX = 16 * 1024
"""Bytes of an unfinished frame that are worth copying once more."""
"""One read in sixteen is timed: the clock would cost as much as the histogram tells."""


class Connection(asyncio.Protocol):
    """One connection, of a server or of a client: both ends may ask and answer.

    `remote` is `host:port`; `id` is unique within the endpoint; `counters` are the endpoint's.
    """

    __slots__ = (
        "_answer_fast",
        "_endpoint",
        "_first_bytes",
        "_flow",
        "_frames",
        "_has_counted_partial",
        "_is_write_due",
        "_loop",
        "_reads",
        "_session",
        "_timeouts",
        "_timers",
        "_transport",
        "_writer",
        "_writes",
        "counters",
        "id",
        "is_closed",
        "pending_count",
        "remote",
        "waited_ms",
    )

    # Both are there from `connection_made` on, and nothing needs them before: no read or write pays for a look.
    _transport: asyncio.Transport
    _flow: FlowControl

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self.id = endpoint.next_id()
        self.remote = "unknown:0"
        self.is_closed = False
        self.pending_count = 0
        self.waited_ms = 0
        self.counters = endpoint.counters
        self._endpoint = endpoint
        self._answer_fast = endpoint.answer_fast
        self._loop = loop
        self._session = Session(endpoint.limits.frame_size_max)
        self._timeouts = Timeouts()
        self._timers: RequestTimers | None = None
        self._writer: SocketWriter | None = None
        self._reads = 0
        self._writes = 0
        self._frames = 0
        self._first_bytes = b""
        self._is_write_due = False
        self._has_counted_partial = False

    # What programs use.

    @property
    def local_port(self) -> int:
        """The port of ours that the peer is connected to."""
        return int(self._transport.get_extra_info("sockname", (None, 0))[1])

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
        self._write_soon()
        timers = self._timers
        if timers is None:  # not before: most connections of a server never ask
            timers = self._timers = RequestTimers(self._loop, self._session, self._expire)
        if deadline_ms < timers.due_ms:
            timers.arm(deadline_ms)

    def send_oneway(self, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        """Send a one-way request; nothing happens on a closed connection."""
        if not self.is_closed:
            self._session.oneway(self._endpoint.signed(make_request(header, body, code=code)))
            self._write_soon()

    def answer_later(self, command: Command, reply: Reply, *, was_pending: bool) -> None:
        """Send the answer of a handler that returned LATER."""
        if self.is_closed:
            return
        if was_pending:
            self.pending_count -= 1
        if reply.code:
            self.counters.refusals[command.code, reply.code] += 1
        if not command.flag & FLAG_ONEWAY:
            parts = encode_reply_parts(command, reply)
            self._flow.pending_size += sum(map(len, parts))
            self._session.out += parts
            self._write_soon()
        self._tell_waiting()

    def has_room(self, size: int) -> bool:
        """Return True if an answer of so many bytes may go out now: the peer reads, and others do, too."""
        if self._flow.is_paused:
            return False
        return size <= LARGE_SIZE or not self._endpoint.waiting_answers.is_over_budget

    def answer_held(self, answers: list[bytes]) -> None:
        """Send answers that a fast path held back; it raised `pending_count` by one for them."""
        if self.is_closed:
            return
        self.pending_count -= 1
        self._session.out += answers
        self._write_soon()
        self._tell_waiting()

    def work_on(self, work: Iterator[None]) -> None:
        """Take a step of a request's work in each turn of this connection; its next requests wait until all is done."""
        flow = self._flow
        # Another may be under way: a request that had to wait for something is served out of its order.
        flow.work = work if flow.work is None else chain(flow.work, work)
        flow.choose_reading()
        self._serve_later()

    def close(self) -> None:
        """Write what waits, then close."""
        if not self.is_closed:
            self._flush()
            self.is_closed = True
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close immediately and count why."""
        if not self.is_closed:
            self.counters.closed_by_us[reason] += 1
            self.kill()

    def kill(self) -> None:
        """Close immediately, whatever waits to be written; a connection that is closing, too."""
        self.is_closed = True
        self._transport.abort()

    def refuse(self, error: FrameError) -> None:
        """Disconnect a peer that breaks the protocol, and say what it seems to speak instead."""
        is_foreign = not self._frames and self._transport.get_extra_info("ssl_object") is None
        kind = sniff_foreign(self._first_bytes) if is_foreign else None
        if kind is not None:
            self._endpoint.name_foreigner(kind, self.remote)
        elif is_worth_a_line(self.counters.closed_by_us[BAD_FRAME] + 1):
            log.warning("%s: disconnected %s: %s", self._endpoint.name, self.remote, error)
        self.abort(kind or BAD_FRAME)

    # What the event loop calls, or the layer below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter the connection, unless a limit forbids it."""
        endpoint = self._endpoint
        self._transport = cast(asyncio.Transport, transport)
        self.remote = format_peer(transport.get_extra_info("peername"))
        self._flow = FlowControl(
            self._transport,
            self._loop,
            limits=endpoint.limits,
            counters=self.counters,
            is_listener=endpoint.is_listener,
        )
        refusal = endpoint.admit(self, self._ip)
        if refusal is not None:
            self.counters.connections_refused += 1
            if is_worth_a_line(self.counters.connections_refused):
                log.warning("%s: refused a connection from %s: %s", endpoint.name, self.remote, refusal)
            self.kill()
            return
        self._transport.set_write_buffer_limits(high=endpoint.limits.write_pause_size)

    def move_onto(self, transport: asyncio.Transport) -> None:
        """Write through another transport from now on: a layer has come between, before the first read."""
        self._transport = transport
        self._writer = None
        self._flow.move_onto(transport)

    def data_received(self, data: bytes) -> None:
        """Serve every whole frame of one read; everything that they make us say leaves in one write."""
        if self.is_closed:
            return
        self._reads += 1
        self.counters.bytes_received += len(data)
        began = 0.0 if self._reads & _SAMPLE_MASK else perf_counter()
        session, flow = self._session, self._flow
        # The fast path knows whole frames at the start of a read, and nothing may overtake frames that are held back.
        # Under load every read ends amid a frame: without what came of it before, the next one would take the slow path.
        is_amid = bool(session.partial) and (not self._frames or len(session.partial) > _REJOINED_SIZE_MAX)
        if self._answer_fast is None or is_amid or flow.held or flow.work is not None:
            self._collecting(self._serve_bytes, data)
        else:
            if session.partial:
                data = session.take_partial() + data
            size = self._answer_fast(data, session.out, self)
            if size:
                self._frames += 1
                if flow.rate_limit is not None:
                    flow.throttle(count_frames(data, size))
            if size == len(data) and not self._has_counted_partial:
                self._flush()
            else:
                self._collecting(self._serve_bytes, data[size:])
        if began:
            self.counters.service_s.observe(perf_counter() - began)

    def note_activity(self) -> None:
        """Count a read that made nothing plain: a layer below had use for all of it."""
        self._reads += 1

    def pause_writing(self) -> None:
        """Read nothing more from a client that does not read."""
        self._flow.is_paused = True
        self._flow.choose_reading()

    def resume_writing(self) -> None:
        """Serve what was held back, and go on reading."""
        self._flow.is_paused = False
        self._timeouts.end_stall()
        self._serve_later()
        self._flow.choose_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake all waiters."""
        self.is_closed = True
        if self._timers is not None:
            self._timers.cancel()
            self._timers = None  # it knows a method of this connection: as a circle, both would stay until a collection
        self._writer = None  # and so does this
        why = f": {exc}" if exc else ""
        for pending in self._session.abandon():
            pending.waiter(ConnectionBroken(f"the connection to {self.remote} broke before the answer came{why}"))
        self._endpoint.forget(self, self._ip)

    def tick(self, elapsed_ms: int) -> None:
        """Close when idle, when a frame does not get whole, or when the peer does not read, for too long."""
        reason = self._timeouts.tick(
            self._endpoint.limits,
            elapsed_ms,
            activity=self._reads + self._writes,
            frames=self._frames,
            awaits_answer=self._session.pending_count > 0,
            waits_for_frame=bool(self._session.partial) and not self._flow.is_holding_back,
            is_stalled=self._flow.is_paused,
        )
        if reason is not None:
            self.abort(reason)

    @property
    def _ip(self) -> str:
        return self.remote.rpartition(":")[0]

    def _serve_bytes(self, data: bytes) -> None:
        """Serve bytes that no fast path knows."""
        if not self._frames:
            self._first_bytes = (self._first_bytes + data[:_FIRST_BYTES])[:_FIRST_BYTES]
        frames = self._session.feed(data)
        flow = self._flow
        if flow.rate_limit is not None:
            flow.throttle(len(frames))
        if flow.held or flow.work is not None:
            flow.hold(frames)
        else:
            self._serve_frames(frames)
        if self._has_counted_partial or self._session.partial:
            self._has_counted_partial = self._endpoint.partial_frames.note(
                self.id, self._ip, len(self._session.partial), self.abort
            )

    def _serve_frames(self, frames: list[Frame]) -> None:
        """Serve as many frames as one turn has room for; the others wait for turns to come, and until the peer reads."""
        flow, clock = self._flow, self._endpoint.turns.clock
        ends = clock() + flow.turn_s if len(frames) > 1 else math.inf
        for count, frame in enumerate(frames, 1):
            self._frames += 1
            self._serve(frame)
            is_over = flow.pending_size > flow.pending_size_max or count == flow.turn_count or clock() > ends
            if is_over or flow.work is not None:
                self._flush()
                if count < len(frames):
                    flow.hold(frames[count:])
                    self._serve_later()
                return

    def _serve_later(self) -> None:
        """Go on when it is our turn; held frames wait while the peer does not read: `resume_writing` comes back then."""
        flow = self._flow
        if (flow.work is not None or (flow.held and not flow.is_paused)) and not flow.is_queued:
            flow.is_queued = True
            self._endpoint.turns.wait(self._take_turn, self._loop)

    def _take_turn(self) -> int:
        """Go on with work under way, or serve some of the frames that were held back; return what that cost the others."""
        flow, counters = self._flow, self.counters
        flow.is_queued = False
        if flow.work is not None:
            return self._go_on(flow.work)
        served, sent = self._frames, counters.bytes_sent
        if flow.held and not flow.is_paused and not self.is_closed:
            since = flow.held_since
            self.waited_ms = int((self._loop.time() - since) * 1000)
            self._collecting(self._serve_frames, flow.take_held())
            self.waited_ms = 0
            flow.held_since = since
        flow.choose_reading()
        return cost_of(self._frames - served, counters.bytes_sent - sent)

    def _go_on(self, work: Iterator[None]) -> int:
        """Take the next step of a request's work, also when its client has left meanwhile; return what that cost."""
        flow = self._flow
        if next(work, _DONE) is _DONE:
            flow.work = None
            flow.choose_reading()
        self._serve_later()
        return TURN_COUNT

    def _serve(self, frame: Frame) -> None:
        command = decode_command(frame)
        if not command.flag & FLAG_RESPONSE:
            for part in self._endpoint.dispatcher.serve(frame, command, self):
                self._flow.pending_size += len(part)
                self._session.out.append(part)
        elif not self._session.resolve(command):
            self.counters.unmatched_answers += 1

    def _collecting(self, step: Callable[[T], None], argument: T) -> None:
        """Run a step, and write what it answers in one piece at its end."""
        self._is_write_due = True
        try:
            step(argument)
        except FrameError as error:
            self._flush()
            self.refuse(error)
            return
        finally:
            self._is_write_due = False
        self._flush()

    def _write_soon(self) -> None:
        """Write at the end of this read, or of this turn of the loop."""
        if not self._is_write_due:
            self._is_write_due = True
            self._loop.call_soon(self._write_collected)

    def _write_collected(self) -> None:
        self._is_write_due = False
        self._flush()

    def _flush(self) -> None:
        out = self._session.out
        if not out or self.is_closed:
            return
        flow = self._flow
        flow.pending_size = 0
        self._writes += 1
        if self._writer is None:  # not before: thousands may be idle, and 200 bytes each
            self._writer = SocketWriter(self._transport, self._note_waiting)
        self.counters.bytes_sent += self._writer.write(out)
        out.clear()
        if flow.is_paused and self._transport.get_write_buffer_size() > self._endpoint.limits.write_buffer_max > 0:
            self.abort("write buffer")

    def _note_waiting(self) -> None:
        """Count answers that the kernel does not take now."""
        self._endpoint.waiting_answers.note(self.id, self._transport.get_write_buffer_size, self.abort)

    def _tell_waiting(self) -> None:
        """Let the waiters for the last late answer check again, once this one has been written."""
        if self._endpoint.is_awaited:
            self._loop.call_soon(self._endpoint.note_change)

    def _expire(self, expired: list[Pending]) -> None:
        """Tell those whose requests were not answered in time."""
        is_silent = False
        for pending in expired:
            is_silent = is_silent or pending.reads == self._reads
            pending.waiter(RequestTimeout(f"{self.remote} did not answer request {pending.code} in time"))
        if is_silent and not self._endpoint.is_listener:
            # Nothing at all came since that request left: the server is gone, and TCP has not noticed.
            self.abort("silent peer")
