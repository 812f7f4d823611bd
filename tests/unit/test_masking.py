from __future__ import annotations

import json

from cases import each_case
from orbitmq.audit import AuditRecord, format_record
from orbitmq.masking import MASK, masked, masked_settings, masked_value


@each_case(
    "secretKey",
    "accessKey",
    "initAuthenticationUser",
    "innerClientAuthenticationCredentials",
    "adminPassword",
    "securityToken",
    "tls.server.keyPassword",
    "ssl_private_key",
    "DB_PASSWD",
)
def test_a_value_whose_name_says_secret_is_masked(name: str) -> None:
    assert masked_value(name, "abc") == MASK


@each_case(
    ("keyFile", "/etc/key.pem"),
    ("tls.server.keyPath", "/etc/key.pem"),
    ("privateKeyPath", "/etc/key.pem"),
    ("passwordFile", "/etc/pw"),
    ("key", "orders"),
    ("keys", "k1 k2"),
    ("keysWithoutEffect", "a,b"),
    ("maxMessageSize", "4194304"),
    ("tokenEnabled", "1"),
    ("secretsAllowed", "true"),
    ("adminPassword", ""),
    ("shardingKey", "user-7"),
    ("authenticationProvider", "a.b.C"),
)
def test_a_harmless_value_is_shown(name: str, value: str) -> None:
    assert masked_value(name, value) == value


def test_secrets_inside_of_json_and_addresses_are_masked() -> None:
    shown = masked_settings(
        {
            "socksProxyConfig": '{"*": {"addr": "a:1", "username": "u", "password": "pw-1"}}',
            "broken": '{"password": "pw-2"',
            "proxy": "http://u:pw-3@host:8080/",
        }
    )
    assert json.loads(shown["socksProxyConfig"])["*"] == {"addr": "a:1", "username": "u", "password": MASK}
    assert shown["proxy"] == f"http://u:{MASK}@host:8080/"
    assert "pw-" not in str(shown)


def test_an_audit_line_has_no_secret_wherever_it_stood() -> None:
    record = AuditRecord(
        at_ms=0,
        who="anna",
        action="change_setting",
        target={"key": "initAuthenticationUser", "value": "pw-1", "topic": "orders"},
        before={"initAuthenticationUser": "pw-2", "flushDiskType": "ASYNC_FLUSH"},
        after=[{"text": '{"secretKey": "pw-3"}'}],
    )
    line = format_record(record)
    assert "pw-" not in line
    assert ("ASYNC_FLUSH" in line, '"topic": "orders"' in line) == (True, True)


def test_what_is_no_text_keeps_its_form() -> None:
    assert masked({"offsets": {"a 0": 7}, "is_token": True, "token": 12}) == {
        "offsets": {"a 0": 7},
        "is_token": True,
        "token": MASK,
    }
