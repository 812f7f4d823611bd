"""`orbitmq acl`."""

import pytest


@pytest.fixture
def user(orbitmq, tmp_path):
    path = tmp_path / "password"
    path.write_text("pw")
    assert orbitmq("user", "create", "cli-carl", "--password-file", path).code == 0
    yield "cli-carl"
    assert orbitmq("user", "delete", "--yes", "cli-carl").code == 0


def test_rules_come_change_and_go(orbitmq, user):
    assert orbitmq("acl", "allow", user, "topic:orders*", "pub,SUB", "--from", "10.0.0.0/8").rows == [
        [user, "broker-a"]
    ]
    assert orbitmq("acl", "deny", user, "*", "All").code == 0
    assert orbitmq("acl", "list", "--user", user).rows == [
        ["broker-a", user, "Custom", "Topic:orders*", "Pub,Sub", "10.0.0.0/8", "Allow"],
        ["broker-a", user, "Custom", "*", "All", "-", "Deny"],
    ]
    assert orbitmq("acl", "deny", user, "Topic:orders*", "Pub").code == 0
    (found,) = orbitmq("acl", "list", "--resource", "orders", "-o", "json").json
    assert (found["decision"], found["source_ips"]) == ("Deny", None)
    assert orbitmq("acl", "delete", "--yes", user, "Topic:orders*").code == 0
    assert [row[3] for row in orbitmq("acl", "list", "--user", user).rows] == ["*"]
    assert orbitmq("acl", "delete", "--yes", user).code == 0
    assert orbitmq("acl", "list", "--user", user).rows == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["allow", "cli-carl", "Topc:a", "Pub"], 2),
        (["allow", "cli-carl", "Topic:a", "Put"], 2),
        (["allow", "cli-carl", "Topic:a", "Any"], 1),
        (["allow", "cli-carl", "Topic:a", "Pub", "--from", "10.0.0"], 1),
        (["allow", "cli-nobody", "Topic:a", "Pub"], 1),
        (["delete", "cli-carl", "Topic:a"], 1),
    ],
)
def test_what_means_nothing_is_refused(orbitmq, user, words, code):
    assert orbitmq("acl", *words).code == code


def test_a_rule_that_is_not_there_is_not_said_to_be_deleted(orbitmq, user):
    assert orbitmq("acl", "allow", user, "Topic:orders", "Pub").code == 0
    for words in ((user, "Topic:other"), ("cli-nobody",)):
        missed = orbitmq("acl", "delete", "--yes", *words)
        assert (missed.code, missed.out) == (1, "")
        assert "nothing was deleted" in missed.err
    assert [row[3] for row in orbitmq("acl", "list", "--user", user).rows] == ["Topic:orders"]
