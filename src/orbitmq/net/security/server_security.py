"""Security of a server's port: access control and TLS as they are configured, and warnings for the operator."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orbitmq.errors import ConfigError
from orbitmq.net.dispatch.dispatcher import Admission
from orbitmq.net.security.accounts import AccountsFile
from orbitmq.net.security.acl import AccessControl, RoleFor
from orbitmq.net.security.tls import ServerTls, TlsFiles, TlsMode
from orbitmq.settings import check_bind_address


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecuritySettings:
    """Settings that every server's port has, by RocketMQ's keys in snake case; a server's own settings extend them."""

    bind_address: str = "0.0.0.0"

    acl_enable: bool = False
    """Ours: requests need a signature; which ones is the server's to say."""
    acl_file: Path
    """Ours: who may sign (`net.security.accounts`)."""
    tls_server_mode: str = "permissive"
    """disabled, permissive (both kinds of connections on one port) or enforcing."""
    tls_server_cert_path: str = ""
    """Without it and its key the server makes a certificate for itself when the first client asks."""
    tls_server_key_path: str = ""
    tls_server_trust_cert_path: str = ""
    tls_server_need_client_auth: bool = False
    security_file: str = ""
    """Ours: a file that says how this server signs and encrypts what it asks of others (`net.security.client_security`)."""

    def check_server_security(self) -> None:
        """Check the values above.

        Raises:
            ConfigError: one of them is not allowed.
        """
        check_bind_address("bindAddress", self.bind_address)
        if self.tls_server_mode not in list(TlsMode):
            raise ConfigError("tlsServerMode", self.tls_server_mode, " or ".join(TlsMode))


class ServerSecurity:
    """Access control and TLS of one server's port.

    Args:
        role_for: which role each request code needs.
        danger: what whoever reaches an open port may do, for the operator's warning.
        warnings: what else the operator is to be told.
        has_guard: somebody else checks signatures at this port.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """

    def __init__(
        self,
        settings: ServerSecuritySettings,
        role_for: RoleFor,
        *,
        danger: str,
        warnings: Iterable[str] = (),
        has_guard: bool = False,
    ) -> None:
        self._accounts: AccountsFile | None = None
        self._access: AccessControl | None = None
        if settings.acl_enable:
            self._accounts = AccountsFile(settings.acl_file)
            self._access = AccessControl(self._accounts.read(), role_for)
        mode = TlsMode(settings.tls_server_mode)
        self.tls = _tls(mode, settings) if mode is not TlsMode.DISABLED else None
        self.warnings = (*warnings, *_warnings(settings, danger, self._accounts, has_guard=has_guard))

    @property
    def tls_description(self) -> str:
        """The mode of TLS, and which certificate is in use, in words."""
        return TlsMode.DISABLED.value if self.tls is None else self.tls.description

    @property
    def admission(self) -> Admission | None:
        """What is asked before every handler; None without access control."""
        return self._access.admit if self._access is not None else None

    def reload_if_changed(self) -> None:
        """Read accounts and certificates again that have changed on disk; what cannot be used changes nothing."""
        if self._accounts is not None and self._access is not None:
            accounts = self._accounts.read_if_changed()
            if accounts is not None:
                self._access.replace_accounts(accounts)
        if self.tls is not None:
            self.tls.reload_if_changed()


def _tls(mode: TlsMode, settings: ServerSecuritySettings) -> ServerTls:
    return ServerTls(
        mode,
        TlsFiles(
            certificate=_path(settings.tls_server_cert_path),
            key=_path(settings.tls_server_key_path),
            trust=_path(settings.tls_server_trust_cert_path),
        ),
        needs_client_certificate=settings.tls_server_need_client_auth,
    )


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _warnings(
    settings: ServerSecuritySettings, danger: str, accounts: AccountsFile | None, *, has_guard: bool
) -> list[str]:
    found = []
    is_open = not has_guard and not settings.acl_enable and settings.tls_server_mode != TlsMode.ENFORCING
    if is_open and not _is_loopback(settings.bind_address):
        found.append(
            f"listening on {settings.bind_address} without access control (aclEnable), and TLS is not demanded "
            f"(tlsServerMode=enforcing): whoever reaches the port may {danger}"
        )
    if accounts is not None and accounts.is_open_to_others:
        found.append(f"other users of this machine may read the secrets in {settings.acl_file}")
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
