"""Claims about rules as JSON: Java's bytes, both ways."""

from __future__ import annotations

import json

import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.access import AccessDecision, AccessRule, Action, PolicyType, parse_resource
from orbitmq.wire.bodies import access

BOTH = (Action.PUB, Action.SUB)


def test_what_java_sends_is_read_and_written():
    draft = access.decode_acl_draft(golden("3006-auth-create-acl-request").body)
    rules = tuple(
        access.RuleDraft(parse_resource(text), BOTH, ("10.0.0.0/8",), AccessDecision.ALLOW)
        for text in ("Topic:a*", "Group:*")
    )
    assert draft == access.AclDraft("User:golden", (access.PolicyDraft(PolicyType.CUSTOM, rules),))
    answered = golden("3009-auth-get-acl-answer").body
    assert access.encode_acl(access.decode_acl(answered)) == answered
    answered = golden("3010-auth-list-acl-answer").body
    assert access.encode_acls(access.decode_acls(answered)) == answered


def test_what_a_request_says_badly_is_none_and_left_to_the_broker():
    bad = {"resource": "Topi:a", "actions": ["Pub", "Put"], "decision": "Perhaps"}
    draft = access.decode_acl_draft(
        json.dumps({"policies": [{"policyType": "odd", "entries": [bad]}, {"entries": []}]}).encode()
    )
    assert draft == access.AclDraft(
        None, (access.PolicyDraft(PolicyType.CUSTOM, (access.RuleDraft(None, (Action.PUB,), (), None),)),)
    )


@each_case(
    b"", b"[]", b'{"subject":5}', b'{"policies":5}', b'{"policies":[5]}', b'{"policies":[{"entries":[5]}]}',
    b'{"policies":[{"entries":[{"resource":5}]}]}', b'{"policies":[{"entries":[{"actions":[5]}]}]}',
    b'{"policies":[{"entries":[{"sourceIps":[5]}]}]}', b'{"policies":[{"entries":[{"sourceIps":5}]}]}',
)  # fmt: skip
def test_what_is_no_acl_is_refused(body: bytes):
    with pytest.raises(HeaderError):
        access.decode_acl_draft(body)


@each_case("resource", "actions", "decision")
def test_an_answer_with_a_rule_that_means_nothing_is_refused(missing: str):
    rule = {"resource": "*", "actions": ["All"], "decision": "Deny"}
    del rule[missing]
    with pytest.raises(HeaderError):
        access.decode_acl(json.dumps({"subject": "User:a", "policies": [{"entries": [rule]}]}).encode())
    with pytest.raises(HeaderError):
        access.decode_acl(b'{"policies":[]}')


def test_no_rules_are_no_body():
    assert access.decode_acls(b"") == ()
    assert access.decode_acls(b"[]") == ()


def test_a_rule_from_everywhere_names_no_addresses():
    (acl,) = access.decode_acls(
        b'[{"subject":"User:a","policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Deny"}]}]}]'
    )
    any_resource = parse_resource("*")
    assert any_resource is not None
    assert acl.policies[0].rules == (AccessRule(any_resource, (Action.ALL,), (), AccessDecision.DENY),)
    assert b"sourceIps" not in access.encode_acl(acl)
