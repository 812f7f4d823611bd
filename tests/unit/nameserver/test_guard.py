"""Claims about what an operator is told of an open door, and about TLS of a NameServer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import ConfigError
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.guard import Guard
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.tls import client_context
from orbitmq.wire.headers import GetClusterInfo

from ..net.certificates import Authority
from .support import asking
from .test_access import write_accounts


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_an_open_door_on_a_public_address_is_said(host: str):
    (warning,) = Guard(NameServerConfig(bind_address=host)).warnings
    assert host in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_nothing_is_said_of_loopback(host: str):
    assert Guard(NameServerConfig(bind_address=host)).warnings == ()


def test_unsigned_registration_and_readable_secrets_are_said(tmp_path: Path):
    path = write_accounts(tmp_path)
    settings = {"acl_enable": True, "acl_file": path}
    assert len(Guard(NameServerConfig(acl_registration=True, **settings)).warnings) == 0
    path.chmod(0o644)
    registration, secrets = Guard(NameServerConfig(**settings)).warnings
    assert "aclRegistration" in registration
    assert str(path) in secrets


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="disabled or permissive or enforcing"):
        NameServerConfig(tls_server_mode="permisive")


async def test_a_name_server_speaks_tls(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    settings = {
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(files.certificate),
        "tls_server_key_path": str(files.key),
        "tls_server_trust_cert_path": str(files.trust),
    }
    async with asking(tmp_path, **settings) as asker:
        pool = ConnectionPool(tls=client_context(files))
        assert (await asker.ask(GetClusterInfo(), pool=pool)).code == 0
        asker.server._guard.reload_if_changed()
        await pool.close()
