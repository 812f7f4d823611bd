"""Users (3001 to 3005), with Java's answers; and changes of users and rules: kept, or refused and not made.

Source: Java AdminBrokerProcessor: createUser, updateUser, deleteUser, getUser, listUser.
"""

from __future__ import annotations

import logging
from typing import Any

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.access.directory import Directory, create_user, delete_user, list_users, update_user
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.access import User, UserType
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.access import decode_user_change, encode_user, encode_users
from orbitmq.wire.headers import CreateUser, DeleteUser, GetUser, ListUsers, UpdateUser

handlers: Handlers[AccessControl] = Handlers()


@handlers.on(CreateUser)
def create(access: AccessControl, call: Call[CreateUser]) -> Reply:
    """Make a user; a super user is made by a super user alone."""
    name = _name(call.header.username)
    change = decode_user_change(call.command.body)
    if change.type is UserType.SUPER and not access.may_change_super_users(call.command):
        raise Rejected(ResponseCode.SYSTEM_ERROR, "The super user can only be create by super user")
    keep(access, create_user(access.directory, name, change))
    return Reply()


@handlers.on(UpdateUser)
def update(access: AccessControl, call: Call[UpdateUser]) -> Reply:
    """Change a user; only a super user changes a super user, or makes one."""
    name = _name(call.header.username)
    change = decode_user_change(call.command.body)
    if change.type is UserType.SUPER and not access.may_change_super_users(call.command):
        raise Rejected(ResponseCode.SYSTEM_ERROR, _NOT_SUPER)
    _check_not_blank(name)
    changed = update_user(access.directory, name, change)
    _check_super(access, call, name)
    keep(access, changed)
    return Reply()


@handlers.on(DeleteUser)
def delete(access: AccessControl, call: Call[DeleteUser]) -> Reply:
    """Delete a user with its rules; one that is not there is gone already."""
    name = call.header.username or ""
    _check_not_blank(name)
    if name in access.directory.users:
        _check_super(access, call, name)
        keep(access, delete_user(access.directory, name))
    return Reply()


@handlers.on(GetUser)
def get(access: AccessControl, call: Call[GetUser]) -> Reply:
    """Answer with a user; with nothing when there is none."""
    if not (call.header.username or "").strip():
        raise Rejected(ResponseCode.INVALID_PARAMETER, "The username is blank")
    user = access.directory.users.get(call.header.username or "")
    return Reply() if user is None else Reply(body=encode_user(_shown(access, call, user)))


@handlers.on(ListUsers)
def list_all(access: AccessControl, call: Call[ListUsers]) -> Reply:
    """Answer with the users whose names contain a text; with nothing when there are none."""
    users = list_users(access.directory, call.header.filter)
    return Reply(body=encode_users(_shown(access, call, user) for user in users)) if users else Reply()


_NOT_SUPER = "The super user can only be update by super user"


def _name(name: str | None) -> str:
    if not name:
        raise Rejected(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return name


def _check_not_blank(name: str) -> None:
    if not name.strip():
        raise Rejected(ResponseCode.NO_PERMISSION, "username can not be blank")


def _check_super(access: AccessControl, call: Call[Any], name: str) -> None:
    if access.directory.users[name].type is UserType.SUPER and not access.may_change_super_users(call.command):
        raise Rejected(ResponseCode.NO_PERMISSION, _NOT_SUPER)


def _shown(access: AccessControl, call: Call[Any], user: User) -> User:
    """Return a user as the asker may see it: a reader of a super user's password could sign as one."""
    return user if access.may_see_passwords(call.command, call.connection) else user._replace(password="")


log = logging.getLogger(__name__)


def keep(access: AccessControl, directory: Directory) -> None:
    """Keep a changed directory.

    Raises:
        Rejected: the disk refused, and nothing has changed.
    """
    try:
        access.change(directory)
    except OSError as error:
        log.error("a change of users or rules was not kept: %s", error)
        raise Rejected(ResponseCode.SYSTEM_ERROR, "An system error occurred, please try again later.") from error
