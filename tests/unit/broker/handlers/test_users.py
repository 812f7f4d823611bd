"""Claims about requests for users (3001 to 3005), through a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import each_case
from orbitmq.model.access import User, UserStatus, UserType
from orbitmq.wire.bodies.access import UserChange, decode_user, decode_users, encode_user_change
from orbitmq.wire.headers import CreateAcl, CreateUser, DeleteUser, GetUser, ListUsers, UpdateUser
from orbitmq.wire.signature import Credentials
from unit.broker.conftest import Harness

ROOT, MANAGER = Credentials("root", "root-secret"), Credentials("manager", "manager-secret")
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"root-secret"}',
}


@pytest.fixture
def harness(serve: Any) -> Any:
    return serve(**ON)


def body(**said: Any) -> bytes:
    return encode_user_change("ignored", UserChange(**said))


async def told(
    harness: Harness, who: Credentials | None, header: object, content: bytes = b""
) -> tuple[int, str | None, bytes]:
    pool = harness.connect(credentials=who)
    answer = await pool.request(harness.broker.address, header, content)
    return answer.code, answer.remark, answer.body


async def make_manager(harness: Harness) -> None:
    """Make a user who is not super, and may administrate the cluster."""
    assert (await told(harness, ROOT, CreateUser(username="manager"), body(password="manager-secret")))[0] == 0
    rule = {"resource": "Cluster:DefaultCluster", "actions": ["All"], "decision": "Allow"}
    rules = json.dumps({"policies": [{"entries": [rule]}]}).encode()
    assert (await told(harness, ROOT, CreateAcl(subject="User:manager"), rules))[0] == 0


async def test_a_user_comes_changes_and_goes(harness: Any):
    assert (await told(harness, ROOT, GetUser(username="anna")))[::2] == (0, b"")
    assert (await told(harness, ROOT, CreateUser(username="anna"), body(password="pw")))[0] == 0
    assert decode_user((await told(harness, ROOT, GetUser(username="anna")))[2]) == User("anna", "pw")
    change = body(type=UserType.SUPER, status=UserStatus.DISABLE)
    assert (await told(harness, ROOT, UpdateUser(username="anna"), change))[0] == 0
    changed = User("anna", "pw", UserType.SUPER, UserStatus.DISABLE)
    assert decode_users((await told(harness, ROOT, ListUsers(filter="ann")))[2]) == (changed,)
    assert (await told(harness, ROOT, DeleteUser(username="anna")))[0] == 0
    assert (await told(harness, ROOT, DeleteUser(username="anna")))[0] == 0
    assert decode_users((await told(harness, ROOT, ListUsers(filter="ann")))[2]) == ()


async def test_users_survive_a_restart(serve: Any):
    async with serve(**ON) as harness:
        assert (await told(harness, ROOT, CreateUser(username="anna"), body(password="pw")))[0] == 0
    async with serve(**ON) as harness:
        assert decode_user((await told(harness, ROOT, GetUser(username="anna")))[2]) == User("anna", "pw")


@each_case(
    (CreateUser(), body(password="pw"), (29, "The username is blank")),
    (UpdateUser(username=""), body(password="pw"), (29, "The username is blank")),
    (GetUser(username=" "), b"", (29, "The username is blank")),
    (CreateUser(username="root"), body(password="pw"), (16, "The user is existed")),
    (CreateUser(username="b"), body(), (16, "password can not be blank")),
    (UpdateUser(username="b"), body(password="pw"), (16, "The user is not exist")),
    (UpdateUser(username=" "), body(password="pw"), (16, "username can not be blank")),
    (DeleteUser(username=" "), b"", (16, "username can not be blank")),
    (DeleteUser(), b"", (16, "username can not be blank")),
)
async def test_what_java_refuses_is_refused_in_its_words(
    header: object, content: bytes, answer: tuple[int, str], harness: Any
):
    assert (await told(harness, ROOT, header, content))[:2] == answer


@each_case(b"", b"[]", b"x", b'{"password":5}')
async def test_a_body_that_is_no_user_is_refused(content: bytes, harness: Any):
    assert (await told(harness, ROOT, CreateUser(username="b"), content))[0] == 1
    assert "b" not in harness.broker.service.access.directory.users


async def test_super_users_are_the_affair_of_super_users(harness: Any):
    await make_manager(harness)
    make = body(password="pw", type=UserType.SUPER)
    refused = (1, "The super user can only be create by super user", b"")
    assert await told(harness, MANAGER, CreateUser(username="b"), make) == refused
    not_super = "The super user can only be update by super user"
    assert (await told(harness, MANAGER, UpdateUser(username="manager"), body(type=UserType.SUPER)))[:2] == (
        1,
        not_super,
    )
    assert (await told(harness, MANAGER, UpdateUser(username="root"), body(password="pw")))[:2] == (16, not_super)
    assert (await told(harness, MANAGER, DeleteUser(username="root")))[:2] == (16, not_super)
    assert (await told(harness, MANAGER, CreateUser(username="b"), body(password="pw")))[0] == 0


async def test_passwords_are_shown_to_super_users_alone(serve: Any):
    """Java shows them to every user who may read: a reader of users could sign as any of them."""

    async with serve(**ON) as harness:
        await make_manager(harness)
        shown = decode_users((await told(harness, MANAGER, ListUsers()))[2])
        assert {user.name: user.password for user in shown} == {"root": "", "manager": ""}
        assert decode_user((await told(harness, MANAGER, GetUser(username="root")))[2]).password == ""
        assert decode_user((await told(harness, ROOT, GetUser(username="manager")))[2]).password == "manager-secret"


async def test_where_signatures_are_not_needed_users_are_kept_and_their_passwords_never_shown(serve: Any):
    async with serve() as harness:
        make = body(password="pw", type=UserType.SUPER)
        assert (await told(harness, None, CreateUser(username="root"), make))[0] == 0
        for who in (None, Credentials("root", "pw")):
            assert decode_user((await told(harness, who, GetUser(username="root")))[2]).password == ""
