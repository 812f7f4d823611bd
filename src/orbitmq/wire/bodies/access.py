"""Users and their rules as JSON: what an administrator asks for, and what a broker answers.

Source: Java UserInfo, UserConverter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Acl,
    Action,
    Policy,
    PolicyType,
    Resource,
    User,
    UserStatus,
    UserType,
    by_name,
    parse_resource,
)
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


class RuleDraft(NamedTuple):
    """A rule as it was written; None is what means nothing."""

    resource: Resource | None
    actions: tuple[Action, ...]
    source_ips: tuple[str, ...]
    decision: AccessDecision | None


class PolicyDraft(NamedTuple):
    """Rules of one type as they were written."""

    type: PolicyType
    rules: tuple[RuleDraft, ...]


class AclDraft(NamedTuple):
    """The body of AUTH_CREATE_ACL and AUTH_UPDATE_ACL; a subject in it counts more than the header's."""

    subject: str | None
    policies: tuple[PolicyDraft, ...]


def decode_acl_draft(body: bytes) -> AclDraft:
    """Decode the body of AUTH_CREATE_ACL and AUTH_UPDATE_ACL.

    Raises:
        HeaderError: the body describes no rules.
    """
    return parse_body("acl", body, _parse_draft, size_max=DOCUMENT_SIZE_MAX)


def encode_acl(acl: Acl) -> bytes:
    """Encode the answer to AUTH_GET_ACL, and the body of AUTH_CREATE_ACL and AUTH_UPDATE_ACL."""
    return orjson.dumps(acl_document(acl))


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Encode the answer to AUTH_LIST_ACL."""
    return orjson.dumps([acl_document(acl) for acl in acls])


def decode_acl(body: bytes) -> Acl:
    """Decode the answer to AUTH_GET_ACL."""
    return parse_body("acl", body, parse_acl)


def decode_acls(body: bytes) -> tuple[Acl, ...]:
    """Decode the answer to AUTH_LIST_ACL: a JSON array, nothing where there are no rules."""
    if not body:
        return ()
    return parse_body("acls", b'{"acls":%b}' % body, lambda document: tuple(map(parse_acl, document["acls"])))


def acl_document(acl: Acl) -> dict[str, Any]:
    """Return the JSON object of a subject's rules."""
    return {"policies": [_policy_document(policy) for policy in acl.policies], "subject": acl.subject}


def parse_acl(document: dict[str, Any]) -> Acl:
    """Build a subject's rules from their JSON object; rules that mean nothing are an error here."""
    draft = _parse_draft(document)
    if draft.subject is None:
        raise ValueError("subject is missing")
    return Acl(draft.subject, tuple(Policy(kind, tuple(map(_whole, rules))) for kind, rules in draft.policies))


def _whole(rule: RuleDraft) -> AccessRule:
    if rule.resource is None or rule.decision is None or not rule.actions:
        raise ValueError(f"a rule without resource, actions or decision: {rule!r:.200}")
    return AccessRule(rule.resource, rule.actions, rule.source_ips, rule.decision)


def _policy_document(policy: Policy) -> dict[str, Any]:
    return {"entries": [_rule_document(rule) for rule in policy.rules], "policyType": policy.type}


def _rule_document(rule: AccessRule) -> dict[str, Any]:
    document = {"actions": rule.actions, "decision": rule.decision, "resource": str(rule.resource)}
    return {**document, "sourceIps": rule.source_ips} if rule.source_ips else document


def _parse_draft(document: dict[str, Any]) -> AclDraft:
    subject = document.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise ValueError(f"subject is {subject!r:.80}, expected text")
    policies = (_parse_policy(policy) for policy in document.get("policies") or ())
    return AclDraft(subject, tuple(policy for policy in policies if policy.rules))


def _parse_policy(document: dict[str, Any]) -> PolicyDraft:
    kind = by_name(PolicyType, document.get("policyType")) or PolicyType.CUSTOM
    return PolicyDraft(kind, tuple(map(_parse_rule, document.get("entries") or ())))


def _parse_rule(document: dict[str, Any]) -> RuleDraft:
    get = document.get
    actions = (by_name(Action, _text(action)) for action in get("actions") or ())
    return RuleDraft(
        parse_resource(None if get("resource") is None else _text(get("resource"))),
        tuple(action for action in actions if action is not None),
        tuple(map(_text, get("sourceIps") or ())),
        by_name(AccessDecision, get("decision")),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"text is expected, not {value!r:.80}")
    return value
