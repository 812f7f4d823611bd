from dataclasses import replace
from functools import partial

import pytest

from orbitmq.client.consume import send_backs
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.send_backs import TO_DEAD_LETTERS, Drops, SendBacks
from orbitmq.codes import ResponseCode
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import ConsumerSendBack, SendMessageV2
from unit.client.messages import stored
from unit.client.support import open_session

QUEUE = MessageQueue("orders", "broker-a", 0)


async def send_back(cluster, message, delay_level=0, *, queue=QUEUE, on_retry=lambda: None, **policy):
    cluster.fill(b"1")
    async with open_session(cluster, "orders") as session:
        return await SendBacks(session, "g", RedeliveryPolicy(**policy), on_retry).send(message, queue, delay_level)


async def test_the_broker_is_told_which_message_for_which_group_and_how_often_at_most(cluster):
    message = replace(stored(0), topic="orders")
    assert await send_back(cluster, message, 4, max_attempts=3)
    (header,) = [request for request in cluster.a.requests if isinstance(request, ConsumerSendBack)]
    assert (header.group, header.physical_offset, header.origin_topic) == ("g", 0, "orders")
    assert (header.delay_level, header.max_reconsume_times, header.unit_mode) == (4, 2, False)
    assert header.origin_msg_id == "00000000000000000000000000000000"
    assert cluster.a.bodies("%RETRY%g") == [b"1"]


async def test_a_refusal_or_a_broker_that_is_away_is_told_and_the_message_is_still_ours(cluster, caplog):
    cluster.a.refusals[ConsumerSendBack] = [ResponseCode.SYSTEM_ERROR]
    assert not await send_back(cluster, stored(0))
    await cluster.a.stop()
    assert not await send_back(cluster, stored(0))
    assert len([text for text in caplog.messages if "is not sent back" in text]) == 2


@pytest.mark.parametrize(("attempt", "level", "is_told"), [(1, 0, False), (16, 0, True), (1, TO_DEAD_LETTERS, True)])
async def test_a_message_that_is_given_up_is_told(cluster, caplog, attempt, level, is_told):
    retries: list[int] = []
    message = replace(stored(0), reconsume_times=attempt - 1)
    assert await send_back(cluster, message, level, on_retry=lambda: retries.append(1))
    assert retries == [1] * (not is_told)
    assert any(f"is given up after {attempt} attempts" in text for text in caplog.messages) is is_told


async def test_a_delivery_beyond_the_last_one_is_not_told_as_an_attempt(cluster, caplog):
    assert await send_back(cluster, replace(stored(0), reconsume_times=3), TO_DEAD_LETTERS, max_attempts=3)
    assert any("is given up after 3 attempts" in text for text in caplog.messages)


async def test_broadcasting_drops_what_it_gives_up_and_says_so(caplog):
    assert await Drops("g").send(stored(7), QUEUE, TO_DEAD_LETTERS)
    assert "at offset 7 is dropped after 1 attempts" in caplog.text


async def test_what_a_broker_does_not_take_back_is_sent_to_the_retry_topic(cluster, caplog):
    cluster.topic("%RETRY%g", count=1)
    cluster.a.refusals[ConsumerSendBack] = [ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST]
    retries: list[int] = []
    message = replace(stored(0), topic="orders")
    assert await send_back(cluster, message, on_retry=lambda: retries.append(1))
    assert cluster.a.bodies("%RETRY%g") == [message.body]
    assert retries == [1]
    assert any("is not taken back, it was sent to" in text for text in caplog.messages)


async def test_a_message_that_is_not_taken_is_still_ours(cluster, caplog):
    cluster.topic("%RETRY%g", count=1)
    cluster.a.refusals[ConsumerSendBack] = [ResponseCode.SYSTEM_ERROR]
    cluster.a.refusals[SendMessageV2] = cluster.b.refusals[SendMessageV2] = [ResponseCode.SYSTEM_ERROR]
    assert not await send_back(cluster, replace(stored(0), topic="orders"))
    assert any("is not sent back, it comes again from here" in text for text in caplog.messages)
    assert cluster.a.bodies("%RETRY%g") == cluster.b.bodies("%RETRY%g") == []


def cut(broker, call):
    """Note a request, and close its connection."""
    broker.requests.append(call.header)
    call.connection.close()
    return True


@pytest.mark.parametrize("loss", ["silent", "broken"])
async def test_a_message_whose_plain_send_gets_no_answer_is_sent_to_no_further_broker(cluster, monkeypatch, loss):
    monkeypatch.setattr(send_backs, "SEND_BACK_TIMEOUT_MS", 50)
    cluster.topic("%RETRY%g", cluster.a, cluster.b, count=1)
    for broker in (cluster.a, cluster.b):
        broker.refusals[ConsumerSendBack] = [ResponseCode.SYSTEM_ERROR]
        if loss == "silent":
            broker.silent.add(SendMessageV2)
        else:
            monkeypatch.setattr(broker, "check", partial(cut, broker))
    assert not await send_back(cluster, replace(stored(0), topic="orders"))
    asked = [request for broker in (cluster.a, cluster.b) for request in broker.requests]
    assert len([request for request in asked if isinstance(request, SendMessageV2)]) == 1


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE]
)
async def test_what_a_broker_has_stored_without_its_whole_promise_is_not_ours_any_more(cluster, code):
    cluster.topic("%RETRY%g", count=1)
    cluster.a.refusals[ConsumerSendBack] = [ResponseCode.SYSTEM_ERROR]
    cluster.a.refusals[SendMessageV2] = cluster.b.refusals[SendMessageV2] = [code]
    assert await send_back(cluster, replace(stored(0), topic="orders"))
    asked = [request for broker in (cluster.a, cluster.b) for request in broker.requests]
    assert len([request for request in asked if isinstance(request, SendMessageV2)]) == 1


async def test_a_message_of_a_logical_queue_is_sent_to_the_retry_topic_immediately_without_a_warning(cluster, caplog):
    cluster.topic("%RETRY%g", count=1)
    assert await send_back(
        cluster, replace(stored(0), topic="orders"), queue=MessageQueue("orders", "__syslo__global__", 0)
    )
    assert not [request for request in cluster.a.requests if isinstance(request, ConsumerSendBack)]
    assert len([request for request in cluster.a.requests if isinstance(request, SendMessageV2)]) == 1
    assert "not taken back" not in caplog.text
