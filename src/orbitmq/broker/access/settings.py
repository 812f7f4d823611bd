"""The settings of users and rules, parsed: JSON texts of credentials, and lists of request codes. Pure.

Source: Java AuthConfig; AuthenticationMetadataManagerImpl.initUser.
"""

from __future__ import annotations

from typing import Protocol

import orjson

from orbitmq.errors import ConfigError
from orbitmq.model.access import User, UserType
from orbitmq.wire.signature import Credentials


class AccessSettings(Protocol):
    """The settings of users and rules, by RocketMQ's keys in snake case."""

    @property
    def broker_cluster_name(self) -> str: ...  # noqa: D102
    @property
    def acl_enable(self) -> bool: ...  # noqa: D102
    @property
    def authentication_enabled(self) -> bool: ...  # noqa: D102
    @property
    def authorization_enabled(self) -> bool: ...  # noqa: D102
    @property
    def authentication_whitelist(self) -> str: ...  # noqa: D102
    @property
    def authorization_whitelist(self) -> str: ...  # noqa: D102
    @property
    def init_authentication_user(self) -> str: ...  # noqa: D102
    @property
    def inner_client_authentication_credentials(self) -> str: ...  # noqa: D102
    @property
    def migrate_auth_from_v1_enabled(self) -> bool: ...  # noqa: D102
    @property
    def plain_acl_file(self) -> str: ...  # noqa: D102


def parse_first_user(text: str) -> User | None:
    """Return the user of `initAuthenticationUser`, a super user whatever it says; None without one.

    Raises:
        ConfigError: it is not in the format. Never shows what was there: it is a secret.
    """
    pair = _pair("initAuthenticationUser", text, "username", "password")
    return None if pair is None else User(*pair, UserType.SUPER)


def parse_own_credentials(text: str) -> Credentials | None:
    """Return the credentials of `innerClientAuthenticationCredentials`; None without any.

    Raises:
        ConfigError: it is not in the format. Never shows what was there: it is a secret.
    """
    pair = _pair("innerClientAuthenticationCredentials", text, "accessKey", "secretKey")
    return None if pair is None else Credentials(*pair)


def parse_codes(key: str, text: str) -> frozenset[int]:
    """Return the request codes of a list with commas.

    Raises:
        ConfigError: one of them is not a number.
    """
    codes = [word.strip() for word in text.split(",") if word.strip()]
    if not all(code.isascii() and code.isdigit() and len(code) < 10 for code in codes):
        raise ConfigError(key, text, "request codes with commas between them")
    return frozenset(map(int, codes))


def check_access(settings: AccessSettings) -> None:
    """Check the settings of users and rules together.

    Raises:
        ConfigError: one of them is not allowed, or not with the others.
    """
    parse_first_user(settings.init_authentication_user)
    parse_own_credentials(settings.inner_client_authentication_credentials)
    parse_codes("authenticationWhitelist", settings.authentication_whitelist)
    parse_codes("authorizationWhitelist", settings.authorization_whitelist)
    if settings.authorization_enabled and not settings.authentication_enabled:
        allowed = "authenticationEnabled=true with it: unsigned requests may claim any user"
        raise ConfigError("authorizationEnabled", True, allowed)
    if settings.authentication_enabled and settings.acl_enable:
        raise ConfigError("authenticationEnabled", True, "aclEnable=false with it: one of the two decides about access")
    if settings.migrate_auth_from_v1_enabled and not settings.plain_acl_file.strip():
        raise ConfigError("plainAclFile", "", "the accounts' file, for migrateAuthFromV1Enabled=true")


def _pair(key: str, text: str, first: str, second: str) -> tuple[str, str] | None:
    if not text.strip():
        return None
    try:
        if not text.isprintable():
            raise ValueError
        document = orjson.loads(text)
        name, secret = document[first], document[second]
    except (ValueError, TypeError, KeyError):
        name = secret = None
    if not (isinstance(name, str) and isinstance(secret, str) and name.strip() and secret.strip()):
        raise ConfigError(key, "******", f'{{"{first}":"...","{second}":"..."}}')
    return name, secret
