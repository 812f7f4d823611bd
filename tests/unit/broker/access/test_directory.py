"""Claims about the directory: users and rules come, change and go as Java's do, within limits."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.access import directory as directory_module
from orbitmq.broker.access.directory import (
    EMPTY,
    NAME_LENGTH_MAX,
    RULES_MAX,
    SOURCE_IPS_MAX,
    Directory,
    add_rules,
    create_user,
    delete_rules,
    delete_user,
    draft_of,
    find_rules,
    list_rules,
    list_users,
    update_user,
)
from orbitmq.errors import Rejected
from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Action,
    PolicyType,
    User,
    UserStatus,
    UserType,
    parse_resource,
)
from orbitmq.wire.bodies.access import AclDraft, PolicyDraft, RuleDraft, UserChange

from .samples import acl, rule

ANNA = create_user(EMPTY, "anna", UserChange("pw"))


def draft(*rules: RuleDraft, subject: str | None = "User:anna") -> AclDraft:
    return AclDraft(subject, (PolicyDraft(PolicyType.CUSTOM, rules),))


def written(resource: str, *actions: Action, ips: tuple[str, ...] = (), decision: str | None = "Allow") -> RuleDraft:
    return RuleDraft(parse_resource(resource), actions, ips, AccessDecision(decision) if decision else None)


def rules_of(found: Directory, name: str = "anna") -> dict[str, AccessRule]:
    acl_found = found.acls.get(name)
    return {} if acl_found is None else {str(one.resource): one for one in acl_found.rules(PolicyType.CUSTOM)}


def test_a_user_is_normal_and_enabled_unless_said_otherwise():
    assert ANNA.users["anna"] == User("anna", "pw", UserType.NORMAL, UserStatus.ENABLE)
    said = UserChange("pw", UserType.SUPER, UserStatus.DISABLE)
    assert create_user(EMPTY, "b", said).users["b"] == User("b", "pw", UserType.SUPER, UserStatus.DISABLE)


@each_case(
    ("anna", "pw", "The user is existed"),
    (" ", "pw", "username can not be blank"),
    ("b", None, "password can not be blank"),
    ("b", "  ", "password can not be blank"),
    ("b" * (NAME_LENGTH_MAX + 1), "pw", "printable"),
    ("b\n", "pw", "printable"),
    ("b", "p" * (NAME_LENGTH_MAX + 1), "printable"),
    ("b", "p\x00", "printable"),
)
def test_what_is_no_new_user_is_refused(name: str, password: str | None, remark: str):
    with pytest.raises(Rejected, match=remark) as refused:
        create_user(ANNA, name, UserChange(password))
    assert refused.value.code == 16
    assert (password or "") not in refused.value.remark or len(password or "") < 5


def test_users_have_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(directory_module, "USERS_MAX", 1)
    with pytest.raises(Rejected, match="limit"):
        create_user(ANNA, "b", UserChange("pw"))


def test_a_change_changes_what_it_names():
    assert update_user(ANNA, "anna", UserChange("new")).users["anna"].password == "new"
    disabled = update_user(ANNA, "anna", UserChange(" ", None, UserStatus.DISABLE))
    assert disabled.users["anna"] == User("anna", "pw", UserType.NORMAL, UserStatus.DISABLE)
    with pytest.raises(Rejected, match="The user is not exist"):
        update_user(ANNA, "b", UserChange("new"))


def test_a_user_that_goes_takes_its_rules_along():
    found = add_rules(ANNA, None, draft(written("Topic:a", Action.PUB)))
    assert delete_user(found, "anna") == EMPTY
    again = create_user(delete_user(found, "anna"), "anna", UserChange("pw"))
    assert again.acls == {}


def test_users_are_listed_by_name_and_by_a_part_of_it():
    found = create_user(create_user(ANNA, "Zoe", UserChange("pw")), "ben", UserChange("pw"))
    assert [user.name for user in list_users(found, None)] == ["Zoe", "anna", "ben"]
    assert [user.name for user in list_users(found, "n")] == ["anna", "ben"]
    assert list_users(found, "x") == []


def test_a_rule_about_the_same_resource_takes_the_old_ones_place():
    found = add_rules(ANNA, None, draft(written("Topic:a", Action.PUB), written("Topic:b", Action.PUB)))
    found = add_rules(
        found, None, draft(written("Topic:a", Action.SUB, decision="Deny"), written("Group:*", Action.ALL))
    )
    assert list(rules_of(found)) == ["Topic:a", "Topic:b", "Group:*"]
    assert rules_of(found)["Topic:a"] == rule("Topic:a", Action.SUB, decision="Deny")


def test_custom_and_default_rules_are_kept_apart():
    both = AclDraft("User:anna", (PolicyDraft(PolicyType.CUSTOM, (written("Topic:a", Action.PUB),)),
                                  PolicyDraft(PolicyType.DEFAULT, (written("Topic:a", Action.SUB),))))  # fmt: skip
    found = add_rules(ANNA, None, both)
    assert [(policy.type, len(policy.rules)) for policy in found.acls["anna"].policies] == [
        ("Custom", 1),
        ("Default", 1),
    ]
    left = delete_rules(found, "User:anna", PolicyType.DEFAULT, parse_resource("Topic:a"))
    assert left.acls["anna"].policies == found.acls["anna"].policies[:1]


def test_a_body_without_a_subject_has_the_headers():
    assert rules_of(add_rules(ANNA, "User:anna", draft(written("Topic:a", Action.PUB), subject=None)))
    assert rules_of(add_rules(ANNA, "User:anna", draft(written("Topic:a", Action.PUB), subject="nonsense")))


@each_case(
    (draft(written("Topi:a", Action.PUB)), "The resource is null."),
    (draft(written("Topic:a")), "The actions is empty."),
    (draft(written("Topic:a", Action.ANY)), "The actions can not be Any."),
    (draft(written("Topic:a", Action.PUB, ips=(" ",))), "The source ip is empty."),
    (draft(written("Topic:a", Action.PUB, ips=("10.0.0",))), "The source ip is invalid."),
    (draft(written("Topic:a", Action.PUB, decision=None)), "The decision is null or illegal."),
    (draft(written("Topic:a", Action.PUB), subject="User:ben"), "The subject of User:ben is not exist."),
    (draft(written("Topic:a", Action.PUB), subject="User:"), "The subject of User: is not exist."),
    (draft(written("Topic:a", Action.PUB), subject="Role:anna"), "The subject type is null."),
    (AclDraft("User:anna", ()), "The policies is empty."),
    (AclDraft("Role:anna", ()), "The subject type is null."),
    (draft(written("Topic:" + "a" * (NAME_LENGTH_MAX + 1), Action.PUB)), "printable"),
    (draft(written("Topic:a\n", Action.PUB)), "printable"),
    (draft(written("Topic:a", Action.PUB, ips=("10.0.0.1",) * (SOURCE_IPS_MAX + 1))), "at most 100"),
    (draft(*(written(f"Topic:t{n}", Action.PUB) for n in range(RULES_MAX + 1))), "at most 1000"),
)
def test_a_rule_that_means_nothing_is_refused(bad: AclDraft, remark: str):
    with pytest.raises(Rejected) as refused:
        add_rules(ANNA, None, bad)
    assert remark in refused.value.remark
    assert refused.value.code == 16


def test_deleting_rules_one_and_all():
    found = add_rules(ANNA, None, draft(written("Topic:a", Action.PUB), written("Topic:b", Action.PUB)))
    left = delete_rules(found, "User:anna", None, parse_resource("Topic:a"))
    assert list(rules_of(left)) == ["Topic:b"]
    assert delete_rules(left, "User:anna", None, parse_resource("Topic:b")).acls == {}
    assert delete_rules(found, "User:anna", None, None).acls == {}
    assert delete_rules(found, "User:anna", None, parse_resource("Topic:a*")).acls == found.acls, "another resource"
    for subject, remark in (("x", "The subject is null."), ("User:b", "The subject is not exist.")):
        with pytest.raises(Rejected, match=remark):
            delete_rules(found, subject, None, None)
    with pytest.raises(Rejected, match=r"The acl is not exist\."):
        delete_rules(ANNA, "User:anna", None, None)


def test_finding_rules():
    found = add_rules(ANNA, None, draft(written("Topic:a", Action.PUB)))
    assert find_rules(found, "user:anna") == acl(rule("Topic:a", Action.PUB), name="anna")
    assert find_rules(ANNA, "User:anna") is None
    for subject in ("User:ben", "x", None):
        with pytest.raises(Rejected, match=r"The subject is not exist\."):
            find_rules(found, subject)


def test_listing_rules_by_subject_and_by_resource():
    found = create_user(ANNA, "ben", UserChange("pw"))
    found = add_rules(found, None, draft(written("Topic:a", Action.PUB), written("Group:b", Action.SUB)))
    found = add_rules(found, None, draft(written("Topic:a", Action.PUB), subject="User:ben"))
    assert [one.subject for one in list_rules(found, None, None)] == ["User:anna", "User:ben"]
    assert [one.subject for one in list_rules(found, "be", " ")] == ["User:ben"]
    assert list_rules(found, None, "Group") == [acl(rule("Group:b", Action.SUB), name="anna")]
    assert len(list_rules(found, "anna", "ann")[0].rules(PolicyType.CUSTOM)) == 2, "the subject has it, as in Java"
    assert list_rules(found, "x", None) == []


def test_rules_from_a_file_pass_the_same_checks():
    found = acl(rule("Topic:a", Action.PUB, source_ips=("10.0.0.1",)), default=(rule("*"),), name="anna")
    assert add_rules(ANNA, None, draft_of(found)).acls["anna"] == found
