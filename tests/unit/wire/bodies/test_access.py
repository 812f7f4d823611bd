"""Claims about users as JSON: Java's bytes, both ways."""

from __future__ import annotations

import json

import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.access import User, UserStatus, UserType
from orbitmq.wire.bodies import access

ANNA = User("anna", "pw", UserType.SUPER, UserStatus.DISABLE)


def test_what_java_sends_is_read_and_written():
    asked = golden("3001-auth-create-user-request").body
    assert access.decode_user_change(asked) == access.UserChange("golden-secret", UserType.NORMAL)
    assert json.loads(
        access.encode_user_change("golden", access.UserChange("golden-secret", UserType.NORMAL))
    ) == json.loads(asked)
    answered = golden("3004-auth-get-user-answer").body
    assert access.encode_user(access.decode_user(answered)) == answered
    answered = golden("3005-auth-list-user-answer").body
    assert access.encode_users(access.decode_users(answered)) == answered


def test_what_a_request_does_not_say_is_none():
    assert access.decode_user_change(b"{}") == access.UserChange()
    assert access.decode_user_change(b'{"password":null,"userType":"king","userStatus":3}') == access.UserChange()
    assert access.decode_user_change(b'{"userType":"SUPER","userStatus":"Disable"}') == access.UserChange(
        None, ANNA.type, ANNA.status
    )
    assert access.encode_user_change("anna", access.UserChange()) == b'{"username":"anna"}'


def test_no_users_are_no_body():
    assert access.decode_users(b"") == ()
    assert access.decode_users(b"[]") == ()


@each_case(b"", b"[]", b'{"username":""}', b'{"username":5}', b"{}", b'{"username":"a","password":5}')
def test_what_is_no_user_is_refused(body: bytes):
    with pytest.raises(HeaderError):
        access.decode_user(body)


def test_a_secret_shows_in_no_repr_and_no_error():
    assert "pw" not in repr(ANNA)
    assert "pw" not in repr(access.UserChange("pw"))
    with pytest.raises(HeaderError) as refused:
        access.decode_user(b'{"username":"a","password":["hunter2"]}')
    assert "hunter2" not in str(refused.value)
