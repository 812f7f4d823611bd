import pytest

from cases import each_case
from orbitmq.client.consume.subscriptions import parse_subscription, subscribe, wants
from orbitmq.errors import InvalidArgument, InvalidExpression
from orbitmq.wire.messages.properties import tag_code


@each_case("*", " * ", "", " ")
def test_a_star_or_nothing_subscribes_to_everything(expression):
    subscription = parse_subscription("t", expression, 7)
    assert (subscription.expression, subscription.tags, subscription.version) == ("*", frozenset(), 7)
    assert wants(subscription, None)
    assert wants(subscription, "A")


def test_tags_are_joined_by_double_bars():
    subscription = parse_subscription("t", "A || B||", 7)
    assert subscription.expression == "A || B||"
    assert subscription.tags == {"A", "B"}
    assert subscription.tag_codes == {tag_code("A"), tag_code("B")}


def test_two_tags_with_one_hash_are_told_apart():
    subscription = parse_subscription("t", "Aa", 7)
    assert tag_code("Aa") == tag_code("BB")
    assert wants(subscription, "Aa")
    assert not wants(subscription, "BB")
    assert not wants(subscription, None)


@each_case(
    ("t", " || ", "tags joined by"),
    *(("t", other, r"^tag: .* is not allowed, expected text") for other in (None, 5, b"A", ["A", "B"])),
    ("../etc", "*", "topic"),
)
def test_what_is_no_subscription_is_refused(topic, tags, told):
    with pytest.raises(InvalidArgument, match=told):
        parse_subscription(topic, tags, 7)


def test_an_expression_becomes_a_subscription_of_its_own_type():
    subscription = subscribe("t", "*", "price > 10", 7)
    assert (subscription.topic, subscription.expression, subscription.expression_type) == ("t", "price > 10", "SQL92")
    assert (subscription.tags, subscription.version) == (frozenset(), 7)
    assert wants(subscription, "any")


def test_without_an_expression_tags_count():
    assert subscribe("t", "A", None, 7) == parse_subscription("t", "A", 7)


@each_case(
    *(("t", tag, "price > 10", "nothing next to the tag") for tag in ("A", "A || B", 5)),
    ("t", "*", 5, r"^sql: 5 is not allowed, expected text"),
    ("../etc", "*", "price > 10", "topic"),
)
def test_an_expression_is_text_for_a_topic_and_without_tags(topic, tag, sql, told):
    with pytest.raises(InvalidArgument, match=told):
        subscribe(topic, tag, sql, 7)


@each_case("", "price >", "price > 10 LIMIT 5", "price > 10 && region = 'eu'")
def test_a_wrong_expression_is_refused_at_the_door(sql):
    with pytest.raises(InvalidExpression, match="line 1, column"):
        subscribe("t", None, sql, 7)
