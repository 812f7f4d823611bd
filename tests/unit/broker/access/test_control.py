"""Claims about the users and rules of a running broker: where they come from, and that changes are kept or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.access.directory import create_user, update_user
from orbitmq.broker.access.directory_file import DirectoryFile
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import ConfigError, StoreError
from orbitmq.model.access import UserStatus, UserType
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store import Draft
from orbitmq.wire.bodies.access import UserChange
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.signature import Credentials
from unit.broker.access.test_plain_accounts import FILE

from ..parts import HOST, memory_store
from .samples import FORGER, STRANGER, SUPER, UNSIGNED, peer, sample

FIRST = '{"username":"root","password":"root-secret"}'
ON: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True, "init_authentication_user": FIRST}


def control(folder: Path, **settings: Any) -> AccessControl:
    return AccessControl(BrokerConfig(store_path_root_dir=folder, **settings), folder / "auth.json", memory_store())


def test_users_of_the_settings_are_made_once(tmp_path: Path):
    inner = '{"accessKey":"inner","secretKey":"s"}'
    first = control(tmp_path, **ON, inner_client_authentication_credentials=inner)
    assert {user.name: user.type for user in first.directory.users.values()} == {"root": "Super", "inner": "Super"}
    changed = ON | {"init_authentication_user": FIRST.replace("root-secret", "other")}
    assert control(tmp_path, **changed).directory == first.directory, "who is there stays as it is"


def test_without_settings_there_are_no_users_no_guard_and_no_file(tmp_path: Path):
    found = control(tmp_path)
    assert (found.guard, dict(found.directory.users)) == (None, {})
    assert list(tmp_path.iterdir()) == []


def test_a_broker_without_an_administrator_says_so_at_its_start(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    found = control(tmp_path, **ON)
    assert caplog.messages == []
    found.change(update_user(found.directory, "root", UserChange(status=UserStatus.DISABLE)))
    control(tmp_path, **ON)
    assert "no super user" in caplog.text
    caplog.clear()
    control(tmp_path, **ON | {"init_authentication_user": FIRST.replace("root", "other")})
    control(tmp_path)
    assert caplog.messages == [], "there is one, or nobody has to sign"


def test_a_change_is_kept_and_counts_immediately(tmp_path: Path):
    found = control(tmp_path, **ON)
    assert found.guard is not None
    found.change(create_user(found.directory, "ben", UserChange("pw")))
    found.guard.signer(sample(26, Credentials("ben", "pw")), peer())
    assert control(tmp_path).directory == found.directory


def test_a_change_that_the_disk_refuses_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = control(tmp_path, **ON)
    before = found.directory

    def refuse(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(DirectoryFile, "save", refuse)
    with pytest.raises(OSError, match="full"):
        found.change(create_user(found.directory, "ben", UserChange("pw")))
    assert found.directory is before
    with pytest.raises(StoreError):
        control(tmp_path / "new", **ON)


def test_accounts_of_4x_become_users_once(tmp_path: Path):
    plain = tmp_path / "plain_acl.yml"
    plain.write_text(FILE)
    settings = ON | {"migrate_auth_from_v1_enabled": True, "plain_acl_file": str(plain)}
    found = control(tmp_path, **settings)
    assert found.directory.users["rocketmq2"].type is UserType.SUPER
    assert [str(one.resource) for one in found.directory.acls["RocketMQ"].policies[0].rules][:2] == [
        "Topic:topicA",
        "Topic:topicB",
    ]
    assert found.guard is not None
    found.guard.admit(sample(25, None), peer("192.168.0.7"))
    plain.write_text(FILE.replace("12345678", "87654321"))
    assert control(tmp_path, **settings).directory == found.directory


@each_case("accounts: x", "accounts:\n- accessKey: a\n  secretKey: 'hunter2'\n  topicPerms:\n  - ' =PUB'", "\xff")
def test_a_4x_file_that_cannot_be_used_stops_the_start(text: str, tmp_path: Path):
    plain = tmp_path / "plain_acl.yml"
    plain.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="plainAclFile") as refused:
        control(tmp_path, migrate_auth_from_v1_enabled=True, plain_acl_file=str(plain))
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError):
        control(tmp_path, migrate_auth_from_v1_enabled=True, plain_acl_file=str(tmp_path / "nothing"))


def test_who_may_see_passwords_and_change_super_users(tmp_path: Path):
    found = control(tmp_path, **ON)
    found.change(create_user(found.directory, UNSIGNED.access_key, UserChange(UNSIGNED.secret_key)))
    assert found.may_see_passwords(sample(3005, SUPER), peer())
    for who in (FORGER, STRANGER, UNSIGNED, None):
        assert not found.may_see_passwords(sample(3005, who), peer())
    assert found.may_change_super_users(sample(3002, SUPER))
    assert not found.may_change_super_users(sample(3002, UNSIGNED))
    assert not found.may_change_super_users(sample(3002, STRANGER))
    assert not control(tmp_path).may_see_passwords(sample(3005, SUPER), peer()), "nobody has checked the signature"


def test_the_topic_of_a_message_is_the_one_it_was_sent_to(tmp_path: Path):
    store = memory_store()
    found = AccessControl(BrokerConfig(store_path_root_dir=tmp_path), tmp_path / "auth.json", store)

    def stored(topic: str, **properties: str) -> int:
        draft = Draft(topic, 0, b"x", format_properties(properties), 0, 0, 1, HOST, 0)
        return store.append(draft).physical_offset

    assert found._topic_at(stored("orders")) == "orders"
    assert found._topic_at(stored("orders", REAL_TOPIC="mine")) == "orders", "its sender may write what he likes"
    assert found._topic_at(stored(SCHEDULE_TOPIC, REAL_TOPIC="orders")) == "orders"
    assert found._topic_at(stored(SCHEDULE_TOPIC)) == SCHEDULE_TOPIC
    assert found._topic_at(1 << 40) is None
    assert found._topic_at(-1) is None
