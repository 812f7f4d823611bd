"""TLS settings: RocketMQ's three modes of a server, certificates that are reloaded at run time, a client's context.

Source: Java TlsMode, TlsSystemConfig, NettyRemotingServer.TlsModeHandler.
"""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from orbitmq.errors import ConfigError, FrameError
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.security.self_made import SelfMade, make_certificate
from orbitmq.net.security.tls_engine import TlsEngine

log = logging.getLogger(__name__)


class TlsMode(StrEnum):
    """Whether a server speaks TLS: never, with clients that begin it, or with all."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where a side's certificates are, as PEM files. `trust` signs the certificates of the other side."""

    certificate: Path | None = None
    key: Path | None = None
    trust: Path | None = None

    def modified_at(self) -> tuple[int, ...]:
        """Return when each file was changed, in nanoseconds.

        Raises:
            OSError: one of them is not there.
        """
        files = (self.certificate, self.key, self.trust)
        return tuple(path.stat().st_mtime_ns for path in files if path is not None)


SELF_MADE_NAME = "orbitmq"


class ServerTls:
    """A server's mode and certificates. Without files it makes a certificate for itself, at the first connection that asks.

    That one is in memory, as in Java, and another one after a restart: a client that verifies its server needs files.

    Raises:
        ConfigError: the files cannot be read, do not fit together, or one of a pair is missing.
    """

    def __init__(self, mode: TlsMode, files: TlsFiles, *, needs_client_certificate: bool = False) -> None:
        self.mode = mode
        self._files = files
        self._needs_client_certificate = needs_client_certificate
        if (files.certificate is None) != (files.key is None):
            missing = "tlsServerCertPath" if files.certificate is None else "tlsServerKeyPath"
            raise ConfigError(missing, "", "a file, since the other one of the pair is named")
        if needs_client_certificate and files.trust is None:
            raise ConfigError("tlsServerNeedClientAuth", "true", "a trust certificate to be configured")
        self._made: SelfMade | None = None
        self._self_made: SelfMade | None = None
        """The same, once OpenSSL has it."""
        self._failures = 0
        self._changed_at = self._modified_at()
        self._context = self._load()

    def begin(self) -> TlsEngine:
        """Return the engine of a new connection, which keeps today's certificates.

        Raises:
            FrameError: the system has no place for a certificate to pass through on its way to OpenSSL.
        """
        if self._self_made is None and self._files.certificate is None:
            self._make_certificate(self._context)
        return TlsEngine(self._context)

    @property
    def description(self) -> str:
        """The mode, and which certificate is in use, in words."""
        if self.mode is TlsMode.DISABLED:
            return "disabled"
        if self._files.certificate is not None:
            return f"{self.mode.value}, with the certificate {self._files.certificate}"
        if self._self_made is None:
            return f"{self.mode.value}, with a certificate that is made when the first client asks for it"
        return f"{self.mode.value}, with a self-made certificate of this run, SHA-256 {self._self_made.fingerprint}"

    def _make_certificate(self, context: ssl.SSLContext) -> None:
        """Make a certificate and give it to OpenSSL, which reads files alone: it passes through one that only we may read."""
        # Once: arithmetic for each client that cannot be served would stop all others.
        made = self._made = self._made or make_certificate(SELF_MADE_NAME)
        try:
            with NamedTemporaryFile("w", prefix="orbitmq-", suffix=".pem") as file:  # with mode 0600
                file.write(made.certificate + made.key)
                file.flush()
                context.load_cert_chain(file.name)
        except OSError as error:
            self._failures += 1
            if is_worth_a_line(self._failures):
                log.warning("no TLS for a client: the certificate could not pass through a temporary file: %s", error)
            raise FrameError(f"no TLS: {error}") from None
        self._self_made = made
        log.info("made a TLS certificate for this run, SHA-256 %s", made.fingerprint)

    def reload_if_changed(self) -> bool:
        """Load changed files for the connections to come; what cannot be loaded changes nothing."""
        if self.mode is TlsMode.DISABLED:
            return False
        try:
            changed_at = self._modified_at()
            if changed_at == self._changed_at:
                return False
            self._context = self._load()
        except (OSError, ConfigError) as error:
            # Half of a pair may be written already: the next look will find the other half.
            log.warning("the TLS certificates stay as they were: %s", error)
            return False
        self._changed_at = changed_at
        log.info("loaded the TLS certificate %s", self._files.certificate or self._files.trust)
        return True

    def _modified_at(self) -> tuple[int, ...]:
        try:
            return self._files.modified_at()
        except OSError as error:
            raise ConfigError("tlsServerCertPath", str(error.filename), f"a readable file ({error.strerror})") from None

    def _load(self) -> ssl.SSLContext:
        context = _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._files)
        self._self_made = None  # what is loaded again has not got it
        if self._needs_client_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def client_context(files: TlsFiles, *, verifies: bool = True) -> ssl.SSLContext:
    """Return what a client connects with.

    Args:
        verifies: check the server's certificate against `files.trust` (else the system's). Host names are not checked:
            RocketMQ's certificates are for clusters, and brokers are found by address.

    Raises:
        ConfigError: the files cannot be read.
    """
    return ClientContext(files, verifies=verifies)


class ClientContext(ssl.SSLContext):
    """A client's context, as `client_context` describes it. Connections are made with the files as they are then.

    A certificate that is renewed in place is trusted, and shown, without a restart. Files that cannot be loaded change nothing.

    Raises:
        ConfigError: the files cannot be read.
    """

    def __new__(cls, files: TlsFiles, *, verifies: bool = True) -> ClientContext:
        """Make a context of Python's; `__init__` loads the files."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, files: TlsFiles, *, verifies: bool = True) -> None:
        self._files = files
        self._newest: ssl.SSLContext = self
        """Has the files as they were at the last change: OpenSSL takes no certificate out of a context again."""
        self._changed_at: tuple[int, ...] | None = None
        self._failure = ""
        with suppress(OSError):  # `_load` names the file that is not there
            self._changed_at = files.modified_at()
        self.check_hostname = False
        if not verifies:
            self.verify_mode = ssl.CERT_NONE
        _load(self, files)

    def wrap_bio(self, *arguments: Any, **names: Any) -> ssl.SSLObject:
        """Begin a connection of an event loop."""
        newest = self._reloaded()
        return super().wrap_bio(*arguments, **names) if newest is self else newest.wrap_bio(*arguments, **names)

    def wrap_socket(self, *arguments: Any, **names: Any) -> ssl.SSLSocket:
        """Begin a connection of a blocking socket."""
        newest = self._reloaded()
        return super().wrap_socket(*arguments, **names) if newest is self else newest.wrap_socket(*arguments, **names)

    def _reloaded(self) -> ssl.SSLContext:
        try:
            changed_at = self._files.modified_at()
            if changed_at == self._changed_at:
                return self._newest
            newest = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            newest.check_hostname, newest.verify_mode = self.check_hostname, self.verify_mode
            _load(newest, self._files)
        except (OSError, ConfigError) as error:
            # Half of a pair may be written already: the next connection will find the other half.
            if self._failure != str(error):
                log.warning("the TLS files of outgoing connections stay as they were: %s", error)
            self._failure = str(error)
            return self._newest
        self._newest, self._changed_at, self._failure = newest, changed_at, ""
        log.info("loaded the TLS files of outgoing connections again: %s", self._files.trust or self._files.certificate)
        return newest


def _load(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    """Load the files into a context, and return it. Without files to trust a client trusts the system's.

    Raises:
        ConfigError: the files cannot be read.
    """
    is_client = context.protocol == ssl.PROTOCOL_TLS_CLIENT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    side = "tlsClient" if is_client else "tlsServer"

    def refuse_password() -> str:
        # Without this OpenSSL would ask for it on the terminal, and a server would never start.
        raise ConfigError(f"{side}KeyPath", str(files.key), "a key without a password")

    try:
        if files.certificate is not None:
            context.load_cert_chain(files.certificate, files.key, password=refuse_password)
    except OSError as error:
        expected = f"a certificate with its key ({error})"
        raise ConfigError(f"{side}CertPath", str(files.certificate), expected) from None
    try:
        if files.trust is not None:
            context.load_verify_locations(files.trust)
        elif is_client and context.verify_mode is not ssl.CERT_NONE:
            context.load_default_certs()
    except OSError as error:
        raise ConfigError(f"{side}TrustCertPath", str(files.trust), f"certificates to trust ({error})") from None
    return context
