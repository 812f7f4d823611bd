"""Redelivery: its rules, and failed messages as plain sends."""

from dataclasses import replace

from cases import each_case
from orbitmq.client.consume.redelivery import RedeliveryPolicy, one_queue_each, plain_send
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.properties import parse_properties
from unit.client.messages import stored

QUEUES = [MessageQueue("%RETRY%g", broker, queue_id) for broker in "abcd" for queue_id in (0, 1)]


def sent(delay_level=0, **changes):
    message = replace(stored(7), topic="orders", **changes)
    return plain_send(message, "g", QUEUES[0], delay_level=delay_level, max_reconsume_times=15, now_ms=5)


def tried(times):
    return replace(stored(0), reconsume_times=times)


def test_a_message_names_its_origin_and_its_attempts_as_one_that_a_broker_took_back():
    header = sent(reconsume_times=2, properties={"TAGS": "t", "UNIQ_KEY": "ID", "TRAN_MSG": "true"}, flag=9, sys_flag=9)
    assert (header.topic, header.producer_group, header.flag, header.sys_flag) == (
        "%RETRY%g",
        "CLIENT_INNER_PRODUCER",
        9,
        0,
    )
    assert (header.reconsume_times, header.max_reconsume_times) == (3, 15)
    properties = parse_properties(header.properties.encode())
    assert len(properties.pop("ORIGIN_MESSAGE_ID")) == 32
    assert properties == {"TAGS": "t", "UNIQ_KEY": "ID", "RETRY_TOPIC": "orders", "DELAY": "5"}


def test_the_level_and_the_first_origin_are_kept():
    header = sent(1, properties={"ORIGIN_MESSAGE_ID": "FIRST", "RECONSUME_TIME": "1"})
    assert parse_properties(header.properties.encode()) == {
        "ORIGIN_MESSAGE_ID": "FIRST", "RETRY_TOPIC": "orders", "DELAY": "1"
    }  # fmt: skip


def test_what_is_given_up_has_more_attempts_than_it_may_have():
    header = sent(-1, reconsume_times=2)
    assert header.reconsume_times > header.max_reconsume_times


def test_three_brokers_are_tried_with_a_queue_each_and_another_first_for_each_message():
    assert one_queue_each(QUEUES, stored(0)) == [QUEUES[0], QUEUES[2], QUEUES[4]]
    assert one_queue_each(QUEUES, stored(7)) == [QUEUES[7], QUEUES[0], QUEUES[2]]
    assert one_queue_each([], stored(7)) == []


@each_case((1, 1_000), (2, 2_000), (5, 16_000), (6, 30_000), (99, 30_000), (10**9, 30_000))
def test_the_pause_between_deliveries_doubles_up_to_half_a_minute(attempt, delay_ms):
    assert RedeliveryPolicy().delay_ms(tried(attempt - 1)) == delay_ms


def test_a_longer_first_pause_is_not_shortened():
    assert RedeliveryPolicy(retry_delay_ms=60_000).delay_ms(tried(2)) == 60_000


@each_case((1, False), (15, False), (16, True), (17, True))
def test_the_sixteenth_attempt_is_the_last_one(attempt, is_last):
    assert RedeliveryPolicy().is_last(tried(attempt - 1)) is is_last


def test_brokers_are_told_of_the_attempts_after_the_first():
    assert RedeliveryPolicy(max_attempts=3).max_reconsume_times == 2
    assert RedeliveryPolicy(max_attempts=1).is_last(tried(0))


def test_without_a_limit_no_attempt_is_the_last():
    policy = RedeliveryPolicy(max_attempts=None)
    assert not policy.is_last(tried(10**6))
    assert policy.max_reconsume_times == 2**31 - 1
