"""Who may ask for what: RocketMQ's request signatures, with three roles.

A server says which role each request code needs; whoever asks signs with an account that has it.

Accounts file: `{"accounts":[{"accessKey":"...","secretKey":"...","role":"admin"}]}`. It is read again when it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

import orjson

from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, Rejected
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.handlers import Call
from orbitmq.wire.signature import ACCESS_KEY, Credentials, is_signed_by

log = logging.getLogger(__name__)

KEY_LENGTH_MIN = 6
"""Characters of an access or secret key (Java: AccessValidator)."""


class Role(IntEnum):
    """What an account may do; each role may do what the ones before it may."""

    READER = 1
    WRITER = 2
    ADMIN = 3


RoleFor = Callable[[int], Role | None]
"""Says which role a request code needs; None: it is for everybody."""


class Account:
    """An access key with its secret and role."""

    __slots__ = ("credentials", "role")

    def __init__(self, credentials: Credentials, role: Role) -> None:
        self.credentials = credentials
        self.role = role


class Access:
    """Decides whether a request may be served.

    Args:
        accounts: by access key.
        role_for: which role each request code needs.
    """

    def __init__(self, accounts: Mapping[str, Account], role_for: RoleFor) -> None:
        self.accounts = accounts
        self._role_for = role_for
        self._refusals = 0

    def admit(self, call: Call[Any]) -> None:
        """Let a call pass.

        Raises:
            Rejected: it needs a role, and is not signed by an account that has it. The answer does not say what
                was wrong; the log does.
        """
        command = call.command
        needed = self._role_for(command.code)
        if needed is None:
            return
        reason = self._objection(command.ext_fields or {}, command.body, needed)
        if reason is not None:
            self._refusals += 1
            if is_worth_a_line(self._refusals):
                log.warning("refused request %d from %s: %s", command.code, call.connection.remote, reason)
            raise Rejected(
                ResponseCode.NO_PERMISSION,
                f"request {command.code} needs a signature with the role {needed.name.lower()}",
            )

    def _objection(self, ext_fields: Mapping[str, str], body: bytes, needed: Role) -> str | None:
        access_key = ext_fields.get(ACCESS_KEY)
        if access_key is None:
            return "it is not signed"
        account = self.accounts.get(access_key)
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


class AccountsFile:
    """The file of accounts, looked at again now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at_ns = 0

    def read(self) -> dict[str, Account]:
        """Return the accounts.

        Raises:
            ConfigError: the file cannot be read, or holds something else.
        """
        try:
            self._read_at_ns = self._path.stat().st_mtime_ns
            document = orjson.loads(self._path.read_bytes())
            accounts = [_parse(entry) for entry in document["accounts"]]
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            reason = error if isinstance(error, OSError | ConfigError) else type(error).__name__
            raise ConfigError("aclFile", str(self._path), f"a readable file of accounts ({reason})") from None
        return {account.credentials.access_key: account for account in accounts}

    def read_if_changed(self) -> dict[str, Account] | None:
        """Return the accounts when the file has changed since; None when not, or when it cannot be used."""
        try:
            if self._path.stat().st_mtime_ns == self._read_at_ns:
                return None
            return self.read()
        except (OSError, ConfigError) as error:
            log.error("the accounts stay as they were: %s", error)
            return None

    @property
    def is_open_to_others(self) -> bool:
        """True when other users of this machine may read the secrets."""
        return bool(self._path.stat().st_mode & 0o077)


def _parse(entry: Mapping[str, str]) -> Account:
    credentials = Credentials(entry["accessKey"], entry["secretKey"])
    if min(len(credentials.access_key), len(credentials.secret_key)) < KEY_LENGTH_MIN:
        raise ConfigError("accessKey, secretKey", credentials.access_key, f"at least {KEY_LENGTH_MIN} characters each")
    name = entry.get("role", "reader").upper()
    if name not in Role.__members__:
        raise ConfigError("role", entry.get("role"), "admin, writer or reader")
    return Account(credentials, Role[name])
