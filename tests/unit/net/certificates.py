"""Certificates for tests: an authority, and pairs that it has signed."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from orbitmq.net.security.tls import TlsFiles

_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; `trust` is its own one, as a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder("test authority", self._key).add_extension(constraints, critical=True)
        self.trust = folder / "trust.pem"
        self.trust.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, file: str | None = None) -> TlsFiles:
        """Write a certificate and its key; `file` names them."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._builder(name, key).sign(self._key, hashes.SHA256())
        path = self._folder / f"{file or name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return TlsFiles(certificate=path, key=_write_key(path.with_suffix(".key"), key), trust=self.trust)

    def self_signed(self) -> TlsFiles:
        """Return the authority's own certificate as a server's."""
        return TlsFiles(
            certificate=self.trust, key=_write_key(self.trust.with_suffix(".key"), self._key), trust=self.trust
        )

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return path
