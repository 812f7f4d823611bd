"""Claims about resources, subjects and words of rules, as Java reads them."""

from __future__ import annotations

from cases import each_case
from orbitmq.model.access import (
    Action,
    Pattern,
    Resource,
    ResourceType,
    User,
    UserType,
    by_name,
    group_resource,
    parse_resource,
    parse_subject,
    topic_resource,
)

T, G = ResourceType.TOPIC, ResourceType.GROUP


@each_case(
    ("*", Resource(ResourceType.ANY, None, Pattern.ANY), "*"),
    ("Topic:*", Resource(T, None, Pattern.ANY), "Topic:*"),
    ("topic:orders", Resource(T, "orders"), "Topic:orders"),
    ("GROUP:a*", Resource(G, "a", Pattern.PREFIXED), "Group:a*"),
    ("Topic:a*b*", Resource(T, "a", Pattern.PREFIXED), "Topic:a*"),
    ("Topic:a*b", Resource(T, "a*b"), "Topic:a*b"),
    ("Topic:a:b", Resource(T, "a:b"), "Topic:a:b"),
    ("Topic", Resource(T, ""), "Topic:"),
    ("Any:x", Resource(ResourceType.ANY, "x"), "*"),
)
def test_a_resource_is_read_and_shown(text: str, resource: Resource, shown: str):
    assert parse_resource(text) == resource
    assert str(resource) == shown


@each_case(None, "", " ", "Topi:a", "orders", " Topic:a")
def test_what_names_no_kind_is_no_resource(text: str | None):
    assert parse_resource(text) is None


@each_case(
    ("Topic:a", ["a"], ["ab", "A", "", None, "а"]),
    ("Topic:a*", ["a", "ab", "a%b"], ["b", "A", "", None]),
    ("Topic:*", ["a", "", None], []),
    ("*", ["a", None], []),
    ("Group:a", [], ["a"]),
)
def test_which_topics_a_rule_is_about(rule: str, included: list[str | None], others: list[str | None]):
    found = parse_resource(rule)
    assert found is not None
    assert [name for name in (*included, *others) if found.includes(Resource(T, name))] == included


def test_a_retry_topic_is_its_groups():
    assert topic_resource("%RETRY%g") == group_resource("%RETRY%g") == group_resource("g") == Resource(G, "g")
    assert topic_resource("%RETRY%%RETRY%g") == Resource(G, "%RETRY%g"), "one prefix alone is taken off"
    assert topic_resource("%DLQ%g") == Resource(T, "%DLQ%g")
    assert topic_resource("%retry%g") == Resource(T, "%retry%g")
    assert topic_resource(None) == Resource(T, None)
    assert str(group_resource(None)) == "Group:null"


def test_subjects_are_users():
    assert parse_subject("User:anna") == parse_subject("user:anna") == "anna"
    assert parse_subject("User:a:b") == "a:b"
    assert parse_subject("User:") == ""
    for text in (None, "", "anna", "Role:anna"):
        assert parse_subject(text) is None


def test_words_are_found_in_any_case():
    assert by_name(Action, "puB") is Action.PUB
    assert by_name(Action, "Put") is None
    assert by_name(UserType, 5) is None


def test_a_users_secret_shows_in_no_repr():
    assert "hunter2" not in repr(User("anna", "hunter2"))
    assert "hunter2" not in f"{User('anna', 'hunter2')}"
