"""The directory of a broker: its users, and the rules of each. Pure: every change makes a new directory.

Names, answers and their order are Java's; the limits are ours.

Source: Java AuthenticationMetadataManagerImpl, AuthorizationMetadataManagerImpl, Acl, Policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from orbitmq.broker.access.decisions import parse_network
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.access import (
    AccessRule,
    Acl,
    Action,
    Policy,
    PolicyType,
    Resource,
    User,
    UserStatus,
    UserType,
    parse_subject,
)
from orbitmq.wire.bodies.access import AclDraft, PolicyDraft, RuleDraft, UserChange

NAME_LENGTH_MAX = 255
"""Characters of a user's name, of a password, and of a resource in a rule."""
USERS_MAX = 10_000
RULES_MAX = 1_000
"""Rules of one user."""
SOURCE_IPS_MAX = 100
"""Addresses of one rule."""


class Directory(NamedTuple):
    """All users by name, and the rules of those that have any, by the user's name."""

    users: Mapping[str, User]
    acls: Mapping[str, Acl]


EMPTY = Directory({}, {})


def create_user(directory: Directory, name: str, change: UserChange) -> Directory:
    """Return a directory with one user more.

    Raises:
        Rejected: there is such a user, or the name or the password is none.
    """
    _check_name(name)
    if not (change.password or "").strip():
        raise _refusal("password can not be blank")
    if name in directory.users:
        raise _refusal("The user is existed")
    if len(directory.users) >= USERS_MAX:
        raise _refusal(f"there are {USERS_MAX} users, and that is the limit")
    _check_password(change.password or "")
    user = User(name, change.password or "", change.type or UserType.NORMAL, change.status or UserStatus.ENABLE)
    return directory._replace(users={**directory.users, name: user})


def update_user(directory: Directory, name: str, change: UserChange) -> Directory:
    """Return a directory in which a user is changed as the request says.

    Raises:
        Rejected: there is no such user, or the password is none.
    """
    old = directory.users.get(name)
    if old is None:
        raise _refusal("The user is not exist")
    password = change.password if change.password and change.password.strip() else old.password
    _check_password(password)
    user = User(name, password, change.type or old.type, change.status or old.status)
    return directory._replace(users={**directory.users, name: user})


def delete_user(directory: Directory, name: str) -> Directory:
    """Return a directory without a user and its rules."""
    return Directory(
        {key: user for key, user in directory.users.items() if key != name},
        {key: acl for key, acl in directory.acls.items() if key != name},
    )


def list_users(directory: Directory, filter_text: str | None) -> list[User]:
    """Return users, or those whose names contain a text, by their names' bytes as Java's storage orders them."""
    return [
        directory.users[name]
        for name in sorted(directory.users, key=str.encode)
        if not (filter_text or "").strip() or (filter_text or "") in name
    ]


def add_rules(directory: Directory, subject: str | None, draft: AclDraft) -> Directory:
    """Return a directory in which a user has these rules, too; one about the same resource is replaced.

    Raises:
        Rejected: there is no such user, or a rule means nothing.
    """
    name = parse_subject(draft.subject)
    if name is None:
        name = parse_subject(subject)
    if name is None:
        raise _refusal("The subject type is null.")
    if not draft.policies:
        raise _refusal("The policies is empty.")
    policies = [Policy(kind, tuple(map(_checked_rule, rules))) for kind, rules in draft.policies]
    if name not in directory.users:
        raise _refusal(f"The subject of User:{name:.255} is not exist.")
    merged = _merged(directory.acls.get(name), policies)
    count = sum(len(policy.rules) for policy in merged)
    if count > RULES_MAX:
        raise _refusal(f"{count} rules of one user, at most {RULES_MAX} are allowed")
    return directory._replace(acls={**directory.acls, name: Acl(f"User:{name}", merged)})


def delete_rules(
    directory: Directory, subject: str | None, kind: PolicyType | None, resource: Resource | None
) -> Directory:
    """Return a directory without a user's rules, or without the one about a resource.

    Raises:
        Rejected: there is no such user, or it has no rules.
    """
    name = parse_subject(subject)
    if name is None:
        raise _refusal("The subject is null.")
    if name not in directory.users:
        raise _refusal("The subject is not exist.")
    acl = directory.acls.get(name)
    if acl is None:
        raise _refusal("The acl is not exist.")
    left = _without(acl, kind or PolicyType.CUSTOM, resource) if resource is not None else ()
    acls = {key: other for key, other in directory.acls.items() if key != name}
    return directory._replace(acls={**acls, name: acl._replace(policies=left)} if left else acls)


def find_rules(directory: Directory, subject: str | None) -> Acl | None:
    """Return a user's rules, None when it has none.

    Raises:
        Rejected: there is no such user.
    """
    name = parse_subject(subject)
    if name is None or name not in directory.users:
        raise _refusal("The subject is not exist.")
    return directory.acls.get(name)


def list_rules(directory: Directory, subject_filter: str | None, resource_filter: str | None) -> list[Acl]:
    """Return the rules of users whose subjects contain a text, and of them those about resources that do.

    A subject that contains the second text shows all of its rules, as in Java.
    """
    found = []
    for name in sorted(directory.acls, key=str.encode):
        acl = directory.acls[name]
        if _is_said(subject_filter) and (subject_filter or "") not in acl.subject:
            continue
        policies = acl.policies
        if _is_said(resource_filter) and (resource_filter or "") not in acl.subject:
            kept = [
                Policy(kind, tuple(rule for rule in rules if (resource_filter or "") in str(rule.resource)))
                for kind, rules in policies
            ]
            policies = tuple(policy for policy in kept if policy.rules)
        if policies:
            found.append(acl._replace(policies=policies))
    return found


def _merged(old: Acl | None, policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return policies in which new rules replace those about the same resources, in place; others come behind."""
    rules: dict[PolicyType, dict[Resource, AccessRule]] = {}
    for policy in (*(old.policies if old is not None else ()), *policies):
        rules.setdefault(policy.type, {}).update({rule.resource: rule for rule in policy.rules})
    return tuple(Policy(kind, tuple(found.values())) for kind, found in rules.items())


def _without(acl: Acl, kind: PolicyType, resource: Resource) -> tuple[Policy, ...]:
    left = (
        Policy(policy.type, tuple(rule for rule in policy.rules if policy.type != kind or rule.resource != resource))
        for policy in acl.policies
    )
    return tuple(policy for policy in left if policy.rules)


def _checked_rule(draft: RuleDraft) -> AccessRule:
    if draft.resource is None:
        raise _refusal("The resource is null.")
    if not draft.actions:
        raise _refusal("The actions is empty.")
    if Action.ANY in draft.actions:
        raise _refusal("The actions can not be Any.")
    if len(draft.source_ips) > SOURCE_IPS_MAX:
        raise _refusal(f"{len(draft.source_ips)} source ips of one rule, at most {SOURCE_IPS_MAX} are allowed")
    for text in draft.source_ips:
        _check_source_ip(text)
    if draft.decision is None:
        raise _refusal("The decision is null or illegal.")
    name = draft.resource.name or ""
    if len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise _refusal(f"The resource {name!r:.40} is not up to {NAME_LENGTH_MAX} printable characters")
    return AccessRule(draft.resource, tuple(dict.fromkeys(draft.actions)), draft.source_ips, draft.decision)


def _check_source_ip(text: str) -> None:
    if not text.strip():
        raise _refusal("The source ip is empty.")
    try:
        parse_network(text)
    except ValueError:
        raise _refusal("The source ip is invalid.") from None


def _check_name(name: str) -> None:
    if not name.strip():
        raise _refusal("username can not be blank")
    if len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise _refusal(f"username {name!r:.40} is not up to {NAME_LENGTH_MAX} printable characters")


def _check_password(password: str) -> None:
    if len(password) > NAME_LENGTH_MAX or not password.isprintable():
        raise _refusal(f"password is not up to {NAME_LENGTH_MAX} printable characters")


def _is_said(text: str | None) -> bool:
    return bool(text and text.strip())


def _refusal(remark: str) -> Rejected:
    return Rejected(ResponseCode.NO_PERMISSION, remark)


def draft_of(acl: Acl) -> AclDraft:
    """Return rules as a request would bring them: what is read from files passes the same checks."""
    return AclDraft(
        acl.subject, tuple(PolicyDraft(kind, tuple(RuleDraft(*rule) for rule in rules)) for kind, rules in acl.policies)
    )
