"""Properties that name LMQs, and those with numbers there."""

from cases import each_case
from orbitmq.store.lmq import (
    allows_lmq,
    is_lmq,
    lmq_forms,
    lmq_offsets,
    named_queues,
    with_numbers,
)
from orbitmq.store.values import Dispatched

NAMES = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"


@each_case(
    ("orders", True),
    ("%DLQ%g", True),
    ("%RETRY%g", False),
    ("rmq_sys_wheel_timer", False),
    ("SCHEDULE_TOPIC_XXXX", False),
    ("SCHEDULE_TOPIC_XXXX_", True),
)
def test_messages_that_wait_are_in_no_light_queue(topic, is_allowed):
    assert allows_lmq(topic) is is_allowed
    assert lmq_offsets(topic, with_numbers(NAMES, [0, 7])) == ({"%LMQ%a": 0, "%LMQ%b": 7} if is_allowed else {})


def test_numbers_take_the_place_of_those_that_were_there():
    once = with_numbers(b"TAGS\x01t\x02" + NAMES + b"KEYS\x01k", [1, 2])
    assert once == b"TAGS\x01t\x02" + NAMES + b"KEYS\x01k\x02INNER_MULTI_QUEUE_OFFSET\x011,2\x02"
    assert with_numbers(once, [3, None]) == once.replace(b"1,2", b"3,")
    assert named_queues(once) == ["%LMQ%a", "%LMQ%b"]
    assert named_queues(b"KEYS\x01k\x02") == []


@each_case(
    (b"%LMQ%a,orders,%LMQ%b", b"1,,2", {"%LMQ%a": 1, "%LMQ%b": 2}),
    (b"%LMQ%a,%LMQ%a", b"1,2", {"%LMQ%a": 1}),
    (b"%LMQ%a,%LMQ%b", b"1", {}),
    (b"%LMQ%a", b"1,2", {}),
    (b"%LMQ%a", b"x", {}),
    (b"%LMQ%a", b"-1", {}),
    (b"%LMQ%a", b"1" * 18, {"%LMQ%a": int("1" * 18)}),
    (b"%LMQ%a", b"1" * 19, {}),
    (b"orders", b"5", {}),
    (b"%LMQ%../../etc", b"5", {}),
    (b"%LMQ%\xff", b"5", {"%LMQ%�": 5}),
)
def test_what_no_broker_of_ours_wrote_is_read_with_care(names, numbers, places):
    stored = b"INNER_MULTI_DISPATCH\x01" + names + b"\x02INNER_MULTI_QUEUE_OFFSET\x01" + numbers + b"\x02"
    assert lmq_offsets("orders", stored) == places


@each_case("LMQ%a", "orders", "", "%LMQ%a/b", "%LMQ%a\0", "%LMQ%" + "a" * 251)
def test_names_that_are_none_of_lmqs(name):
    assert not is_lmq(name)
    assert is_lmq("%LMQ%" + "a" * 250)


@each_case((0, 2), (8, 2), (4, 0), (12, 0))
def test_a_message_without_a_queue_of_its_own_has_none_of_these(sys_flag, count):
    stored = with_numbers(NAMES, [0, 7])
    message = Dispatched("orders", 3, 5, 100, 50, 0, 1000, sys_flag, stored)
    forms = lmq_forms(message)
    assert len(forms) == count
    assert lmq_forms(message._replace(properties=NAMES)) == []
    if forms:
        assert forms[1] == message._replace(topic="%LMQ%b", queue_id=0, queue_offset=7)
