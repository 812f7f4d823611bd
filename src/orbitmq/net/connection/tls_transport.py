"""TLS as a layer between a server's transport and a connection, which a connection's first byte chooses.

One port serves both kinds of connections, so that a cluster can be moved to TLS one client at a time. A handshake begins
with a byte that no frame begins with (its length would be over 300 MB). A connection writes to the transport below from its
beginning; TLS puts itself between them when it begins. Plain connections pay only for the check of the first read.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from orbitmq.errors import FrameError
from orbitmq.net.connection.connection import Connection
from orbitmq.net.security.tls import ServerTls, TlsMode
from orbitmq.net.security.tls_engine import HANDSHAKE_BYTE, TlsEngine


class TlsTransport(asyncio.Protocol, asyncio.Transport):
    """A protocol to the transport below, a transport to the connection above.

    Args:
        handshake_ms: a handshake that began has to be over after this long; 0: however long it takes.
    """

    __slots__ = ("_connection", "_deadline", "_engine", "_handshake_ms", "_loop", "_tls", "_transport")

    _transport: asyncio.Transport

    def __init__(
        self, connection: Connection, tls: ServerTls, loop: asyncio.AbstractEventLoop, *, handshake_ms: int
    ) -> None:
        self._connection = connection
        self._tls = tls
        self._loop = loop
        self._handshake_ms = handshake_ms
        self._engine: TlsEngine | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # What the transport below calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on; TLS may come between at the first read."""
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Choose at the first byte; then pass on what becomes plain."""
        if self._connection.is_closed:
            return
        if self._engine is not None:
            self._decrypt(self._engine, data)
        elif data[0] == HANDSHAKE_BYTE:
            self._begin(data)
        elif self._tls.mode is TlsMode.ENFORCING:
            self._connection.counters.bytes_received += len(data)
            self._connection.abort("no TLS")
        else:
            self._transport.set_protocol(self._connection)
            self._connection.data_received(data)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._end_handshake()
        self._connection.connection_lost(exc)

    # What the connection calls.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Write plain bytes."""
        if self._engine is None:
            self._transport.write(data)
        else:
            self._engine.encrypt(data)
            self._write_encrypted(self._engine)

    def writelines(self, list_of_data: Any) -> None:
        """Write parts of plain bytes; together, or each would travel with a header of its own."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Say good-bye, so that the peer knows that nothing was cut off; close when it is written."""
        if self._engine is not None:
            self._engine.end()
            self._write_encrypted(self._engine)
        self._transport.close()

    def abort(self) -> None:
        """Close immediately."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return True if the transport below is closing or closed."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be written, as the network will carry them."""
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `pause_writing` and `resume_writing` are called."""
        self._transport.set_write_buffer_limits(high=high, low=low)

    def pause_reading(self) -> None:
        """Read nothing more."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what asyncio's transports say; an encrypted connection is known by its `ssl_object`."""
        if name == "ssl_object" and self._engine is not None:
            return self._engine.ssl_object
        return self._transport.get_extra_info(name, default)

    def _begin(self, data: bytes) -> None:
        connection = self._connection
        try:
            engine = self._engine = self._tls.begin()
        except FrameError as error:
            connection.refuse(error)
            return
        connection.move_onto(self)
        connection.counters.connections_encrypted += 1
        if self._handshake_ms:
            # The connection's own timeouts see frames only, and a handshake has none.
            self._deadline = self._loop.call_later(self._handshake_ms / 1000, connection.abort, "frame deadline")
        self._decrypt(engine, data)

    def _decrypt(self, engine: TlsEngine, data: bytes) -> None:
        connection = self._connection
        try:
            plain = engine.receive(data)
        except FrameError as error:
            self._write_encrypted(engine)  # an alert tells the peer what was wrong with its handshake
            connection.refuse(error)
            return
        self._write_encrypted(engine)
        if engine.is_established:
            self._end_handshake()
        # The network's bytes are counted; the connection counts the plain ones.
        connection.counters.bytes_received += len(data) - len(plain)
        if plain:
            connection.data_received(plain)
        else:
            connection.note_activity()
        if engine.is_over:
            connection.close()

    def _write_encrypted(self, engine: TlsEngine) -> None:
        data = engine.take_out()
        if data:
            self._transport.write(data)

    def _end_handshake(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
