"""Fields of the headers about users."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.wire.headers import CreateUser, DeleteUser, GetUser, ListUsers, UpdateUser

from ..support import travels_as


@pytest.mark.parametrize("kind", [CreateUser, UpdateUser, DeleteUser, GetUser])
def test_a_user_travels_by_name(kind: Any) -> None:
    assert travels_as(kind(username="anna"), {"username": "anna"})
    assert travels_as(kind(), {})


def test_a_list_may_be_filtered() -> None:
    assert travels_as(ListUsers(filter="an"), {"filter": "an"})
    assert travels_as(ListUsers(), {})
