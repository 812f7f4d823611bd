"""Accounts of clients that sign their requests: keys, secrets and roles, in a file that is read again when it changes.

{"accounts":[{"accessKey":"...","secretKey":"...","role":"admin"}]}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import IntEnum, auto
from pathlib import Path

import orjson

from orbitmq.errors import ConfigError
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

KEY_LENGTH_MIN = 6
"""Characters of an access or secret key (Java: AccessValidator)."""


class AccountRole(IntEnum):
    """What an account may do; each role may do what the ones before it may."""

    READER = auto()
    WRITER = auto()
    ADMIN = auto()


class Account:
    """An access key with its secret and role."""

    __slots__ = ("credentials", "role")

    def __init__(self, credentials: Credentials, role: AccountRole) -> None:
        self.credentials = credentials
        self.role = role


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
    if name not in AccountRole.__members__:
        raise ConfigError("role", entry.get("role"), "admin, writer or reader")
    return Account(credentials, AccountRole[name])
