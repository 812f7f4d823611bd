from typing import Any

import pytest

from orbitmq.client.consume.subscriptions import parse_subscription, subscribe, wants
from orbitmq.errors import InvalidArgument, InvalidExpression
from orbitmq.wire.messages.tags import tag_code


@pytest.mark.parametrize("expression", ["*", " * ", "", " "])
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


def test_an_expression_without_a_tag_is_refused():
    with pytest.raises(InvalidArgument, match="tags joined by"):
        parse_subscription("t", " || ", 7)


@pytest.mark.parametrize("expression", [None, 5, b"A", ["A", "B"]])
def test_what_is_no_text_is_refused(expression):
    with pytest.raises(InvalidArgument, match=r"^tag: .* is not allowed, expected text"):
        parse_subscription("t", expression, 7)


def test_a_topic_with_a_bad_name_is_refused():
    with pytest.raises(InvalidArgument, match="topic"):
        parse_subscription("../etc", "*", 7)


def test_an_expression_becomes_a_subscription_of_its_own_type():
    subscription = subscribe("t", "*", "price > 10", 7)
    assert (subscription.topic, subscription.expression, subscription.expression_type) == ("t", "price > 10", "SQL92")
    assert (subscription.tags, subscription.version) == (frozenset(), 7)
    assert wants(subscription, "any")


def test_without_an_expression_tags_count():
    assert subscribe("t", "A", None, 7) == parse_subscription("t", "A", 7)


@pytest.mark.parametrize("tag", ["A", "A || B", 5])
def test_tags_and_an_expression_are_not_joined(tag):
    with pytest.raises(InvalidArgument, match="nothing beside the tag"):
        subscribe("t", tag, "price > 10", 7)


@pytest.mark.parametrize("sql", ["", "price >", "price > 10 LIMIT 5", "price > 10 && region = 'eu'"])
def test_a_wrong_expression_is_refused_at_the_door(sql):
    with pytest.raises(InvalidExpression, match="line 1, column"):
        subscribe("t", None, sql, 7)


def test_an_expression_that_is_no_text_is_refused():
    number: Any = 5
    with pytest.raises(InvalidArgument, match=r"^sql: 5 is not allowed, expected text"):
        subscribe("t", "*", number, 7)


def test_an_expression_needs_a_topic_with_a_good_name():
    with pytest.raises(InvalidArgument, match="topic"):
        subscribe("../etc", "*", "price > 10", 7)
