"""Claims about rules as JSON: Java's bytes, both ways."""

from __future__ import annotations

import json

import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.access import AccessDecision, AccessRule, Action, PolicyType, parse_resource
from orbitmq.wire.bodies.access import (
    AclDraft,
    PolicyDraft,
    RuleDraft,
    decode_acl,
    decode_acl_draft,
    decode_acls,
    encode_acl,
    encode_acls,
)
from unit.wire.bodies.test_access import java_body

BOTH = (Action.PUB, Action.SUB)


def test_what_java_sends_is_read_and_written():
    draft = decode_acl_draft(java_body("3006-auth-create-acl-request"))
    rules = tuple(
        RuleDraft(parse_resource(text), BOTH, ("10.0.0.0/8",), AccessDecision.ALLOW) for text in ("Topic:a*", "Group:*")
    )
    assert draft == AclDraft("User:golden", (PolicyDraft(PolicyType.CUSTOM, rules),))
    answered = java_body("3009-auth-get-acl-answer")
    assert encode_acl(decode_acl(answered)) == answered
    answered = java_body("3010-auth-list-acl-answer")
    assert encode_acls(decode_acls(answered)) == answered


def test_what_a_request_says_badly_is_none_and_left_to_the_broker():
    bad = {"resource": "Topi:a", "actions": ["Pub", "Put"], "decision": "Perhaps"}
    draft = decode_acl_draft(
        json.dumps({"policies": [{"policyType": "odd", "entries": [bad]}, {"entries": []}]}).encode()
    )
    assert draft == AclDraft(None, (PolicyDraft(PolicyType.CUSTOM, (RuleDraft(None, (Action.PUB,), (), None),)),))


@each_case(
    b"", b"[]", b'{"subject":5}', b'{"policies":5}', b'{"policies":[5]}', b'{"policies":[{"entries":[5]}]}',
    b'{"policies":[{"entries":[{"resource":5}]}]}', b'{"policies":[{"entries":[{"actions":[5]}]}]}',
    b'{"policies":[{"entries":[{"sourceIps":[5]}]}]}', b'{"policies":[{"entries":[{"sourceIps":5}]}]}',
)  # fmt: skip
def test_what_is_no_acl_is_refused(body: bytes):
    with pytest.raises(HeaderError):
        decode_acl_draft(body)


@each_case("resource", "actions", "decision")
def test_an_answer_with_a_rule_that_means_nothing_is_refused(missing: str):
    rule = {"resource": "*", "actions": ["All"], "decision": "Deny"}
    del rule[missing]
    with pytest.raises(HeaderError):
        decode_acl(json.dumps({"subject": "User:a", "policies": [{"entries": [rule]}]}).encode())
    with pytest.raises(HeaderError):
        decode_acl(b'{"policies":[]}')


def test_no_rules_are_no_body():
    assert decode_acls(b"") == ()
    assert decode_acls(b"[]") == ()


def test_a_rule_from_everywhere_names_no_addresses():
    (acl,) = decode_acls(
        b'[{"subject":"User:a","policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Deny"}]}]}]'
    )
    any_resource = parse_resource("*")
    assert any_resource is not None
    assert acl.policies[0].rules == (AccessRule(any_resource, (Action.ALL,), (), AccessDecision.DENY),)
    assert b"sourceIps" not in encode_acl(acl)
