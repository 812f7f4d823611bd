"""Claims about the file of accounts. Who may ask for what is tested at each server."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import ConfigError
from orbitmq.net.security.accounts import AccountsFile


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"accounts":[{}]}',
        '{"accounts":[{"accessKey":"short","secretKey":"secret-1"}]}',
        '{"accounts":[{"accessKey":"access","secretKey":"secret-1","role":"root"}]}',
        '{"accounts":["x"]}',
    ],
)
def test_a_file_that_holds_something_else_is_an_error_without_its_secrets(content: str, tmp_path: Path):
    path = tmp_path / "accounts.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="aclFile") as refused:
        AccountsFile(path).read()
    assert "secret-1" not in str(refused.value)


def test_a_missing_file_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="aclFile"):
        AccountsFile(tmp_path / "missing").read()
