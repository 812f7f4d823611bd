"""Who may ask for what: RocketMQ's request signatures, with two roles.

Route queries and lists are for everybody, as upstream. Administration needs the role admin, looking into settings, stored
values and history the role reader; registration needs the role admin where that is switched on.

Accounts file: `{"accounts":[{"accessKey":"...","secretKey":"...","role":"admin"}]}`. It is read again when it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

import orjson

from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import ConfigError, Rejected
from orbitmq.net.handlers import Call
from orbitmq.net.limits import is_worth_a_line
from orbitmq.wire.signature import ACCESS_KEY, Credentials, is_signed_by

log = logging.getLogger(__name__)

KEY_LENGTH_MIN = 6
"""Characters of an access or secret key (Java: AccessValidator)."""


class Role(IntEnum):
    """What an account may do; each role may do what the ones below may."""

    READER = 1
    ADMIN = 2


_ROLES = {
    RequestCode.PUT_KV_CONFIG: Role.ADMIN,
    RequestCode.DELETE_KV_CONFIG: Role.ADMIN,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Role.ADMIN,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Role.ADMIN,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Role.ADMIN,
    RequestCode.UPDATE_NAMESRV_CONFIG: Role.ADMIN,
    RequestCode.GET_NAMESRV_CONFIG: Role.READER,
    RequestCode.GET_KV_CONFIG: Role.READER,
    RequestCode.GET_KVLIST_BY_NAMESPACE: Role.READER,
    RequestCode.ORBITMQ_HEALTH: Role.READER,
    RequestCode.ORBITMQ_ROUTE_HISTORY: Role.READER,
    RequestCode.ORBITMQ_ROUTE_DIFFERENCE: Role.READER,
}
_REGISTRATION = (
    RequestCode.REGISTER_BROKER,
    RequestCode.UNREGISTER_BROKER,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV,
    RequestCode.QUERY_DATA_VERSION,
    RequestCode.BROKER_HEARTBEAT,
)


class Account:
    """An access key with its secret and role."""

    __slots__ = ("credentials", "role")

    def __init__(self, credentials: Credentials, role: Role) -> None:
        self.credentials = credentials
        self.role = role


class Access:
    """Decides whether a request may be served.

    Args:
        covers_registration: brokers must sign, too.
    """

    def __init__(self, accounts: Mapping[str, Account], *, covers_registration: bool = False) -> None:
        self.accounts = accounts
        self._refusals = 0
        self._roles: dict[int, Role] = {int(code): role for code, role in _ROLES.items()}
        if covers_registration:
            self._roles.update(dict.fromkeys(map(int, _REGISTRATION), Role.ADMIN))

    def role_for(self, code: int) -> Role | None:
        """Return the role that a request code needs; None: it is for everybody."""
        return self._roles.get(code)

    def admit(self, call: Call[Any]) -> None:
        """Let a call pass.

        Raises:
            Rejected: it needs a role, and is not signed by an account that has it. The answer does not say what
                was wrong; the log does.
        """
        command = call.command
        needed = self._roles.get(command.code)
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
        raise ConfigError("role", entry.get("role"), "admin or reader")
    return Account(credentials, Role[name])
