import pytest

from cases import each_case
from orbitmq import ConsumeFrom, MessageModel, PushConsumer
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.window import SPAN_MAX
from orbitmq.errors import InvalidArgument


def settings_of(**arguments):
    return PushConsumer("g", "127.0.0.1:1", **arguments)._settings


@each_case(
    ({"handler": print, "message_handler": print}, "message_handler: .*none next to handler"),
    ({"key": len}, "key: .*none without message_handler"),
    ({"key": len, "handler": print}, "key: .*none without message_handler"),
    ({"consume_from": ConsumeFrom.TIMESTAMP}, "consume_from_ms: .*a time, in ms since 1970"),
)
def test_arguments_that_do_not_go_together_are_refused(arguments, error):
    with pytest.raises(InvalidArgument, match=error):
        settings_of(**arguments)


def test_words_of_the_wire_become_members_of_their_enumerations():
    found = settings_of(message_model="BROADCASTING", consume_from="CONSUME_FROM_FIRST_OFFSET")
    assert found.message_model is MessageModel.BROADCASTING
    assert found.consume_from is ConsumeFrom.FIRST


@each_case(
    ({}, False, False, False),
    ({"ordered": True}, False, True, True),
    ({"message_model": MessageModel.BROADCASTING}, True, True, False),
    ({"message_model": MessageModel.BROADCASTING, "ordered": True}, True, True, False),
)
def test_the_model_and_the_order_decide_where_messages_come_again(
    arguments, is_broadcasting, is_in_place, locks_queues
):
    found = settings_of(max_attempts=3, retry_delay_ms=7, **arguments)
    assert (found.is_broadcasting, found.locks_queues) == (is_broadcasting, locks_queues)
    assert found.policy == RedeliveryPolicy(is_in_place=is_in_place, max_attempts=3, retry_delay_ms=7)
    assert found.retry_topic == "%RETRY%g"


@each_case(
    ({}, False, None),
    ({"handler": print}, True, None),
    ({"message_handler": print}, True, SPAN_MAX),
    ({"message_handler": print, "window_span_max": 9}, True, 9),
)
def test_only_messages_that_overtake_one_another_have_a_span(arguments, has_handler, span_max):
    found = settings_of(pull_count_max=5, window_count_max=6, window_size_max=7, **arguments)
    pulls = found.pull_settings
    assert found.has_handler is has_handler
    assert (pulls.pull_count_max, pulls.window_count_max, pulls.window_size_max) == (5, 6, 7)
    assert pulls.window_span_max == span_max
