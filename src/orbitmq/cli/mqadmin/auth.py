"""Users and their rules (ACL 2.0). What is changed in a cluster goes to its masters and its slaves.

Where Java says nothing and ends with 0, ours says what is wrong and ends with 1: a user or a subject that is not there. A
word that is not a type, status, action or decision is refused, where Java sends it and brokers leave it out.

Source: Java org.apache.rocketmq.tools.command.auth of 5.3.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, java_text, listed, table
from orbitmq.cli.mqadmin.targets import ask, given_brokers
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.masking import masked_value
from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Acl,
    Action,
    Policy,
    PolicyType,
    User,
    UserStatus,
    UserType,
    by_name,
    parse_resource,
)
from orbitmq.wire.bodies.access import (
    UserChange,
    acl_document,
    decode_acl,
    decode_acls,
    decode_user,
    decode_users,
    encode_acl,
    encode_user_change,
)
from orbitmq.wire.headers import (
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    GetAcl,
    GetUser,
    ListAcls,
    ListUsers,
    UpdateAcl,
    UpdateUser,
)

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
_USER_TITLES = "#UserName|#Password|#UserType|#UserStatus"
_ACL_TITLES = "#Subject|#PolicyType|#Resource|#Actions|#SourceIp|#Decision"


async def _addresses(clients: ClusterClients, given: Given, *, with_slaves: bool) -> list[str]:
    """Return the broker that is named, or a cluster's masters, with its slaves where these change as well.

    Raises:
        ClientError: the cluster has none.
    """
    found = await given_brokers(clients, given, with_slaves=with_slaves)
    if not found:
        raise ClientError(f"the cluster {given.text('clusterName')} has no master now")
    return list(found)


def _word(kind: type[E], given: Given, name: str) -> E | None:
    return _member(kind, name, given.text(name)) if name in given else None


def _member(kind: type[E], name: str, text: str) -> E:
    found = by_name(kind, text.strip())
    if found is None:
        raise InvalidArgument(f"--{name}", text, f"one of {', '.join(kind)}")
    return found


async def _change(clients: ClusterClients, given: Given, word: str, what: str, header: object, body: bytes) -> Result:
    addresses = await _addresses(clients, given, with_slaves=True)
    for address in addresses:
        await ask(clients, address, header, body)
    return listed(f"{word} {what} to {{address}} success.", [{"address": address} for address in addresses])


async def create_user(clients: ClusterClients, given: Given) -> Result:
    """Make a user."""
    name = given.text("username")
    change = UserChange(given.text("password"), _word(UserType, given, "userType"))
    return await _change(clients, given, "create", "user", CreateUser(username=name), encode_user_change(name, change))


async def update_user(clients: ClusterClients, given: Given) -> Result:
    """Change a user's password, type or status."""
    said = [name for name in ("password", "userType", "userStatus") if name in given]
    if len(said) != 1:
        raise InvalidArgument("updateUser", ", ".join(said) or "none", "one of --password, --userType, --userStatus")
    name = given.text("username")
    change = UserChange(
        given.text("password") if "password" in given else None,
        _word(UserType, given, "userType"),
        _word(UserStatus, given, "userStatus"),
    )
    return await _change(clients, given, "update", "user", UpdateUser(username=name), encode_user_change(name, change))


async def delete_user(clients: ClusterClients, given: Given) -> Result:
    """Delete a user and its rules."""
    return await _change(clients, given, "delete", "user", DeleteUser(username=given.text("username")), b"")


def _users(users: Iterable[User], given: Given) -> tuple[list[str], list[dict[str, Any]]]:
    rows = []
    for user in users:
        password = user.password if "showSecrets" in given else masked_value("password", user.password)
        rows.append({"name": user.name, "password": password, "type": user.type, "status": user.status})
    return table("%-16s  %-22s  %-22s  %-22s", _USER_TITLES, (row.values() for row in rows)), rows


async def _user(clients: ClusterClients, address: str, name: str) -> User | None:
    body = (await ask(clients, address, GetUser(username=name))).body
    return decode_user(body) if body else None


async def get_user(clients: ClusterClients, given: Given) -> Result:
    """Show a user."""
    name = given.text("username")
    for address in await _addresses(clients, given, with_slaves=False):
        user = await _user(clients, address, name)
        if user is not None:
            lines, rows = _users([user], given)
            return Result(lines, rows[0])
    raise ClientError(f"there is no user {name or 'without a name: give one with --username'}")


async def list_user(clients: ClusterClients, given: Given) -> Result:
    """List users, with -f those whose names contain a text."""
    for address in await _addresses(clients, given, with_slaves=False):
        body = (await ask(clients, address, ListUsers(filter=given.text("filter") or None))).body
        users = decode_users(body)
        if users:
            lines, rows = _users(users, given)
            return Result(lines if "brokerAddr" in given else [*lines, f"get user from {address} success."], rows)
    return Result()


async def copy_user(clients: ClusterClients, given: Given) -> Result:
    """Copy users from one broker to another, all or those that are named."""
    source, target = given.text("fromBroker"), given.text("toBroker")
    find = partial(_user, clients, source)
    users, missing = await _chosen(_parts(given, "usernames") or None, find, (await clients.admin.broker(source)).users)
    for user in users:
        is_new = await _user(clients, target, user.name) is None
        header = CreateUser(username=user.name) if is_new else UpdateUser(username=user.name)
        body = encode_user_change(user.name, UserChange(user.password, user.type, user.status))
        await ask(clients, target, header, body)
    rows = [{"name": user.name, "from": source, "to": target} for user in users]
    return replace(
        listed("copy user of {name} from {from} to {to} success.", rows),
        problems=[f"{source} has no user {name}" for name in missing],
    )


async def _chosen(
    names: Iterable[str] | None,
    find: Callable[[str], Awaitable[T | None]],
    find_all: Callable[[], Awaitable[Iterable[T]]],
) -> tuple[Iterable[T], list[str]]:
    """Return what is there of some names, or of all of them (None), and the names of which there is nothing."""
    if names is None:
        return await find_all(), []
    found = {name: await find(name) for name in names}
    there = [one for one in found.values() if one is not None]
    return there, [name for name, one in found.items() if one is None]


def _parts(given: Given, name: str) -> list[str]:
    return [part.strip() for part in given.text(name).split(",") if part.strip()]


def _acl(given: Given) -> Acl:
    """Return the rules that a command line describes: one for each resource."""
    actions = tuple(_member(Action, "actions", part) for part in _parts(given, "actions"))
    decision = _member(AccessDecision, "decision", given.text("decision"))
    rules = []
    for text in _parts(given, "resources"):
        resource = parse_resource(text)
        if resource is None:
            raise InvalidArgument("--resources", text, "Topic:NAME, Group:NAME, Cluster:NAME or *")
        rules.append(AccessRule(resource, actions, tuple(_parts(given, "sourceIp")), decision))
    return Acl(given.text("subject"), (Policy(PolicyType.CUSTOM, tuple(rules)),))


async def create_acl(clients: ClusterClients, given: Given) -> Result:
    """Add rules to a subject's."""
    acl = _acl(given)
    return await _change(clients, given, "create", "acl", CreateAcl(subject=acl.subject), encode_acl(acl))


async def update_acl(clients: ClusterClients, given: Given) -> Result:
    """Change a subject's rules about some resources."""
    acl = _acl(given)
    return await _change(clients, given, "update", "acl", UpdateAcl(subject=acl.subject), encode_acl(acl))


async def delete_acl(clients: ClusterClients, given: Given) -> Result:
    """Delete a subject's rules, or the one about a resource."""
    resource = given.text("resources") or None
    header = DeleteAcl(subject=given.text("subject"), resource=resource)
    return await _change(clients, given, "delete", "acl", header, b"")


def _acl_lines(acls: Iterable[Acl]) -> list[str]:
    cells: list[tuple[object, ...]] = []
    for acl in acls:
        if not acl.policies:
            cells.append((acl.subject, "", "", "", "", ""))
        for kind, rule in ((policy.type, rule) for policy in acl.policies for rule in policy.rules):
            ips = java_text(rule.source_ips or None)
            cells.append((acl.subject, kind, rule.resource, java_text(rule.actions), ips, rule.decision))
    return table("%-16s  %-10s  %-22s  %-20s  %-24s  %-10s", _ACL_TITLES, cells)


async def _rules(clients: ClusterClients, address: str, subject: str) -> Acl | None:
    body = (await ask(clients, address, GetAcl(subject=subject))).body
    return decode_acl(body) if body else None


async def get_acl(clients: ClusterClients, given: Given) -> Result:
    """Show a subject's rules."""
    subject = given.text("subject")
    lines: list[str] = []
    rows = []
    for address in await _addresses(clients, given, with_slaves=False):
        acl = await _rules(clients, address, subject)
        if acl is not None:
            lines += _acl_lines([acl])
            rows.append({"address": address, **acl_document(acl)})
    return Result(lines, rows, [] if rows else [f"{subject or 'nothing'} has no rules"])


async def list_acl(clients: ClusterClients, given: Given) -> Result:
    """List rules, with -s and -r those of subjects, and about resources, that contain a text."""
    header = ListAcls(subject_filter=given.text("subject") or None, resource_filter=given.text("resource") or None)
    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    for address in await _addresses(clients, given, with_slaves=False):
        acls = decode_acls((await ask(clients, address, header)).body)
        if acls:
            lines += _acl_lines(acls)
            rows += [{"address": address, **acl_document(acl)} for acl in acls]
    return Result(lines, rows)


async def copy_acl(clients: ClusterClients, given: Given) -> Result:
    """Copy rules from one broker to another, all or those of the subjects that are named."""
    source, target = given.text("fromBroker"), given.text("toBroker")
    find, names = partial(_rules, clients, source), _parts(given, "subjects") if "subjects" in given else None
    acls, missing = await _chosen(names, find, (await clients.admin.broker(source)).rules)
    for acl in acls:
        is_new = await _rules(clients, target, acl.subject) is None
        header = CreateAcl(subject=acl.subject) if is_new else UpdateAcl(subject=acl.subject)
        await ask(clients, target, header, encode_acl(acl))
    rows = [{"subject": acl.subject, "from": source, "to": target} for acl in acls]
    return replace(
        listed("copy acl of {subject} from {from} to {to} success.", rows),
        problems=[f"{source} has no rules of {name}" for name in missing],
    )
