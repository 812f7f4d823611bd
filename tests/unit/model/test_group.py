"""Groups: what a heartbeat says when it leaves something out, and Java's names."""

from __future__ import annotations

from orbitmq.model.group import ConsumeFrom, ConsumerInfo, ConsumeType, Heartbeat, MessageModel, Subscription


def test_a_subscription_takes_everything_unless_it_says_otherwise() -> None:
    found = Subscription(topic="t")
    assert (found.expression, found.expression_type, found.version) == ("*", "TAG", 0)
    assert (found.tags, found.tag_codes, found.class_filter_mode) == (frozenset(), frozenset(), False)


def test_a_consumer_shares_pushed_messages_from_the_last_on() -> None:
    found = ConsumerInfo(group="g")
    assert (found.consume_type, found.message_model) == (ConsumeType.PUSH, MessageModel.CLUSTERING)
    assert (found.consume_from, found.subscriptions, found.unit_mode) == (ConsumeFrom.LAST, (), False)


def test_a_heartbeat_belongs_to_no_group_by_itself() -> None:
    found = Heartbeat(client_id="c")
    assert (found.producer_groups, found.consumers, found.fingerprint) == ((), (), 0)
    assert found.without_subscriptions is False


def test_names_on_the_wire_are_javas() -> None:
    assert [*ConsumeType] == ["CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"]
    assert [*MessageModel] == ["CLUSTERING", "BROADCASTING"]
    assert [*ConsumeFrom] == ["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]
