"""Requests through a Producer, to brokers in memory."""

import asyncio

import pytest

from orbitmq import Message, Producer, PushConsumer
from orbitmq.client.requests import requester
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, RequestTimeout, SendFailed
from orbitmq.model.group import ConsumeFrom
from orbitmq.net.session import make_request
from orbitmq.wire.headers import HeartbeatRequest, SendMessageV2, SendReplyV2
from orbitmq.wire.messages.properties import parse_properties
from unit.client.fakes import pushed
from waiting import until

REQUEST = Message("questions", b"how many?", keys=["k"], properties={"a": "b"})


def producer(cluster, **settings):
    return Producer("askers", cluster.name_servers, **settings)


def replier(cluster, handler, **settings):
    consumer = PushConsumer(
        "repliers", cluster.name_servers, consume_from=ConsumeFrom.FIRST, handler=handler, **settings
    )
    consumer.subscribe("questions")
    return consumer


def sent(broker, kind=SendMessageV2):
    return [header for header in broker.requests if type(header) is kind]


def push(broker, header, body):
    """Push a reply by hand, as if somebody had replied to the request that came with `header`."""
    client = broker.clients[parse_properties(header.properties)["REPLY_TO_CLIENT"]]
    client.send_request(make_request(pushed(header), body), lambda answer: None, timeout_ms=20_000)


async def test_a_consumer_replies_in_one_line(cluster):
    cluster.topic("questions")
    cluster.topic("c_REPLY_TOPIC", count=1)

    async def answer(batch):
        for message in batch:
            await consumer.reply(message, message.body.upper(), properties={"who": "me"})

    async with replier(cluster, answer) as consumer, producer(cluster) as asker:
        reply = await asker.request(REQUEST, timeout_ms=20_000)
    assert reply.body == b"HOW MANY?"
    assert reply.properties["who"] == "me"
    (request,) = sent(cluster.a)
    properties = parse_properties(request.properties)
    assert (properties["REPLY_TO_CLIENT"], properties["TTL"]) == (asker._session.id, "20000")
    assert (properties["a"], properties["KEYS"]) == ("b", "k")
    (header,) = sent(cluster.a, SendReplyV2)
    said = parse_properties(header.properties)
    assert header.producer_group == "repliers"
    assert {name: said[name] for name in ("MSG_TYPE", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")} == {
        "MSG_TYPE": "reply",
        **{name: properties[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")},
    }


async def test_a_producer_sends_a_reply_like_any_message(cluster):
    cluster.topic("questions", count=1)
    cluster.topic("c_REPLY_TOPIC", count=1)
    consumer = PushConsumer("repliers", cluster.name_servers, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("questions")
    async with consumer, producer(cluster) as asker, Producer("repliers", cluster.name_servers) as other:
        asking = asyncio.ensure_future(asker.request(REQUEST, timeout_ms=20_000))
        batch = await consumer.next_batch()
        assert batch is not None
        assert (await other.send(batch[0].reply(b"forty-two"))).queue.topic == "c_REPLY_TOPIC"
        assert (await asking).body == b"forty-two"
        batch.commit()


async def test_many_requests_wait_at_once_and_each_gets_its_own_reply(cluster):
    cluster.topic("questions", cluster.a, cluster.b, count=4)
    cluster.topic("c_REPLY_TOPIC", cluster.a, cluster.b, count=1)

    async def answer(batch):
        for message in reversed(batch):
            await consumer.reply(message, b"reply to " + message.body)

    async with replier(cluster, answer) as consumer, producer(cluster, requests_max=10) as asker:
        bodies = [str(number).encode() for number in range(50)]
        replies = await asyncio.gather(
            *(asker.request(Message("questions", body), timeout_ms=20_000) for body in bodies)
        )
        assert asker._requester._pending.count == 0
    assert [reply.body for reply in replies] == [b"reply to " + body for body in bodies]


async def test_a_broker_knows_who_asks_before_it_gets_the_request(cluster):
    cluster.topic("questions", count=1)
    async with producer(cluster, heartbeat_interval_ms=60_000) as asker:
        await ask_in_vain(cluster.a, asker)
        await ask_in_vain(cluster.a, asker)
        kinds = [type(header) for header in cluster.a.requests]
        assert kinds.index(HeartbeatRequest) < kinds.index(SendMessageV2)
        cluster.a.requests.clear()
        for connection in tuple(cluster.a.connections):
            connection.kill()
        await until(lambda: cluster.a.address not in asker._session.pool.addresses)
        await ask_in_vain(cluster.a, asker)
        kinds = [type(header) for header in cluster.a.requests]
        assert kinds.index(HeartbeatRequest) < kinds.index(SendMessageV2)


async def ask_in_vain(broker, asker):
    """Ask until the broker has the request, and wait for no reply."""
    before = len(sent(broker))
    asking = asyncio.create_task(asker.request(REQUEST, timeout_ms=60_000))
    await until(lambda: len(sent(broker)) > before)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_request_that_nobody_replies_to_ends_in_time_and_says_where_it_is(cluster):
    cluster.topic("questions", count=1)
    async with producer(cluster) as asker:
        with pytest.raises(
            RequestTimeout,
            match=r"no reply to the request to topic questions within 100 ms.*broker broker-a, queue 0, offset 0",
        ):
            await asker.request(REQUEST, timeout_ms=100)
        assert asker._requester._pending.count == 0
        push(cluster.a, sent(cluster.a)[0], b"too late")
        await asker.send(REQUEST)  # the late reply has been read before this is answered, and has hurt nobody


async def test_a_request_that_cannot_be_sent_fails_as_a_send_does(cluster):
    cluster.topic("questions", count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    async with producer(cluster, retries=0) as asker:
        with pytest.raises(SendFailed):
            await asker.request(REQUEST, timeout_ms=20_000)
        assert asker._requester._pending.count == 0


async def test_a_reply_counts_although_the_brokers_answer_to_the_request_was_lost(cluster):
    cluster.topic("questions", count=1)
    cluster.a.silent.add(SendMessageV2)
    async with producer(cluster, retries=0) as asker:
        asking = asyncio.ensure_future(asker.request(REQUEST, timeout_ms=20_000))
        await until(lambda: sent(cluster.a))
        push(cluster.a, sent(cluster.a)[0], b"here")
        await until(lambda: not asker._requester._pending.count)
        for connection in tuple(cluster.a.connections):
            connection.kill()
        assert (await asking).body == b"here"


async def test_who_waits_is_known_again_after_its_connection_broke(cluster, monkeypatch):
    monkeypatch.setattr(requester, "RETURN_PAUSE_MS", 1)
    cluster.topic("questions", count=1)
    async with producer(cluster, heartbeat_interval_ms=60_000) as asker:
        asking = asyncio.ensure_future(asker.request(REQUEST, timeout_ms=60_000))
        await until(lambda: cluster.a.bodies("questions"))
        await cluster.a.stop()
        await asyncio.sleep(0.01)  # some attempts to return find nobody
        assert cluster.a.clients == {}
        await cluster.a.start()
        await until(lambda: cluster.a.clients, pause_s=0.001)
        push(cluster.a, sent(cluster.a)[0], b"welcome back")
        assert (await asking).body == b"welcome back"


async def test_all_brokers_of_the_cluster_know_who_has_asked(cluster):
    cluster.topic("questions", cluster.a, count=1)
    cluster.topic("c_REPLY_TOPIC", cluster.a, cluster.b, count=1)
    async with producer(cluster, heartbeat_interval_ms=60_000) as asker:
        asking = asyncio.ensure_future(asker.request(REQUEST, timeout_ms=20_000))
        await until(lambda: cluster.b.clients)
        push(cluster.b, sent(cluster.a)[0], b"the long way")
        assert (await asking).body == b"the long way"


async def test_closing_ends_requests_that_wait(cluster):
    cluster.topic("questions", count=1)
    asker = producer(cluster)
    await asker.open()
    asking = asyncio.ensure_future(asker.request(REQUEST, timeout_ms=60_000))
    await until(lambda: cluster.a.bodies("questions"))
    await asker.close()
    with pytest.raises(ClientError, match="closed before the reply came"):
        await asking


async def test_what_is_no_request_is_refused(cluster):
    reply = Message("c_REPLY_TOPIC", b"")
    async with producer(cluster) as asker:
        with pytest.raises(InvalidArgument, match="timeout_ms"):
            await asker.request(reply, timeout_ms=0)
    with pytest.raises(InvalidArgument, match="requests_max"):
        producer(cluster, requests_max=0)
