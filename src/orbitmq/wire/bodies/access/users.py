"""Users as JSON: what an administrator asks for, and what a broker answers.

Source: Java UserInfo, UserConverter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from orbitmq.model.access import User, UserStatus, UserType, by_name
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX, parse_body


class UserChange(NamedTuple):
    """What a request says of a user; None is what it leaves as it is."""

    password: str | None = None
    type: UserType | None = None
    status: UserStatus | None = None

    def __repr__(self) -> str:
        """Return all but the secret: this may come into a log."""
        return f"UserChange({self.type}, {self.status})"


def encode_user_change(name: str, change: UserChange) -> bytes:
    """Encode the body of AUTH_CREATE_USER and AUTH_UPDATE_USER."""
    fields = {"username": name, "password": change.password, "userType": change.type, "userStatus": change.status}
    return orjson.dumps({key: value for key, value in fields.items() if value is not None})


def decode_user_change(body: bytes) -> UserChange:
    """Decode the body of AUTH_CREATE_USER and AUTH_UPDATE_USER. Words that are none count as not said, as in Java.

    Raises:
        HeaderError: the body describes no user.
    """
    return parse_body("user", body, _parse_change, size_max=DOCUMENT_SIZE_MAX)


def encode_user(user: User) -> bytes:
    """Encode the answer to AUTH_GET_USER."""
    return orjson.dumps(_document(user))


def encode_users(users: Iterable[User]) -> bytes:
    """Encode the answer to AUTH_LIST_USER."""
    return orjson.dumps([_document(user) for user in users])


def decode_user(body: bytes) -> User:
    """Decode the answer to AUTH_GET_USER."""
    return parse_body("user", body, parse_user)


def decode_users(body: bytes) -> tuple[User, ...]:
    """Decode the answer to AUTH_LIST_USER: a JSON array, nothing where there is no user."""
    if not body:
        return ()
    return parse_body("users", b'{"users":%b}' % body, lambda document: tuple(map(parse_user, document["users"])))


def parse_user(document: dict[str, Any]) -> User:
    """Build a user from its JSON object."""
    change = _parse_change(document)
    name = document["username"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"username is {name!r:.80}, expected text")
    return User(name, change.password or "", change.type or UserType.NORMAL, change.status or UserStatus.ENABLE)


def user_document(user: User) -> dict[str, str]:
    """Return the JSON object of a user, its secret included."""
    return _document(user)


def _parse_change(document: dict[str, Any]) -> UserChange:
    password = document.get("password")
    if password is not None and not isinstance(password, str):
        raise ValueError("password: text is expected")  # and not shown
    return UserChange(
        password, by_name(UserType, document.get("userType")), by_name(UserStatus, document.get("userStatus"))
    )


def _document(user: User) -> dict[str, str]:
    return {"password": user.password, "userStatus": user.status, "userType": user.type, "username": user.name}
