"""Claims about what an operator is told of an open door."""

from __future__ import annotations

import logging
import os
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.errors import ConfigError, Rejected
from orbitmq.net.security.accounts import AccountRole, AccountsFile
from orbitmq.net.security.server_security import RequestAuthorizer, ServerSecurity
from orbitmq.net.security.server_settings import ServerSettings
from orbitmq.net.security.tls import TlsMode
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials, sign_command
from unit.net.accounts import ADMIN, FORGER, READER, STRANGER, WRITER, write_accounts
from unit.net.certificates import Authority


def guard(**settings: Any) -> ServerSecurity:
    return ServerSecurity(
        ServerSettings(**{"acl_file": Path("accounts.json"), **settings}),
        lambda code: AccountRole.ADMIN,
        danger="dance",
    )


@each_case(*product(["0.0.0.0", "::", "10.0.0.1", "example.org"], ["disabled", "permissive"]))
def test_an_open_door_on_a_public_address_is_said(host: str, mode: str):
    (warning,) = guard(bind_address=host, tls_server_mode=mode).warnings
    assert host in warning
    assert "may dance" in warning


@each_case("127.0.0.1", "::1", "localhost")
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
        ServerSettings(tls_server_mode="permisive", acl_file=Path("x")).check({})


def test_an_address_to_listen_on_is_needed():
    with pytest.raises(ConfigError, match="bindAddress"):
        ServerSettings(bind_address=" ", acl_file=Path("x")).check({})
    ServerSettings(tls_server_mode="permissive", acl_file=Path("x")).check({})


def test_without_settings_nothing_is_asked_and_a_reload_has_nothing_to_do():
    security = guard()
    assert security.admission is None
    security.reload_if_changed()
    assert security.tls_description.startswith("permissive, with a certificate that is made")


def test_one_setting_switches_tls_off():
    security = guard(tls_server_mode="disabled")
    security.reload_if_changed()
    assert (security.tls, security.tls_description) == (None, "disabled")


def test_changed_accounts_count_from_the_next_reload_on(tmp_path: Path):
    def is_admitted(credentials: Credentials) -> bool:
        peer: Any = SimpleNamespace(remote="10.0.0.1:5")
        assert security.admission is not None
        try:
            security.admission(sign_command(Command(1), credentials), peer)
        except Rejected:
            return False
        return True

    path, new = write_accounts(tmp_path), Credentials("new-key", "new-secret")
    security = guard(acl_enable=True, acl_file=path)
    security.reload_if_changed()
    assert [is_admitted(ADMIN), is_admitted(new)] == [True, False]
    write_accounts(tmp_path, admin=new)
    os.utime(path, ns=(1, 1))
    security.reload_if_changed()
    assert [is_admitted(ADMIN), is_admitted(new)] == [False, True]


def test_certificates_come_from_the_settings_and_a_mode_with_them_leaves_no_warning(tmp_path: Path):
    files = Authority(tmp_path).issue("server")
    settings: dict[str, Any] = {
        "bind_address": "0.0.0.0",
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": str(files.certificate),
        "tls_server_key_path": str(files.key),
    }
    security = guard(**settings)
    assert security.warnings == ()
    assert security.tls is not None
    assert security.tls.mode is TlsMode.ENFORCING
    with pytest.raises(ConfigError, match="tlsServerNeedClientAuth"):
        guard(**settings, tls_server_need_client_auth=True)
    guard(**settings, tls_server_need_client_auth=True, tls_server_trust_cert_path=str(files.trust))


def test_changed_certificates_count_from_the_next_reload_on(tmp_path: Path):
    authority = Authority(tmp_path)
    files = authority.issue("server")
    security = guard(
        tls_server_mode="permissive", tls_server_cert_path=str(files.certificate), tls_server_key_path=str(files.key)
    )
    assert security.tls is not None
    assert not security.tls.reload_if_changed()
    authority.issue("renewed", file="server")
    assert files.certificate is not None
    os.utime(files.certificate, ns=(1, 1))
    security.reload_if_changed()
    assert not security.tls.reload_if_changed(), "the new one is loaded"


NEEDED = {10: AccountRole.READER, 20: AccountRole.WRITER, 30: AccountRole.ADMIN}


def request(code: int, credentials: Credentials | None) -> tuple[Command, Any]:
    command = sign_command(Command(code, ext_fields={"topic": "t"}, body=b"b"), credentials)
    return command, SimpleNamespace(remote="10.0.0.1:5")


def access(folder: Path) -> RequestAuthorizer:
    return RequestAuthorizer(AccountsFile(write_accounts(folder)).read(), NEEDED.get)


ROLES = {
    None: 0, STRANGER: 0, FORGER: 0, READER: AccountRole.READER, WRITER: AccountRole.WRITER, ADMIN: AccountRole.ADMIN,
}  # fmt: skip


def test_a_role_may_do_what_lower_ones_may(tmp_path: Path):
    control = access(tmp_path)
    for (credentials, role), code in product(ROLES.items(), [0, *NEEDED]):
        needed = NEEDED.get(code)
        if needed is None or role >= needed:
            control.admit(*request(code, credentials))
        else:
            with pytest.raises(Rejected, match=f"with the role {needed.name.lower()}$") as refused:
                control.admit(*request(code, credentials))
            assert refused.value.code == 16


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (None, "it is not signed"),
        (STRANGER, "the access key 'stranger' is not known"),
        (FORGER, "the signature of admin-key is wrong"),
        (READER, "reader-key has the role reader only"),
    ],
)
def test_the_log_says_what_was_wrong_and_the_answer_does_not(
    credentials: Credentials | None, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING), pytest.raises(Rejected) as refused:
        access(tmp_path).admit(*request(30, credentials))
    assert reason not in str(refused.value)
    assert [record.getMessage() for record in caplog.records] == [f"refused request 30 from 10.0.0.1:5: {reason}"]


def test_accounts_may_be_replaced(tmp_path: Path):
    control, new = access(tmp_path), Credentials("new-key", "new-secret")
    control.replace_accounts(AccountsFile(write_accounts(tmp_path, admin=new)).read())
    control.admit(*request(30, new))
    with pytest.raises(Rejected):
        control.admit(*request(30, ADMIN))


def test_refusals_without_end_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    control, refused = access(tmp_path), 0
    with caplog.at_level(logging.WARNING):
        for _ in range(40):
            try:
                control.admit(*request(30, None))
            except Rejected:
                refused += 1
    assert (refused, len(caplog.records)) == (40, 10 + 2)
