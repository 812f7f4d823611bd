import pytest

from orbitmq.client.consume.subscriptions import parse_subscription, wants
from orbitmq.errors import InvalidArgument
from orbitmq.wire.messages.tags import tag_code


@pytest.mark.parametrize("expression", ["*", " * ", "", None])
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


def test_a_topic_with_a_bad_name_is_refused():
    with pytest.raises(InvalidArgument, match="topic"):
        parse_subscription("../etc", "*", 7)
