"""Security of the connections that we open: a signature, TLS, or both, from a properties file that only we may read.

    accessKey=operator
    secretKey=a long secret
    tlsEnable=true
    tlsClientTrustCertPath=/etc/orbitmq/ca.pem
    tlsClientCertPath=/etc/orbitmq/client.pem
    tlsClientKeyPath=/etc/orbitmq/client.key

Paths may be relative to the file's own folder. Secrets are in a file rather than in options, because every user of a machine
sees the options of every process.
"""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import ConfigError
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

_KEYS = frozenset(
    [
        "accessKey",
        "secretKey",
        "securityToken",
        "tlsEnable",
        "tlsClientTrustCertPath",
        "tlsClientCertPath",
        "tlsClientKeyPath",
    ]
)
_OTHERS_MAY_READ, _OTHERS_MAY_ENTER = 0o044, 0o011


class ClientSecurity(NamedTuple):
    """What requests are signed with, and what connections are encrypted with; None: they are not."""

    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None


UNSECURED = ClientSecurity()


def load_security(path: Path | str | None) -> ClientSecurity:
    """Read a properties file with the keys above; without `accessKey`, or without a file, nothing is signed.

    Raises:
        ConfigError: the file or a certificate cannot be read, or a key is unknown or missing. Never shows a secret.
    """
    if not path:
        return UNSECURED
    import javaproperties  # it loads an XML parser: only clients with a file pay

    path = Path(path).expanduser()
    try:
        properties = javaproperties.loads(path.read_text(encoding="utf-8"))
        if path.stat().st_mode & _OTHERS_MAY_READ and path.parent.stat().st_mode & _OTHERS_MAY_ENTER:
            log.warning("%s holds secrets and other users may read it: chmod 600", path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not in the format"
        raise ConfigError("securityFile", str(path), f"a readable Java properties file ({reason})") from None
    if unknown := sorted(properties.keys() - _KEYS):
        raise ConfigError(str(path), ", ".join(unknown), f"only the keys {', '.join(sorted(_KEYS))}")
    try:
        return ClientSecurity(_credentials(properties), _tls(properties, path.parent))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.field}", error.value, error.allowed) from None


def _credentials(properties: dict[str, str]) -> Credentials | None:
    access_key, secret_key = properties.get("accessKey"), properties.get("secretKey")
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        missing = "secretKey" if access_key else "accessKey"
        raise ConfigError(missing, "", "a value, since the other half of the pair has one")
    return Credentials(access_key, secret_key, properties.get("securityToken") or None)


def _tls(properties: dict[str, str], folder: Path) -> ssl.SSLContext | None:
    text = properties.get("tlsEnable", "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError("tlsEnable", text, "true or false")
    if text == "false":
        return None
    from orbitmq.net.security.tls import TlsFiles, client_context

    certificate, key, trust = (
        _file(properties, f"tlsClient{name}Path", folder) for name in ("Cert", "Key", "TrustCert")
    )
    return client_context(TlsFiles(certificate=certificate, key=key, trust=trust))


def _file(properties: dict[str, str], key: str, folder: Path) -> Path | None:
    text = properties.get(key, "").strip()
    if not text:
        return None
    path = folder / Path(text).expanduser()
    if not os.access(path, os.R_OK):
        raise ConfigError(key, text, "a readable file")
    return path
