"""Running infos of consumers, in Java's form."""

from __future__ import annotations

import orjson
import pytest

from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.group import Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import consumer_info


def test_javas_own_answer_is_read_whole_and_written_again() -> None:
    body = golden("307-get-consumer-running-info-answer").body
    info = consumer_info.decode_running_info(body)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.queues[MessageQueue("golden", "broker-a", 0)].commit_offset == 4
    assert info.statistics["golden"].consume_ms > 7
    written, wanted = fastjson.loads(consumer_info.encode_running_info(info)), fastjson.loads(body)
    for document in (written, wanted):
        for subscription in document["subscriptionSet"]:
            subscription["tagsSet"].sort()
    assert written == wanted


def test_all_of_it_comes_back_with_the_stacks() -> None:
    info = consumer_info.RunningInfo(
        properties={"a": "b"},
        subscriptions=(Subscription(topic="t"),),
        queues={MessageQueue("t", "b", 0): consumer_info.QueueInfo(commit_offset=3, is_locked=True, pulled_at_ms=5)},
        statistics={"t": consumer_info.ConsumeStatus(pull_rate=1.5, failed_count=2)},
        stacks="here",
        pop_queues={MessageQueue("t", "b", 1): {"waitAckCount": 2}},
        user_info={"release": "7"},
    )
    assert consumer_info.decode_running_info(consumer_info.encode_running_info(info)) == info


def test_what_a_consumer_leaves_out_counts_as_nothing() -> None:
    body = orjson.dumps({"properties": {"number": 7}, "statusTable": {"t": {}}})
    assert consumer_info.decode_running_info(body) == consumer_info.RunningInfo(
        properties={"number": "7"}, statistics={"t": consumer_info.ConsumeStatus()}, user_info=None
    )
    queues = b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"commitOffset":4}}}'
    assert consumer_info.decode_running_info(queues).queues == {
        MessageQueue("t", "b", 0): consumer_info.QueueInfo(commit_offset=4)
    }


def test_javas_own_answer_is_read_and_written_again() -> None:
    body = golden("309-consume-message-directly-answer").body
    assert consumer_info.encode_direct_result(consumer_info.decode_direct_result(body)) == body


def test_a_failure_comes_with_what_the_handler_raised() -> None:
    result = consumer_info.DirectResult(
        outcome=consumer_info.ConsumeResult.THROW_EXCEPTION, is_ordered=True, remark="ValueError: no", spent_ms=3
    )
    assert consumer_info.decode_direct_result(consumer_info.encode_direct_result(result)) == result


def test_an_outcome_that_is_none_is_refused() -> None:
    with pytest.raises(HeaderError, match="CR_MAYBE"):
        consumer_info.decode_direct_result(b'{"consumeResult":"CR_MAYBE"}')
