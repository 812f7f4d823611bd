"""Accounts of RocketMQ 4.x, `plain_acl.yml`, as users and rules; and the addresses that it lets in without a look. Pure.

Source: Java AuthMigrator, PlainAccessConfig, RemoteAddressStrategyFactory; docs/howto/secure-the-broker.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orbitmq.broker.access.decisions import parse_network, plain_address
from orbitmq.errors import HeaderError
from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Acl,
    Action,
    Pattern,
    Policy,
    PolicyType,
    Resource,
    ResourceType,
    User,
    UserType,
    group_resource,
)

_PERMISSIONS: dict[str, tuple[Action, ...]] = {
    "PUB": (Action.PUB,),
    "SUB": (Action.SUB,),
    "PUB|SUB": (Action.PUB, Action.SUB),
    "SUB|PUB": (Action.PUB, Action.SUB),
    "DENY": (Action.ALL,),
    "ANY": (Action.ALL,),
}
_RANGE = re.compile(r"(\d{1,3})-(\d{1,3})")
_PARTS = 4

IsTrusted = Callable[[str], bool]


class PlainAcl(NamedTuple):
    """What a file says: users with their rules, and addresses that need none of that."""

    users: tuple[User, ...]
    acls: tuple[Acl, ...]
    trusted: tuple[str, ...]
    unused: tuple[str, ...]
    """What is there and does not count here, in words."""


def parse_plain_acl(text: str) -> PlainAcl:
    """Parse a `plain_acl.yml`.

    Raises:
        HeaderError: not such a file; says which line or field, and shows no secret.
    """
    document = _parse_yaml(text)
    if not isinstance(document, Mapping):
        raise HeaderError("plain_acl.yml: accounts are expected")
    users, acls, unused = [], [], []
    for number, account in enumerate(_list(document, "accounts"), 1):
        if not isinstance(account, Mapping):
            raise HeaderError(f"plain_acl.yml: account {number} has no fields")
        user, acl = _account(account, number)
        users.append(user)
        if acl.policies:
            acls.append(acl)
        if account.get("whiteRemoteAddress"):
            unused.append(f"whiteRemoteAddress of {user.name}: requests have to be signed from there, too")
    trusted = tuple(map(str, _list(document, "globalWhiteRemoteAddresses")))
    for address in trusted:
        _matcher(address)
    return PlainAcl(tuple(users), tuple(acls), trusted, tuple(unused))


def _parse_yaml(text: str) -> Any:
    """Return what a YAML file holds, with every word as text.

    Raises:
        HeaderError: it is not YAML, or uses an alias or a key twice; names the line and shows nothing of it.
    """
    import yaml  # only brokers with accounts of 4.x pay for it

    class Loader(yaml.BaseLoader):  # type: ignore[misc] # the library has no types
        """Refuses what is legal YAML and ambiguous, or large, in a file that decides about access."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="an alias", problem_mark=self.peek_event().start_mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            found = super().construct_mapping(node, deep)
            if len(found) < len(node.value):
                raise yaml.MarkedYAMLError(problem="a key that stands twice", problem_mark=node.start_mark)
            return found

        def construct_scalar(self, node: Any) -> Any:
            is_null = node.style is None and node.value in ("", "~", "null")
            return None if is_null else super().construct_scalar(node)

    try:
        return yaml.load(text, Loader)  # it makes nothing but text, lists and mappings
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise HeaderError(f"plain_acl.yml: line {line}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise HeaderError(f"plain_acl.yml: no YAML ({type(error).__name__})") from None


def trusts(patterns: tuple[str, ...]) -> IsTrusted | None:
    """Return what tells whether an address is one of these; None where there are none."""
    if not patterns:
        return None
    matchers = tuple(map(_matcher, patterns))
    return lambda host: any(matches(host) for matches in matchers)


def _account(account: Mapping[str, Any], number: int) -> tuple[User, Acl]:
    name, secret = account.get("accessKey"), account.get("secretKey")
    if not isinstance(name, str) or not isinstance(secret, str) or not name or not secret:
        raise HeaderError(f"plain_acl.yml: account {number} lacks accessKey or secretKey")
    kind = UserType.SUPER if str(account.get("admin", "")).lower() == "true" else UserType.NORMAL
    custom = [_rule(Resource(ResourceType.TOPIC, topic), word) for topic, word in _permissions(account, "topicPerms")]
    custom += [_rule(group_resource(group), word) for group, word in _permissions(account, "groupPerms")]
    default = [
        _rule(Resource(resource, None, Pattern.ANY), str(account[key]))
        for key, resource in (("defaultTopicPerm", ResourceType.TOPIC), ("defaultGroupPerm", ResourceType.GROUP))
        if account.get(key)
    ]
    policies = (Policy(PolicyType.CUSTOM, tuple(custom)), Policy(PolicyType.DEFAULT, tuple(default)))
    return User(name, secret, kind), Acl(f"User:{name}", tuple(policy for policy in policies if policy.rules))


def _rule(resource: Resource, word: str) -> AccessRule:
    word = word.replace(" ", "")
    actions = _PERMISSIONS.get(word)
    if actions is None:
        raise HeaderError(
            f"plain_acl.yml: the permission of {resource} is {word!r:.40}, expected one of {', '.join(_PERMISSIONS)}"
        )
    return AccessRule(resource, actions, (), AccessDecision.DENY if word == "DENY" else AccessDecision.ALLOW)


def _permissions(account: Mapping[str, Any], key: str) -> list[tuple[str, str]]:
    found = []
    for line in _list(account, key):
        name, equals, word = str(line).partition("=")
        if not equals or not name.strip():
            raise HeaderError(f"plain_acl.yml: {key} has {line!r:.80}, expected NAME=PERMISSION")
        found.append((name.strip(), word.strip()))
    return found


def _list(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key) or []
    if not isinstance(value, list):
        raise HeaderError(f"plain_acl.yml: {key} is not a list")
    return value


def _matcher(pattern: str) -> IsTrusted:
    """Return what an address pattern of 4.x matches: `*`, `10.1.*.*`, `10.1.2-5.*`, `10.1.1.{3,4}`, lists, addresses."""
    pattern = pattern.strip()
    if pattern == "*":
        return lambda _: True
    if "{" in pattern:
        start, _, rest = pattern.partition("{")
        inside, closing, tail = rest.partition("}")
        if not closing or tail:
            raise _strange(pattern)
        return _any_of([_matcher(f"{start}{part.strip()}") for part in inside.split(",")])
    if "," in pattern:
        return _any_of([_matcher(part) for part in pattern.split(",")])
    if "*" in pattern or _RANGE.search(pattern):
        return _parts_matcher(pattern)
    try:
        network = parse_network(pattern)
    except ValueError:
        raise _strange(pattern) from None

    def is_there(host: str) -> bool:
        try:
            return plain_address(host) in network
        except ValueError:
            return False

    return is_there


def _any_of(matchers: list[IsTrusted]) -> IsTrusted:
    return lambda host: any(matches(host) for matches in matchers)


def _parts_matcher(pattern: str) -> IsTrusted:
    parts = pattern.split(".")
    if len(parts) != _PARTS:
        raise _strange(pattern)
    ranges = [_range(part, pattern) for part in parts]

    def is_there(host: str) -> bool:
        found = host.split(".")
        return len(found) == _PARTS and all(
            part.isascii() and part.isdigit() and int(part) in allowed
            for part, allowed in zip(found, ranges, strict=True)
        )

    return is_there


def _range(part: str, pattern: str) -> range:
    if part == "*":
        return range(256)
    found = _RANGE.fullmatch(part)
    if found:
        low, high = int(found[1]), int(found[2])
    elif part.isascii() and part.isdigit():
        low = high = int(part)
    else:
        raise _strange(pattern)
    if not low <= high <= 255:
        raise _strange(pattern)
    return range(low, high + 1)


def _strange(pattern: str) -> HeaderError:
    return HeaderError(f"plain_acl.yml: the address {pattern!r:.80} is not understood")
