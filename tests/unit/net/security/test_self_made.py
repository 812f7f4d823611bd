"""Certificates that a server makes for itself, and TLS without a socket."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cases import each_case
from orbitmq.errors import FrameError
from orbitmq.net.security import self_made
from orbitmq.net.security.self_made import make_certificate
from orbitmq.net.security.tls import client_context
from orbitmq.net.security.tls_engine import HANDSHAKE_BYTE, TlsEngine

from ..certificates import Authority


def test_a_certificate_is_signed_by_its_own_key_and_has_no_end():
    made = make_certificate("a-server")
    certificate = x509.load_pem_x509_certificate(made.certificate.encode())
    key = serialization.load_pem_private_key(made.key.encode(), None)

    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert certificate.public_key() == key.public_key()
    certificate.verify_directly_issued_by(certificate)
    assert certificate.subject.rfc4514_string() == "CN=a-server"
    assert certificate.version is x509.Version.v3
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.not_valid_before_utc == datetime(1970, 1, 1, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert made.fingerprint == certificate.fingerprint(hashes.SHA256()).hex()


def test_every_certificate_has_a_key_and_a_number_of_its_own():
    made = [make_certificate("a") for _ in range(3)]
    assert len({one.key for one in made}) == 3
    assert len({x509.load_pem_x509_certificate(one.certificate.encode()).serial_number for one in made}) == 3


@each_case(1, 2, 3, 7, self_made._N - 1, self_made._N - 2, 2**255, int(sha256(b"x").hexdigest(), 16))
def test_points_of_the_curve_are_those_of_openssl(secret: int):
    expected = ec.derive_private_key(secret, ec.SECP256R1()).public_key().public_numbers()
    assert self_made._multiply(secret, self_made._G) == (expected.x, expected.y)


@pytest.mark.parametrize("once", [1, 5, self_made._N - 1])
def test_signatures_are_those_that_openssl_accepts(once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(self_made, "randbelow", lambda end: once - 1)
    key = ec.derive_private_key(12345, ec.SECP256R1())
    key.public_key().verify(self_made._sign(b"data", 12345), b"data", ec.ECDSA(hashes.SHA256()))


@each_case((0, "020100"), (127, "02017f"), (128, "02020080"), (255, "020200ff"), (256, "02020100"))
def test_numbers_are_never_negative(value: int, encoded: str):
    assert self_made._integer(value).hex() == encoded


@each_case((127, "047f"), (128, "048180"), (255, "0481ff"), (256, "04820100"))
def test_lengths_take_as_many_bytes_as_they_need(size: int, head: str):
    assert self_made._der(self_made._OCTETS, b"x" * size).hex().startswith(head + "78")


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
