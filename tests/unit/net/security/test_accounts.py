"""Claims about the file of accounts. Who may ask for what is tested at each server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.net.security.accounts import AccountRole, AccountsFile
from orbitmq.wire.signature import Credentials

from ..accounts import ADMIN, READER, WRITER, write_accounts


@each_case(
    "",
    "[]",
    "{}",
    '{"accounts":[{}]}',
    '{"accounts":[{"accessKey":"short","secretKey":"secret-1"}]}',
    '{"accounts":[{"accessKey":"access","secretKey":"secret-1","role":"root"}]}',
    '{"accounts":["x"]}',
)
def test_a_file_that_holds_something_else_is_an_error_without_its_secrets(content: str, tmp_path: Path):
    path = tmp_path / "accounts.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="aclFile") as refused:
        AccountsFile(path).read()
    assert "secret-1" not in str(refused.value)


def test_roles_are_three_and_each_is_more_than_the_ones_before_it():
    assert [role.name for role in sorted(AccountRole)] == ["READER", "WRITER", "ADMIN"]


def test_an_error_says_what_is_wrong_with_the_file(tmp_path: Path):
    path = write_accounts(tmp_path, admin=Credentials("five", "secret-1"))
    with pytest.raises(ConfigError, match="at least 6 characters"):
        AccountsFile(path).read()
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"\(JSONDecodeError\)"):
        AccountsFile(path).read()


def test_a_missing_file_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"aclFile.*No such file"):
        AccountsFile(tmp_path / "missing").read()


def test_accounts_are_known_by_their_access_keys_and_read_only_unless_they_say_more(tmp_path: Path):
    accounts = AccountsFile(write_accounts(tmp_path)).read()
    expected = {ADMIN: AccountRole.ADMIN, WRITER: AccountRole.WRITER, READER: AccountRole.READER}
    assert {account.credentials: account.role for account in accounts.values()} == expected
    assert list(accounts) == [ADMIN.access_key, WRITER.access_key, READER.access_key]


@each_case(("sixsix", "sixsix", True), ("fives", "sixsix", False), ("sixsix", "fives", False))
def test_keys_have_at_least_six_characters(access_key: str, secret_key: str, is_enough: bool, tmp_path: Path):
    file = AccountsFile(write_accounts(tmp_path, admin=Credentials(access_key, secret_key)))
    if is_enough:
        assert access_key in file.read()
    else:
        with pytest.raises(ConfigError):
            file.read()


def test_a_file_is_read_again_when_it_has_changed_and_can_be_used(tmp_path: Path):
    path = write_accounts(tmp_path)
    file = AccountsFile(path)
    file.read()
    assert file.read_if_changed() is None

    write_accounts(tmp_path, admin=Credentials("another", "another-secret"))
    os.utime(path, ns=(1, 1))
    assert "another" in (file.read_if_changed() or {})
    assert file.read_if_changed() is None

    path.write_text("{")
    os.utime(path, ns=(2, 2))
    assert file.read_if_changed() is None
    path.unlink()
    assert file.read_if_changed() is None


@each_case((0o600, False), (0o640, True), (0o604, True))
def test_secrets_that_others_may_read_are_noticed(mode: int, is_open: bool, tmp_path: Path):
    path = write_accounts(tmp_path)
    path.chmod(mode)
    assert AccountsFile(path).is_open_to_others == is_open
