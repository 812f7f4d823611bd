"""Claims about users as JSON: Java's bytes, both ways."""

from __future__ import annotations

import json

import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.access import User, UserStatus, UserType
from orbitmq.wire.bodies.access import (
    UserChange,
    decode_user,
    decode_user_change,
    decode_users,
    encode_user,
    encode_user_change,
    encode_users,
)
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder

ANNA = User("anna", "pw", UserType.SUPER, UserStatus.DISABLE)


def java_body(stem: str) -> bytes:
    """Return the body of a frame that was captured from Java."""
    (frame,) = FrameDecoder().feed(golden(stem).data)
    return decode_command(frame).body


def test_what_java_sends_is_read_and_written():
    asked = java_body("3001-auth-create-user-request")
    assert decode_user_change(asked) == UserChange("golden-secret", UserType.NORMAL)
    assert json.loads(encode_user_change("golden", UserChange("golden-secret", UserType.NORMAL))) == json.loads(asked)
    answered = java_body("3004-auth-get-user-answer")
    assert encode_user(decode_user(answered)) == answered
    answered = java_body("3005-auth-list-user-answer")
    assert encode_users(decode_users(answered)) == answered


def test_what_a_request_does_not_say_is_none():
    assert decode_user_change(b"{}") == UserChange()
    assert decode_user_change(b'{"password":null,"userType":"king","userStatus":3}') == UserChange()
    assert decode_user_change(b'{"userType":"SUPER","userStatus":"Disable"}') == UserChange(
        None, ANNA.type, ANNA.status
    )
    assert encode_user_change("anna", UserChange()) == b'{"username":"anna"}'


def test_no_users_are_no_body():
    assert decode_users(b"") == ()
    assert decode_users(b"[]") == ()


@each_case(b"", b"[]", b'{"username":""}', b'{"username":5}', b"{}", b'{"username":"a","password":5}')
def test_what_is_no_user_is_refused(body: bytes):
    with pytest.raises(HeaderError):
        decode_user(body)


def test_a_secret_shows_in_no_repr_and_no_error():
    assert "pw" not in repr(ANNA)
    assert "pw" not in repr(UserChange("pw"))
    with pytest.raises(HeaderError) as refused:
        decode_user(b'{"username":"a","password":["hunter2"]}')
    assert "hunter2" not in str(refused.value)
