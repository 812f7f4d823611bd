"""What stands at a NameServer's door: signatures and TLS as they are configured, and what the operator is told of it."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from orbitmq.nameserver.access import Access, AccountsFile
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.endpoint import Admission
from orbitmq.net.tls import ServerTls, TlsFiles, TlsMode


class Guard:
    """Access control and TLS of one NameServer.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """

    def __init__(self, config: NameServerConfig) -> None:
        self._accounts: AccountsFile | None = None
        self._access: Access | None = None
        if config.acl_enable:
            self._accounts = AccountsFile(config.acl_file)
            self._access = Access(self._accounts.read(), covers_registration=config.acl_registration)
        mode = TlsMode(config.tls_server_mode)
        self.tls = _tls(mode, config) if mode is not TlsMode.DISABLED else None
        self.warnings = tuple(_warnings(config, self._accounts))

    @property
    def admission(self) -> Admission | None:
        """What is asked before every handler; None without access control."""
        return self._access.admit if self._access is not None else None

    def reload_if_changed(self) -> None:
        """Look whether accounts or certificates have changed on disk; what cannot be used changes nothing."""
        if self._accounts is not None and self._access is not None:
            accounts = self._accounts.read_if_changed()
            if accounts is not None:
                self._access.accounts = accounts
        if self.tls is not None:
            self.tls.reload_if_changed()


def _tls(mode: TlsMode, config: NameServerConfig) -> ServerTls:
    return ServerTls(
        mode,
        TlsFiles(
            certificate=_path(config.tls_server_cert_path),
            key=_path(config.tls_server_key_path),
            trust=_path(config.tls_server_trust_cert_path),
        ),
        needs_client_certificate=config.tls_server_need_client_auth,
    )


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _warnings(config: NameServerConfig, accounts: AccountsFile | None) -> list[str]:
    found = []
    if not _is_loopback(config.bind_address) and not config.acl_enable and config.tls_server_mode == "disabled":
        found.append(
            f"listening on {config.bind_address} without access control (aclEnable) and without TLS (tlsServerMode): "
            "whoever reaches the port may change routes"
        )
    if config.acl_enable and not config.acl_registration:
        found.append("brokers register without a signature (aclRegistration=false)")
    if accounts is not None and accounts.is_open_to_others:
        found.append(f"other users of this machine may read the secrets in {config.acl_file}")
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
