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
        paths = [self._folder / f"{file or name}.{kind}" for kind in ("pem", "key")]
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return TlsFiles(certificate=paths[0], key=paths[1], trust=self.trust)

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
