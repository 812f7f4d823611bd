"""Claims about the settings of users and rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.access.settings import parse_codes, parse_first_user, parse_own_credentials
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import ConfigError
from orbitmq.model.access import User, UserType
from orbitmq.wire.signature import Credentials


def test_the_first_user_is_a_super_user():
    text = '{"username":"root","password":"pw","userType":"Normal"}'
    assert parse_first_user(text) == User("root", "pw", UserType.SUPER)
    assert parse_first_user(" ") is None


def test_own_credentials_are_a_key_and_a_secret():
    assert parse_own_credentials('{"accessKey":"a","secretKey":"s"}') == Credentials("a", "s")
    assert parse_own_credentials("") is None


@each_case("root:hunter2", "{", "[]", '{"username":"root"}', '{"username":"","password":"hunter2"}', "hunter2\n")
def test_a_secret_that_cannot_be_read_is_not_shown(text: str):
    for parse in (parse_first_user, parse_own_credentials):
        with pytest.raises(ConfigError) as refused:
            parse(text)
        assert "hunter2" not in str(refused.value)


def test_codes_are_numbers_with_commas():
    assert parse_codes("k", " 26, 28,,") == {26, 28}
    for text in ("x", "26;28", "-1", "٣"):
        with pytest.raises(ConfigError):
            parse_codes("k", text)


@each_case(
    ({"authorization_enabled": True}, "authorizationEnabled"),
    ({"authentication_enabled": True, "acl_enable": True}, "authenticationEnabled"),
    ({"migrate_auth_from_v1_enabled": True}, "plainAclFile"),
    ({"authentication_whitelist": "x"}, "authenticationWhitelist"),
    ({"authorization_whitelist": "x"}, "authorizationWhitelist"),
    ({"init_authentication_user": "x"}, "initAuthenticationUser"),
    ({"inner_client_authentication_credentials": "x"}, "innerClientAuthenticationCredentials"),
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], key: str):
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(**settings)
    assert refused.value.field == key


def test_settings_show_no_secret(tmp_path: Path):
    path = tmp_path / "broker.conf"
    path.write_text(
        'initAuthenticationUser={"username":"root","password":"hunter2"}\n'
        'innerClientAuthenticationCredentials={"accessKey":"a","secretKey":"hunter2"}\nauthenticationEnabled=true\n'
    )
    config = BrokerConfig.from_properties(path)
    assert parse_first_user(config.init_authentication_user) == User("root", "hunter2", UserType.SUPER)
    assert "hunter2" not in repr(config)
    shown = config.to_properties()
    assert "hunter2" not in str(shown)
    assert shown["initAuthenticationUser"] == "******"
    assert BrokerConfig().to_properties()["initAuthenticationUser"] == ""
