"""Claims about the security of the connections that we open. Refused files are tested from end to end as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.net.security.client_security import UNSECURED, load_security
from orbitmq.wire.signature import Credentials

from ..certificates import Authority


def private_file(folder: Path, text: str) -> Path:
    path = folder / "own.properties"
    path.write_text(text)
    path.chmod(0o600)
    return path


@each_case(None, "")
def test_without_a_file_nothing_is_signed_or_encrypted(path: str | None):
    assert load_security(path) == UNSECURED


@each_case(
    ("accessKey=a\nsecretKey=b\n", Credentials("a", "b")),
    ("accessKey=a\nsecretKey=b\nsecurityToken=t\n", Credentials("a", "b", "t")),
    ("accessKey=\nsecretKey=\n", None),
)
def test_a_pair_of_keys_signs(text: str, expected: Credentials | None, tmp_path: Path):
    assert load_security(private_file(tmp_path, text)) == (expected, None)


@each_case(
    ("accessKey=a\n", "secretKey"),
    ("secretKey=hidden\n", "accessKey"),
    ("accesskey=a\n", "accesskey"),
    ("tlsEnable=maybe\n", "tlsEnable"),
    ("tlsEnable=true\ntlsClientTrustCertPath=/nowhere\n", "/nowhere"),
)
def test_half_a_setting_is_refused_without_showing_a_secret(text: str, words: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=words) as caught:
        load_security(private_file(tmp_path, text))
    assert "hidden" not in str(caught.value)


@each_case("true", "True", " TRUE ")
def test_tls_trusts_the_certificate_next_to_the_file(word: str, tmp_path: Path):
    trust = Authority(tmp_path).trust
    path = private_file(tmp_path, f"tlsEnable={word}\ntlsClientTrustCertPath={trust.name}\n")
    context = load_security(path).tls
    assert context is not None
    assert [dict(entry[0] for entry in ca["subject"])["commonName"] for ca in context.get_ca_certs()] == [
        "test authority"
    ]


@each_case("false", "False")
def test_tls_may_be_switched_off_in_words(word: str, tmp_path: Path):
    assert load_security(private_file(tmp_path, f"tlsEnable={word}\n")).tls is None


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "is_told"),
    [
        (0o644, 0o755, True),
        (0o644, 0o700, False),
        (0o600, 0o755, False),
        (0o611, 0o755, False),
        (0o640, 0o710, True),
        (0o604, 0o701, True),
        (0o644, 0o766, False),
    ],
)
def test_a_file_that_others_may_read_is_told(
    file_mode: int, folder_mode: int, is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = private_file(tmp_path, "accessKey=a\nsecretKey=b\n")
    path.chmod(file_mode)
    tmp_path.chmod(folder_mode)
    load_security(path)
    assert ("chmod 600" in caplog.text) == is_told


def test_a_file_that_is_not_there_or_not_in_the_format_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="No such file"):
        load_security(tmp_path / "missing")
    path = tmp_path / "own.properties"
    path.write_bytes(b"accessKey=\xff\n")
    with pytest.raises(ConfigError, match="not in the format"):
        load_security(path)
