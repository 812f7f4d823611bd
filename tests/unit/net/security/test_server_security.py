"""Claims about what an operator is told of an open door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import ConfigError
from orbitmq.net.security.accounts import Role
from orbitmq.net.security.server_security import ServerSecurity, ServerSecuritySettings

from ..accounts import write_accounts


def guard(**settings: Any) -> ServerSecurity:
    return ServerSecurity(
        ServerSecuritySettings(**{"acl_file": Path("accounts.json"), **settings}),
        lambda code: Role.ADMIN,
        danger="dance",
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_an_open_door_on_a_public_address_is_said(host: str):
    (warning,) = guard(bind_address=host).warnings
    assert host in warning
    assert "may dance" in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_nothing_is_said_of_loopback(host: str):
    assert guard(bind_address=host).warnings == ()


def test_readable_secrets_are_said(tmp_path: Path):
    path = write_accounts(tmp_path)
    assert guard(acl_enable=True, acl_file=path).warnings == ()
    path.chmod(0o644)
    (warning,) = guard(acl_enable=True, acl_file=path).warnings
    assert str(path) in warning


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="disabled or permissive or enforcing"):
        ServerSecuritySettings(tls_server_mode="permisive", acl_file=Path("x")).check_server_security()
