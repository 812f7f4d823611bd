"""Users of a broker and their rules: who may do what with which topics, groups and clusters, from where.

The words are those of RocketMQ's ACL 2.0, on the wire and in files: `Topic:orders*`, `Pub`, `Allow`.

Source: Java org.apache.rocketmq.auth: User, Acl, Policy, PolicyEntry, Resource; docs/howto/secure-the-broker.md.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple, TypeVar

from orbitmq.model.topic import RETRY_PREFIX

E = TypeVar("E", bound=Enum)


class UserType(StrEnum):
    """Whether rules count for a user at all."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """Whether a user may sign."""

    ENABLE = "enable"
    DISABLE = "disable"


class User(NamedTuple):
    """A user with its secret: the protocol's signature is made with it, so that no hash of it would do."""

    name: str
    password: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    def __repr__(self) -> str:
        """Return all but the secret: this may come into a log."""
        return f"User({self.name!r}, {self.type}, {self.status})"


class Action(StrEnum):
    """What a request does with a resource; ALL in a rule means each of them."""

    UNKNOWN = "Unknown"
    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class ResourceType(StrEnum):
    """The kinds of things that rules are about; ANY in a rule means each of them."""

    UNKNOWN = "Unknown"
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(StrEnum):
    """How a rule names resources: one, those that begin so, or all of a kind."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"
    ANY = "ANY"


class Resource(NamedTuple):
    """The resources that a rule is about, or the one that a request asks for: then its pattern is LITERAL."""

    type: ResourceType
    name: str | None
    """None where every name is meant, and where a request names none: only rules for every name fit that."""
    pattern: Pattern = Pattern.LITERAL

    def __str__(self) -> str:
        """Return it as it travels and is printed: `Topic:orders`, `Topic:orders*`, `Topic:*`, `*`."""
        if self.type is ResourceType.ANY:
            return "*"
        if self.pattern is Pattern.ANY:
            return f"{self.type}:*"
        # Java prints "null" for a request that names no topic.
        name = "null" if self.name is None else self.name
        return f"{self.type}:{name}*" if self.pattern is Pattern.PREFIXED else f"{self.type}:{name}"

    def includes(self, asked: Resource) -> bool:
        """Return True if the resource of a request is one of these."""
        if self.type is ResourceType.ANY:
            return True
        if self.type is not asked.type:
            return False
        if self.pattern is Pattern.ANY:
            return True
        if asked.name is None or self.name is None:
            return False
        return asked.name.startswith(self.name) if self.pattern is Pattern.PREFIXED else asked.name == self.name


class AccessDecision(StrEnum):
    """What a rule says."""

    ALLOW = "Allow"
    DENY = "Deny"


class AccessRule(NamedTuple):
    """Allows or denies these actions on a resource, from these addresses."""

    resource: Resource
    actions: tuple[Action, ...]
    source_ips: tuple[str, ...]
    """Addresses, or networks as `10.0.0.0/8`; none: from everywhere."""
    decision: AccessDecision


class PolicyType(StrEnum):
    """Which rules are asked first: DEFAULT ones only where no CUSTOM one fits."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class Policy(NamedTuple):
    """Rules of one type."""

    type: PolicyType
    rules: tuple[AccessRule, ...]


class Acl(NamedTuple):
    """The rules of one subject, at most one policy of each type."""

    subject: str
    """`User:` and the user's name."""
    policies: tuple[Policy, ...]

    def rules(self, kind: PolicyType) -> tuple[AccessRule, ...]:
        """Return the rules of one type."""
        return next((policy.rules for policy in self.policies if policy.type is kind), ())


class Need(NamedTuple):
    """A part of what a request asks for: one of the actions has to be allowed on the resource."""

    resource: Resource
    actions: tuple[Action, ...]


def topic_resource(name: str | None) -> Resource:
    """Return a topic as a request's resource; a group's retry topic belongs to the group."""
    if name is not None and name.startswith(RETRY_PREFIX):
        return Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX))
    return Resource(ResourceType.TOPIC, name)


def group_resource(name: str | None) -> Resource:
    """Return a group as a request's resource, also by the name of its retry topic."""
    return Resource(ResourceType.GROUP, name if name is None else name.removeprefix(RETRY_PREFIX))


def parse_resource(text: str | None) -> Resource | None:
    """Return the resources that a rule's text names; None when it names no kind of them.

    Source: Java Resource.of.
    """
    if text is None or not text.strip():
        return None
    if text == "*":
        return Resource(ResourceType.ANY, None, Pattern.ANY)
    kind, _, name = text.partition(":")
    found = by_name(ResourceType, kind)
    if found is None:
        return None
    if name == "*":
        return Resource(found, None, Pattern.ANY)
    if name.endswith("*"):
        return Resource(found, name.partition("*")[0], Pattern.PREFIXED)
    return Resource(found, name)


def parse_subject(text: str | None) -> str | None:
    """Return the name of the user that a subject is; None when it is none.

    Source: Java Subject.of.
    """
    kind, _, name = (text or "").partition(":")
    return name if kind.lower() == "user" else None


def by_name(kind: type[E], text: object) -> E | None:
    """Return the member with this value in any case; None without one."""
    if not isinstance(text, str):
        return None
    return next((member for member in kind if str(member.value).lower() == text.lower()), None)
