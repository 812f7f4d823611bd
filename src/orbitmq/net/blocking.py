"""A connection over a blocking socket, for scripts, notebooks and Spark's executors.

The session is the same as on the event loop: there is one place that matches answers with requests.
"""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, FrameError, RequestTimeout
from orbitmq.net.address_map import reachable
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.net.session import Session, make_request
from orbitmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, decode_command
from orbitmq.wire.frame import FRAME_SIZE_MAX, HEADER_SIZE_MASK, LENGTH, PREFIX, SERIALIZE_TYPE_MAX, Frame
from orbitmq.wire.signature import Credentials, sign_command

_READ_SIZE = 64 * 1024
"""Bytes that are read while no frame is known that needs more."""
TIMEOUT_MS = 3000
_NEVER_MS = sys.maxsize
"""A request's deadline in the session: the time that counts begins with `receive`."""


Place = Callable[[int, int], memoryview | None]
"""Returns memory for the body of the answer with an opaque, so many bytes; None: for that one, the connection takes its own."""


@dataclass(slots=True)
class _LargeFrame:
    """A frame whose body is read where it stays."""

    command: Command
    body: memoryview
    is_placed: bool
    filled: int = 0


class BlockingConnection:
    """One connection, used by one thread. Requests may be pipelined: `send` several, then `receive` each.

    Args:
        address: host:port.
        timeout_ms: for connecting with the handshake of TLS, and for each answer.
        credentials: sign every request with them.
        tls: connect with TLS (`tls.client_context`).

    Raises:
        ConnectionFailed: no connection, or the server's certificate is not accepted.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self._timeout_ms = timeout_ms
        self._credentials = credentials
        self._session = Session()
        self._answers: dict[int, Command] = {}
        self._order: list[int] = []
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._large: _LargeFrame | None = None
        """The large frame that is read now."""
        try:
            self._socket = _connect(address, timeout_ms / 1000, tls)
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {address}: {error}") from error

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def request(self, header: object, body: bytes = b"", *, code: int | None = None) -> Command:
        """Send a request and return its answer, whatever its code.

        Raises:
            RequestTimeout: no answer within the connection's time-out.
            ConnectionFailed: the connection broke.
        """
        return self.receive(self.send(header, body, code=code))

    def send(self, header: object, body: bytes = b"", *, code: int | None = None) -> int:
        """Queue a request and return its opaque; it leaves with the next `flush` or `receive`."""
        opaque = self._session.request(self._signed(header, body, code), self._keep, _NEVER_MS)
        self._order.append(opaque)
        return opaque

    def send_oneway(self, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        """Queue a one-way request; it leaves with the next `flush` or `receive`."""
        self._session.oneway(self._signed(header, body, code))

    def flush(self) -> None:
        """Write everything that `send` has queued."""
        if self._session.out:
            try:
                self._socket.settimeout(self._timeout_ms / 1000)
                self._socket.sendall(self._session.take_out())
            except OSError as error:
                raise self._broken(error) from error

    def receive(self, opaque: int | None = None, place: Place | None = None) -> Command:
        """Return the answer to one request, by default to the oldest one that is still open.

        Args:
            place: is asked where the body of a large answer goes, of any open request; the answer's own is empty then. A
                small one may come without asking.

        Raises:
            RequestTimeout: no answer within the connection's time-out: all requests without an answer are given up.
                Or the request is not open: it was given up before, or its answer was received.
            ConnectionFailed: the connection broke.
        """
        self.flush()
        if opaque is None:
            opaque = self._order[0]
        if opaque not in self._order:
            raise RequestTimeout(f"request {opaque} to {self.address} is not open")
        deadline = time.monotonic() + self._timeout_ms / 1000
        while opaque not in self._answers:
            self._read(deadline, place)
        self._order.remove(opaque)
        return self._answers.pop(opaque)

    def close(self) -> None:
        """Close the connection; what was queued and not flushed is dropped."""
        self._socket.close()

    def _signed(self, header: object, body: bytes, code: int | None) -> Command:
        return sign_command(make_request(header, body, code=code), self._credentials)

    def _keep(self, answer: Command | ClientError) -> None:
        assert isinstance(answer, Command), "errors are raised where they are found"
        self._answers[answer.opaque] = answer

    def _read(self, deadline: float, place: Place | None) -> None:
        large = self._large
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            size = self._socket.recv_into(self._buffer if large is None else large.body[large.filled :])
        except TimeoutError:
            self._session.abandon()
            self._order = [opaque for opaque in self._order if opaque in self._answers]
            raise RequestTimeout(f"{self.address} did not answer within {self._timeout_ms} ms") from None
        except OSError as error:
            raise self._broken(error) from error
        if not size:
            raise self._broken(None)
        try:
            if large is None:
                self._feed(self._buffer[:size], place)
            else:
                self._fill(large, size)
        except FrameError as error:
            raise self._broken(error) from error

    def _feed(self, data: memoryview, place: Place | None) -> None:
        for frame in self._session.feed(data):
            self._serve(decode_command(frame))
        if self._session.partial:
            rest = memoryview(self._session.take_partial())
            self._large = _begin_large(rest, place)
            if self._large is None:
                self._session.feed(rest)

    def _fill(self, large: _LargeFrame, size: int) -> None:
        large.filled += size
        if large.filled == len(large.body):
            self._large = None
            self._serve(large.command if large.is_placed else large.command._replace(body=bytes(large.body)))

    def _serve(self, command: Command) -> None:
        if command.flag & FLAG_RESPONSE:
            self._session.resolve(command)
        elif not command.flag & FLAG_ONEWAY:  # a server asks, but between calls nothing is read here
            reply = Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")
            self._session.out.append(encode_reply(command, reply))

    def _broken(self, error: Exception | None) -> ConnectionFailed:
        self._socket.close()
        return ConnectionFailed(f"the connection to {self.address} broke: {error or 'closed by the peer'}")


def _begin_large(data: memoryview, place: Place | None) -> _LargeFrame | None:
    """Return the large frame that `data` begins with, if its header is whole: its bytes are copied less often than others.

    Raises:
        FrameError: the header is not a RocketMQ header.
    """
    if len(data) < PREFIX.size:
        return None
    size, mark = PREFIX.unpack_from(data)
    body_start = PREFIX.size + (mark & HEADER_SIZE_MASK)
    # What no frame may have is refused by the session.
    if (
        not _READ_SIZE < LENGTH.size + size <= FRAME_SIZE_MAX
        or len(data) < body_start
        or mark >> 24 > SERIALIZE_TYPE_MAX
    ):
        return None
    command = decode_command(Frame(mark >> 24, bytes(data[PREFIX.size : body_start]), b""))
    body_size = LENGTH.size + size - body_start
    body = place(command.opaque, body_size) if place is not None and command.flag & FLAG_RESPONSE else None
    large = _LargeFrame(command, memoryview(bytearray(body_size)) if body is None else body, body is not None)
    large.filled = len(data) - body_start
    large.body[: large.filled] = data[body_start:]
    return large


def _connect(address: str, timeout_s: float, tls: ssl.SSLContext | None) -> socket.socket:
    host, port = reachable(address)
    connected = socket.create_connection((host, port), timeout_s)
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected if tls is None else tls.wrap_socket(connected, server_hostname=host)
    except BaseException:
        connected.close()
        raise
