"""TLS of one connection without a socket: bytes of the network in, plain bytes out, and the other way round."""

from __future__ import annotations

import ssl
from contextlib import suppress

from orbitmq.errors import FrameError

HANDSHAKE_BYTE = 0x16
"""What a TLS connection's first record begins with."""
_READ_SIZE = 65536


class TlsEngine:
    """The server's side of one connection's TLS. `is_over` once the peer has said good-bye."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.is_established = False
        self.is_over = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.ssl_object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the network and return the plain bytes that they complete.

        Raises:
            FrameError: the peer breaks the protocol, or its certificate is not accepted.
        """
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self.is_established:
                self.ssl_object.do_handshake()
                self.is_established = True
            while piece := self.ssl_object.read(_READ_SIZE):
                plain.append(piece)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        except ssl.SSLError as error:
            raise FrameError(f"TLS: {error.reason or error}") from None
        return b"".join(plain)

    def encrypt(self, data: bytes | bytearray | memoryview) -> None:
        """Queue plain bytes for the peer."""
        self.ssl_object.write(data)

    def end(self) -> None:
        """Queue the good-bye, so that the peer does not wait for it."""
        with suppress(ssl.SSLError):  # the peer's own good-bye is still to come, or never will
            self.ssl_object.unwrap()

    def take_out(self) -> bytes:
        """Return what has to be written to the network."""
        return self._outgoing.read()
