"""Claims about access control: which signature lets a request pass. Each server's own rules are tested there."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.errors import Rejected
from orbitmq.net.security.accounts import AccountsFile, Role
from orbitmq.net.security.acl import AccessControl
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials, sign_command

from ..accounts import ADMIN, FORGER, READER, STRANGER, WRITER, write_accounts

NEEDED = {10: Role.READER, 20: Role.WRITER, 30: Role.ADMIN}


def request(code: int, credentials: Credentials | None) -> tuple[Command, Any]:
    command = sign_command(Command(code, ext_fields={"topic": "t"}, body=b"b"), credentials)
    return command, SimpleNamespace(remote="10.0.0.1:5")


def access(folder: Path) -> AccessControl:
    return AccessControl(AccountsFile(write_accounts(folder)).read(), NEEDED.get)


@pytest.mark.parametrize("code", [0, *NEEDED])
@pytest.mark.parametrize(
    ("credentials", "role"),
    [(None, 0), (STRANGER, 0), (FORGER, 0), (READER, Role.READER), (WRITER, Role.WRITER), (ADMIN, Role.ADMIN)],
)
def test_a_role_may_do_what_lower_ones_may(credentials: Credentials | None, role: int, code: int, tmp_path: Path):
    control, needed = access(tmp_path), NEEDED.get(code)
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
