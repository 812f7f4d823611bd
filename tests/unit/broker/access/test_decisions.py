"""Claims about decisions: which of a user's rules counts."""

from __future__ import annotations

from itertools import permutations

import pytest

from cases import each_case
from orbitmq.broker.access.decisions import DENIED, NO_RULE, objection, parse_network
from orbitmq.model.access import AccessRule, Action, Need, Resource, ResourceType

from .samples import acl, rule

PUB_ON_ORDERS = Need(Resource(ResourceType.TOPIC, "orders"), (Action.PUB,))


def decided(
    *rules: AccessRule, default: tuple[AccessRule, ...] = (), need: Need = PUB_ON_ORDERS, source: str = "10.0.0.1"
) -> str | None:
    return objection(need, acl(*rules, default=default), source)


def test_who_has_no_rules_is_denied():
    assert objection(PUB_ON_ORDERS, None, "10.0.0.1") == NO_RULE
    assert decided() == NO_RULE


@each_case(
    ("Topic:orders", ["Topic:order*", "Topic:o*", "Topic:*", "*"]),
    ("Topic:orders*", ["Topic:order*", "Topic:o*", "Topic:*", "*"]),
    ("Topic:order*", ["Topic:o*", "Topic:*", "*"]),
    ("Topic:*", ["*"]),
)
def test_apache_rocketmq_9539_the_most_special_rule_wins_in_any_order(winner: str, losers: list[str]):
    for decision, other, expected in (("Allow", "Deny", None), ("Deny", "Allow", DENIED)):
        rules = [rule(winner, decision=decision), *(rule(loser, decision=other) for loser in losers)]
        assert {decided(*order) for order in permutations(rules)} == {expected}


def test_of_two_rules_about_the_same_the_denial_wins():
    for order in permutations([rule("Topic:orders"), rule("Topic:orders", decision="Deny")]):
        assert decided(*order) == DENIED


def test_default_rules_count_where_no_custom_one_fits():
    assert decided(default=(rule("Topic:*"),)) is None
    assert decided(rule("*", decision="Deny"), default=(rule("Topic:orders"),)) == DENIED
    assert decided(rule("Topic:payments", decision="Deny"), default=(rule("Topic:*"),)) is None
    assert decided(rule("Topic:orders", Action.SUB, decision="Deny"), default=(rule("Topic:*"),)) is None


def test_a_denial_of_other_actions_or_other_addresses_denies_nothing():
    assert decided(rule("Topic:orders", Action.SUB, decision="Deny"), rule("Topic:*")) is None
    assert decided(rule("Topic:orders", source_ips=("10.9.0.0/16",), decision="Deny"), rule("Topic:*")) is None


def test_one_of_the_actions_is_enough():
    either = Need(Resource(ResourceType.TOPIC, "orders"), (Action.SUB, Action.GET))
    assert decided(rule("Topic:orders", Action.GET), need=either) is None
    assert decided(rule("Topic:orders", Action.PUB), need=either) == NO_RULE
    assert decided(rule("Topic:orders", Action.ALL), need=either) is None


def test_a_nameless_request_fits_rules_for_every_name_alone():
    nameless = Need(Resource(ResourceType.TOPIC, None), (Action.PUB,))
    for text in ("Topic:orders", "Topic:o*", "Topic:", "Topic:null"):
        assert decided(rule(text), need=nameless) == NO_RULE
    assert decided(rule("Topic:*"), need=nameless) is None


@each_case(
    ("10.0.0.1", ("10.0.0.1",), True),
    ("10.0.0.1", ("10.0.0.0/8",), True),
    ("10.0.0.1", ("10.0.0.2/8",), True),
    ("10.0.0.1", ("0.0.0.0/0",), True),
    ("10.0.0.1", ("192.168.0.0/16", "10.0.0.1"), True),
    ("10.0.0.1", ("10.0.0.10", "10.0.0.0/32", "::/0"), False),
    ("::1", ("::1",), True),
    ("::1", ("0:0:0:0:0:0:0:1",), True),
    ("::1", ("::/64",), True),
    ("::1", ("0.0.0.0/0",), False),
    ("10.0.0.1", ("::ffff:10.0.0.1",), True),
    ("unknown", ("0.0.0.0/0",), False),
)
def test_addresses_and_networks(source: str, texts: tuple[str, ...], fits: bool):
    assert (decided(rule("*", source_ips=texts), source=source) is None) is fits


@each_case("", "x", "10.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "10.0.0.0/", "fe80::1%eth0", "10.0.0.1/٨")
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_network(text)
