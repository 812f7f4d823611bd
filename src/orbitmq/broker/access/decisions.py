"""Decisions about requests: a function of a user's rules, what a request asks for, and where it comes from. Pure.

Of the rules that fit, the most special one decides: CUSTOM before DEFAULT, a kind before all kinds, a name before a beginning, a
longer beginning before a shorter one, a beginning before every name; where two are about the same, the one that denies.
Nothing fits: denied.

That is the order that RocketMQ's manual gives, and its code has since apache/rocketmq#9539. In 5.3.3 the shortest beginning
wins, and between a name and a beginning the rule that happens to stand in the later place.

Source: Java AclAuthorizationHandler, PolicyEntry, Environment, IPAddressUtils.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from orbitmq.model.access import AccessDecision, AccessRule, Acl, Action, Need, Pattern, PolicyType, ResourceType

NO_RULE = "no matched policies."
DENIED = "the decision is deny."

_PATTERNS = {Pattern.LITERAL: 0, Pattern.PREFIXED: 1, Pattern.ANY: 2}


def objection(need: Need, acl: Acl | None, source_ip: str) -> str | None:
    """Return why a user with these rules may not have what a request asks for; None when it may."""
    rule = None if acl is None else _deciding_rule(need, acl, source_ip)
    if rule is None:
        return NO_RULE
    return DENIED if rule.decision is AccessDecision.DENY else None


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Return the addresses that a rule's text means: one, or those of a network.

    Raises:
        ValueError: it is neither.
    """
    address, slash, length = text.partition("/")
    if "%" in text or (slash and not (length.isascii() and length.isdigit())):
        raise ValueError(f"{text!r:.80} is not an address and no network")
    return ip_network(text, strict=False) if slash else ip_network(plain_address(address))


def plain_address(text: str) -> IPv4Address | IPv6Address:
    """Return an address; one of version 4 that came in the clothes of version 6 is of version 4.

    Raises:
        ValueError: it is none.
    """
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _deciding_rule(need: Need, acl: Acl, source_ip: str) -> AccessRule | None:
    for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT):
        fitting = [rule for rule in acl.rules(kind) if _fits(rule, need, source_ip)]
        if fitting:
            return min(fitting, key=_rank)
    return None


def _fits(rule: AccessRule, need: Need, source_ip: str) -> bool:
    if not rule.resource.includes(need.resource):
        return False
    if Action.ALL not in rule.actions and not any(action in rule.actions for action in need.actions):
        return False
    return not rule.source_ips or any(_is_within(source_ip, text) for text in rule.source_ips)


def _rank(rule: AccessRule) -> tuple[bool, int, int, bool]:
    resource = rule.resource
    return (
        resource.type is ResourceType.ANY,
        _PATTERNS[resource.pattern],
        -len(resource.name or ""),
        rule.decision is not AccessDecision.DENY,
    )


@lru_cache(4096)
def _is_within(source_ip: str, text: str) -> bool:
    try:
        return plain_address(source_ip) in parse_network(text)
    except ValueError:  # neither comes from a peer: both were checked, or the kernel said them
        return False
