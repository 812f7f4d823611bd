"""Claims about TLS without a socket: the server's engine against a client of the standard library."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq.errors import FrameError
from orbitmq.net.security.tls import client_context
from orbitmq.net.security.tls_engine import HANDSHAKE_BYTE, TlsEngine

from ..certificates import Authority


class Pair:
    """An engine and a client, joined by two buffers."""

    def __init__(self, folder: Path) -> None:
        files = Authority(folder).issue("server")
        assert files.certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        self.engine = TlsEngine(context)
        self._to_client, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context(files).wrap_bio(self._to_client, self._to_server)

    def shake_hands(self) -> None:
        """Carry bytes both ways until both ends agree."""
        while not self.engine.is_established:
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.deliver()
        self.client.do_handshake()

    def deliver(self) -> bytes:
        """Bring the client's bytes to the engine, and the engine's to the client; return the plain ones."""
        plain = self.engine.receive(self._to_server.read())
        self._to_client.write(self.engine.take_out())
        return plain


def test_plain_bytes_pass_both_ways_in_any_size(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.shake_hands()
    said = bytes(range(256)) * 1_000  # many records of TLS, and more than one read
    pair.client.write(said)
    assert pair.deliver() == said
    pair.engine.encrypt(b"an answer")
    assert pair.deliver() == b""
    assert pair.client.read() == b"an answer"


def test_a_handshake_begins_with_its_byte_and_is_established_at_its_end(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.do_handshake()
    first = pair._to_server.read()
    assert first[0] == HANDSHAKE_BYTE
    assert pair.engine.receive(first[:7]) == b""
    assert not pair.engine.is_established
    assert pair.engine.receive(first[7:]) == b""
    assert not pair.engine.is_established
    assert pair.engine.take_out()[:1] == bytes([HANDSHAKE_BYTE])


def test_it_is_over_when_the_peer_has_said_good_bye(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.shake_hands()
    pair.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    assert (pair.deliver(), pair.engine.is_over) == (b"last", True)
    pair.engine.end()
    pair.deliver()
    pair.client.unwrap()  # raises without a good-bye from the other end


def test_bytes_that_are_no_tls_are_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    with pytest.raises(FrameError, match="TLS: "):
        pair.engine.receive(bytes([HANDSHAKE_BYTE]) + b"no handshake at all")


def test_it_is_over_when_the_peer_returns_the_good_bye(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.shake_hands()
    pair.engine.end()
    assert (pair.deliver(), pair.engine.is_over) == (b"", False)
    assert pair.client.read() == b""
    pair.client.unwrap()
    assert (pair.deliver(), pair.engine.is_over) == (b"", True)
