"""Security of a server's port: TLS, and access control by signatures and roles, as they are configured."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.dispatcher import Admission
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.security.accounts import Account, AccountRole, AccountsFile
from orbitmq.net.security.server_settings import ServerSettings
from orbitmq.net.security.tls import ServerTls, TlsFiles, TlsMode
from orbitmq.wire.command import Command
from orbitmq.wire.signature import ACCESS_KEY, is_signed_by


class ServerSecurity:
    """Access control and TLS of one server's port.

    Args:
        role_for: which role each request code needs.
        danger: what every client that reaches an open port may do, for the operator's warning.
        warnings: what else the operator is to be told.
        has_guard: signatures at this port are checked elsewhere.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """

    def __init__(
        self,
        settings: ServerSettings,
        role_for: RoleFor,
        *,
        danger: str,
        warnings: Iterable[str] = (),
        has_guard: bool = False,
    ) -> None:
        self._accounts: AccountsFile | None = None
        self._access: RequestAuthorizer | None = None
        if settings.acl_enable:
            self._accounts = AccountsFile(settings.acl_file)
            self._access = RequestAuthorizer(self._accounts.read(), role_for)
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


def _tls(mode: TlsMode, settings: ServerSettings) -> ServerTls:
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


def _warnings(settings: ServerSettings, danger: str, accounts: AccountsFile | None, *, has_guard: bool) -> list[str]:
    found = []
    is_open = not has_guard and not settings.acl_enable and settings.tls_server_mode != TlsMode.ENFORCING
    if is_open and not _is_loopback(settings.bind_address):
        found.append(
            f"listening on {settings.bind_address} without access control (aclEnable), and TLS is not demanded "
            f"(tlsServerMode=enforcing): every client that reaches the port may {danger}"
        )
    if accounts is not None and accounts.is_open_to_others:
        found.append(f"other users of this machine may read the secrets in {settings.acl_file}")
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


log = logging.getLogger(__name__)

RoleFor = Callable[[int], AccountRole | None]
"""Says which role a request code needs; None: no role."""


class RequestAuthorizer:
    """Decides whether a request may be served.

    Args:
        accounts: by access key.
        role_for: which role each request code needs.
    """

    def __init__(self, accounts: Mapping[str, Account], role_for: RoleFor) -> None:
        self._accounts = accounts
        self._role_for = role_for
        self._refusals = 0

    def replace_accounts(self, accounts: Mapping[str, Account]) -> None:
        """Let these accounts sign from now on, and no others."""
        self._accounts = accounts

    def admit(self, command: Command, peer: Peer) -> None:
        """Let a request pass.

        Raises:
            Rejected: it needs a role, and is not signed by an account that has it. The answer does not say what
                was wrong; the log does.
        """
        needed = self._role_for(command.code)
        if needed is None:
            return
        reason = self._objection(command.ext_fields or {}, command.body, needed)
        if reason is not None:
            self._refusals += 1
            if is_worth_a_line(self._refusals):
                log.warning("refused request %d from %s: %s", command.code, peer.remote, reason)
            raise Rejected(
                ResponseCode.NO_PERMISSION,
                f"request {command.code} needs a signature with the role {needed.name.lower()}",
            )

    def _objection(self, ext_fields: Mapping[str, str], body: bytes, needed: AccountRole) -> str | None:
        access_key = ext_fields.get(ACCESS_KEY)
        if access_key is None:
            return "it is not signed"
        account = self._accounts.get(access_key)
        # An unknown key costs the same as a known one.
        secret = account.credentials.secret_key if account is not None else "unknown account"
        is_signed = is_signed_by(ext_fields, body, secret)
        if account is None:
            return f"the access key {access_key!r:.80} is not known"
        if not is_signed:
            return f"the signature of {access_key} is wrong"
        if account.role < needed:
            return f"{access_key} has the role {account.role.name.lower()} only"
        return None
