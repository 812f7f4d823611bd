"""Heartbeats, and the questions of members of a group."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.group import ConsumeFrom, ConsumerInfo, ConsumeType, Heartbeat, MessageModel, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies import heartbeat
from orbitmq.wire.bodies.groups import decode_group_config


def test_a_heartbeat_with_a_deprecated_start_means_the_last_offset():
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeFromWhere":"CONSUME_FROM_MIN_OFFSET"}]}'
    assert heartbeat.decode_heartbeat(body).consumers[0].consume_from == "CONSUME_FROM_LAST_OFFSET"


FULL: dict[str, Any] = {
    "clientID": "c",
    "producerDataSet": [{"groupName": "p"}],
    "consumerDataSet": [
        {
            "groupName": "g",
            "consumeType": "CONSUME_POP",
            "messageModel": "BROADCASTING",
            "consumeFromWhere": "CONSUME_FROM_TIMESTAMP",
            "unitMode": True,
            "subscriptionDataSet": [
                {
                    "topic": "t", "subString": "a = 1", "expressionType": "SQL92", "tagsSet": ["a"], "codeSet": [97],
                    "subVersion": 5, "classFilterMode": True,
                }
            ],
        }
    ],
    "heartbeatFingerprint": 7,
    "withoutSub": True,
}  # fmt: skip


def test_a_heartbeat_is_read_with_all_that_it_says():
    found = heartbeat.decode_heartbeat(orjson.dumps(FULL))
    (consumer,) = found.consumers
    (subscription,) = consumer.subscriptions
    assert (found.client_id, found.producer_groups, found.fingerprint) == ("c", ("p",), 7)
    assert found.without_subscriptions is True
    assert (consumer.group, consumer.consume_type) == ("g", ConsumeType.POP)
    assert (consumer.message_model, consumer.consume_from) == (MessageModel.BROADCASTING, ConsumeFrom.TIMESTAMP)
    assert consumer.unit_mode is True
    assert (subscription.topic, subscription.expression, subscription.expression_type) == ("t", "a = 1", "SQL92")
    assert (subscription.tags, subscription.tag_codes, subscription.version) == (frozenset("a"), frozenset({97}), 5)
    assert subscription.class_filter_mode is True
    assert orjson.loads(heartbeat.encode_heartbeat(found)) == FULL


def test_what_a_heartbeat_leaves_out_has_javas_defaults():
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t"}]}]}'
    found = heartbeat.decode_heartbeat(body)
    (consumer,) = found.consumers
    (subscription,) = consumer.subscriptions
    assert (found.producer_groups, found.fingerprint, found.without_subscriptions) == ((), 0, False)
    assert (consumer.consume_type, consumer.message_model) == (ConsumeType.PUSH, MessageModel.CLUSTERING)
    assert (consumer.consume_from, consumer.unit_mode) == (ConsumeFrom.LAST, False)
    assert (subscription.expression, subscription.expression_type, subscription.version) == ("*", "TAG", 0)
    assert (subscription.tags, subscription.tag_codes, subscription.class_filter_mode) == (
        frozenset(),
        frozenset(),
        False,
    )


def test_a_list_of_consumers_round_trips_and_may_be_left_out():
    assert heartbeat.decode_consumer_list(heartbeat.encode_consumer_list(["c", "d"])) == ("c", "d")
    assert heartbeat.decode_consumer_list(b"{}") == ()


@each_case(True, False)
def test_a_lock_round_trips(only_this_broker):
    queues = (MessageQueue("t", "b", 0), MessageQueue("t", "b", 1))
    lock = heartbeat.QueueLock(group="g", client_id="c", queues=queues, only_this_broker=only_this_broker)
    assert heartbeat.decode_queue_lock(heartbeat.encode_queue_lock(lock)) == lock
    assert heartbeat.decode_locked_queues(heartbeat.encode_locked_queues(queues)) == queues


def test_thousands_of_queues_of_a_lock_share_their_names():
    queues = tuple(MessageQueue("topic", "broker", number) for number in range(1_000))
    body = heartbeat.encode_queue_lock(heartbeat.QueueLock(group="g", client_id="c", queues=queues))
    found = heartbeat.decode_queue_lock(body).queues
    assert {(id(queue.topic), id(queue.broker_name)) for queue in found} == {
        (id(found[0].topic), id(found[0].broker_name))
    }


def test_a_lock_is_for_all_brokers_of_a_group_unless_it_says_otherwise():
    lock = heartbeat.QueueLock(group="g", client_id="c", queues=())
    assert lock.only_this_broker is False
    assert heartbeat.decode_queue_lock(b'{"consumerGroup":"g","clientId":"c"}') == lock
    assert heartbeat.decode_locked_queues(b"{}") == ()


def test_a_subscription_to_be_checked_names_client_and_group_where_it_can():
    check = heartbeat.decode_subscription_check(
        b'{"clientId":"c","group":"g","subscriptionData":{"topic":"t","subString":"a"}}'
    )
    assert (check.client_id, check.group) == ("c", "g")
    assert check.subscription == Subscription(topic="t", expression="a")
    unnamed = heartbeat.decode_subscription_check(b'{"subscriptionData":{"topic":"t"}}')
    assert (unnamed.client_id, unnamed.group) == ("", "")


@each_case(*product(["subString", "expressionType"], [b"1", b"true", b'["A"]']))
def test_an_expression_that_is_no_text_is_refused(field, value):
    body = b'{"subscriptionData":{"topic":"t","%s":%s}}' % (field.encode(), value)
    with pytest.raises(HeaderError, match="text is expected"):
        heartbeat.decode_subscription_check(body)


def test_an_empty_expression_stands_for_all_tags_and_for_no_sql():
    by_tags = heartbeat.decode_subscription_check(b'{"subscriptionData":{"topic":"t","subString":""}}')
    by_sql = heartbeat.decode_subscription_check(
        b'{"subscriptionData":{"topic":"t","subString":"","expressionType":"SQL92"}}'
    )
    assert (by_tags.subscription.expression, by_sql.subscription.expression) == ("*", "")


@each_case(
    (heartbeat.decode_heartbeat, "heartbeat"),
    (heartbeat.decode_consumer_list, "consumer list"),
    (heartbeat.decode_subscription_check, "client config"),
    (heartbeat.decode_queue_lock, "queue lock"),
    (heartbeat.decode_locked_queues, "locked queues"),
)
def test_a_body_that_is_none_is_refused_by_name(decode, named):
    with pytest.raises(HeaderError, match=named):
        decode(b"[]")


@each_case(
    heartbeat.decode_heartbeat, heartbeat.decode_queue_lock, heartbeat.decode_subscription_check, decode_group_config
)
def test_what_takes_a_broker_long_to_parse_is_not_parsed(decode: Callable[[bytes], object]):
    with pytest.raises(HeaderError, match="not JSON"):
        decode(b'{"x":[{{"a":1}:1,"b":2}]}')  # objects as keys: no client sends any
    with pytest.raises(HeaderError, match="objects and lists"):
        decode(b'{"x":[%b1]}' % (b"{}," * 50_000))
    with pytest.raises(HeaderError, match="limit"):
        decode(b"{}" + b" " * heartbeat.CLIENT_BODY_SIZE_MAX)


def test_a_client_may_have_thousands_of_subscriptions():
    subscriptions = tuple(Subscription(topic=f"orders_of_{number:05}") for number in range(10_000))
    beat = Heartbeat(client_id="c", consumers=(ConsumerInfo(group="g", subscriptions=subscriptions),))
    assert heartbeat.decode_heartbeat(heartbeat.encode_heartbeat(beat)) == beat


@each_case(b"[]", b'"x"', b"{}")
def test_a_lock_whose_reach_is_no_boolean_is_refused(value: bytes) -> None:
    body = b'{"consumerGroup":"g","clientId":"c","mqSet":[],"onlyThisBroker":%b}'
    assert heartbeat.decode_queue_lock(body % b'"true"').only_this_broker is True
    with pytest.raises(HeaderError, match="true or false is expected"):
        heartbeat.decode_queue_lock(body % value)


@each_case(b"{}", b'""', b"0", b"false", b"null")
def test_a_lock_of_queues_that_are_no_list_is_refused(queues: bytes) -> None:
    body = b'{"consumerGroup":"g","clientId":"c","mqSet":%b}'
    assert heartbeat.decode_queue_lock(b'{"consumerGroup":"g","clientId":"c"}').queues == ()
    with pytest.raises(HeaderError, match="a list is expected"):
        heartbeat.decode_queue_lock(body % queues)
