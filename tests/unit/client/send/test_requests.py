"""Requests through a Producer, to brokers in memory."""

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import cast

import pytest

from orbitmq import Producer, PushConsumer
from orbitmq.client.send import requests
from orbitmq.client.send.attempts import FaultTolerance
from orbitmq.client.send.queue_selector import QueueSelector
from orbitmq.client.send.replies import ConsumerReplies, Replier
from orbitmq.client.send.request import encode_message
from orbitmq.client.send.requests import PendingRequests, handlers, take_reply
from orbitmq.client.send.sender import Sender
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, Rejected, RequestTimeout, RouteNotFound, SendFailed
from orbitmq.model.group import ConsumeFrom, Heartbeat
from orbitmq.model.message import Host, Message, ReplyTo
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.session import make_request
from orbitmq.wire.command import Command
from orbitmq.wire.headers import HeartbeatRequest, PushReply, SendMessageV2, SendReplyV2
from orbitmq.wire.messages.compression import CompressionType, compress
from orbitmq.wire.messages.properties import parse_properties
from unit.client.fakes import pushed
from unit.client.messages import stored
from unit.client.support import noted_pauses, open_session
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
    """Push a reply by hand, as if a consumer had replied to the request that came with `header`."""
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


async def test_many_requests_wait_together_and_each_gets_its_own_reply(cluster):
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


async def test_a_request_without_a_reply_ends_in_time_and_says_where_it_is(cluster):
    cluster.topic("questions", count=1)
    async with producer(cluster) as asker:
        with pytest.raises(
            RequestTimeout,
            match=r"no reply to the request to topic questions within 100 ms.*broker broker-a, queue 0, offset 0",
        ):
            await asker.request(REQUEST, timeout_ms=100)
        assert asker._requester._pending.count == 0
        push(cluster.a, sent(cluster.a)[0], b"too late")
        await asker.send(REQUEST)  # the late reply has been read before this is answered, and did no harm


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
    monkeypatch.setattr(requests, "RETURN_PAUSE_MS", 1)
    cluster.topic("questions", count=1)
    async with producer(cluster, heartbeat_interval_ms=60_000) as asker:
        asking = asyncio.ensure_future(asker.request(REQUEST, timeout_ms=60_000))
        await until(lambda: cluster.a.bodies("questions"))
        await cluster.a.stop()
        await asyncio.sleep(0.01)  # some attempts to return find no broker
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


async def test_each_request_gets_the_reply_that_names_it():
    pending = PendingRequests(10)
    async with pending.open(20_000) as first, pending.open(20_000) as second:
        assert first.correlation_id != second.correlation_id
        assert pending.count == 2
        assert pending.resolve(second.correlation_id, stored(2))
        assert pending.resolve(first.correlation_id, stored(1))
        assert [(await request.reply).queue_offset for request in (first, second)] == [1, 2]
        assert 0 < first.left_ms <= 20_000


async def test_a_second_reply_and_one_without_a_requester_find_no_waiter():
    pending = PendingRequests(10)
    assert not pending.resolve("nobody", stored(1))
    async with pending.open(20_000) as request:
        assert pending.resolve(request.correlation_id, stored(1))
        assert not pending.resolve(request.correlation_id, stored(2))
        assert (await request.reply).queue_offset == 1
    assert not pending.resolve(request.correlation_id, stored(3))


async def test_who_asks_beyond_the_limit_waits_for_a_place():
    pending = PendingRequests(1)

    async def ask():
        async with pending.open(20_000):
            return pending.count

    async with pending.open(20_000) as first:
        second = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        assert (pending.count, second.done()) == (1, False)
        pending.resolve(first.correlation_id, stored(1))
    assert await second == 1


async def test_who_finds_no_place_in_time_is_told_the_limit():
    pending = PendingRequests(1)
    async with pending.open(20_000):
        with pytest.raises(RequestTimeout, match=r"not sent within 1 ms: 1 others \(requests_max\)"):
            async with pending.open(1):
                raise AssertionError


@pytest.mark.parametrize("how", ["an error", "a cancellation"])
async def test_a_request_that_ends_in_any_way_leaves_nothing_behind(how):
    pending = PendingRequests(1)

    async def ask():
        async with pending.open(20_000) as request:
            if how == "an error":
                raise ZeroDivisionError
            await request.reply

    asking = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
        await asking
    assert pending.count == 0
    async with pending.open(1) as request:  # the place is free again
        assert pending.count == 1
        assert not request.reply.done()


async def test_closing_ends_all_waiting_also_for_a_place():
    pending = PendingRequests(1)

    async def ask():
        async with pending.open(20_000) as request:
            return await request.reply

    asking = [asyncio.ensure_future(ask()) for _ in range(2)]
    await until(lambda: pending.count)
    pending.close()
    for one in asking:
        with pytest.raises(ClientError, match="closed before the reply came"):
            await one
    assert pending.count == 0


def call(properties, body=b"yes", **fields):
    header = PushReply(
        **{
            "producer_group": "p", "topic": "c_REPLY_TOPIC", "default_topic": "TBW102", "default_topic_queue_nums": 4,
            "queue_id": 3, "sys_flag": 0, "born_at_ms": 5, "flag": 7, "properties": properties,
            "born_host": "10.0.0.1:2", "store_host": "::1:3", "stored_at_ms": 6, **fields,
        }
    )  # fmt: skip
    return Call(header, Command(326, body=body), cast(Peer, None), now_ms=1_000)


@pytest.mark.parametrize("compression", [None, *CompressionType])
async def test_a_reply_is_a_message_as_a_consumer_would_get_it(compression):
    pending = PendingRequests(1)
    body, sys_flag = b"yes" * 100, 0
    if compression is not None:
        body, sys_flag = compress(body, compression), compression.sys_flag
    async with pending.open(20_000) as request:
        properties = f"CORRELATION_ID\x01{request.correlation_id}\x02TAGS\x01t\x02"
        assert take_reply(pending, call(properties, body, sys_flag=sys_flag)).code == 0
        reply = await request.reply
    assert (reply.body, reply.tag, reply.queue_id, reply.flag) == (b"yes" * 100, "t", 3, 7)
    assert (reply.born_at_ms, reply.stored_at_ms, reply.properties["ARRIVE_TIME"]) == (5, 6, "1000")
    assert (reply.born_host, reply.store_host) == (Host("10.0.0.1", 2), Host("::1", 3))


async def test_a_reply_without_a_waiter_is_confirmed_all_the_same():
    assert take_reply(PendingRequests(1), call("CORRELATION_ID\x01late\x02")).code == 0


@pytest.mark.parametrize("properties", [None, "", "TAGS\x01t\x02"])
async def test_a_reply_that_names_no_request_is_refused(properties):
    with pytest.raises(Rejected, match="process reply message fail") as refused:
        take_reply(PendingRequests(1), call(properties))
    assert refused.value.code == 1


@pytest.mark.parametrize(
    "fields", [{"sys_flag": CompressionType.ZLIB.sys_flag}, {"born_host": "nowhere"}, {"store_host": ""}]
)
async def test_a_reply_that_cannot_be_read_fails_its_request_immediately(fields):
    pending = PendingRequests(1)
    async with pending.open(20_000) as request:
        with pytest.raises(Rejected, match="process reply message fail"):
            take_reply(pending, call(f"CORRELATION_ID\x01{request.correlation_id}\x02", b"no zlib", **fields))
        with pytest.raises(ClientError, match="cannot be read"):
            await request.reply


TOPIC = "c_REPLY_TOPIC"


def replies(broker):
    return [header for header in broker.requests if isinstance(header, SendReplyV2)]


@asynccontextmanager
async def replier_of(cluster, faults=None, retries=3):
    async with open_session(cluster) as session:
        selector = QueueSelector(session.routes, faults, random=Random(1), queue_count=4)
        sender = Sender(
            session, selector, group="g", timeout_ms=20_000, attempt_timeout_ms=None, retries=retries
        )  # fmt: skip
        yield Replier(selector, sender)


@asynccontextmanager
async def asker_at(cluster, *brokers):
    """A client that waits for replies at these brokers."""
    settings = {"describe": lambda client_id: Heartbeat(client_id=client_id, producer_groups=("p",))}
    async with open_session(cluster, handlers=handlers, service=PendingRequests(1), **settings) as session:
        for broker in brokers:
            cluster.topic(f"at-{broker.name}", broker)
            await session.routes.find(f"at-{broker.name}")
            await session.announce(broker.name)
        yield session.id


async def send(replier, client_id, broker_name):
    in_reply_to = ReplyTo("id", client_id, "1", broker_name)
    encoded = encode_message(Message(TOPIC, b"yes", in_reply_to=in_reply_to), "ID", 100)
    return await replier.send(encoded, in_reply_to)


@pytest.mark.parametrize("name", ["broker-a", "broker-b"])
async def test_a_reply_goes_through_the_broker_of_its_request(cluster, name):
    cluster.topic(TOPIC, cluster.a, cluster.b, count=1)
    async with asker_at(cluster, cluster.a, cluster.b) as client_id, replier_of(cluster) as replier:
        for _ in range(4):
            assert (await send(replier, client_id, name)).queue.broker_name == name


async def test_a_broker_that_does_not_know_who_asked_is_left_for_another_one(cluster):
    cluster.topic(TOPIC, cluster.a, cluster.b, count=1)
    faults = FaultTolerance()
    async with asker_at(cluster, cluster.b) as client_id, replier_of(cluster, faults) as replier:
        assert (await send(replier, client_id, "broker-a")).queue.broker_name == "broker-b"
        assert len(replies(cluster.a)) == 1
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        assert faults.avoided(now_ms) == frozenset()  # it is well


async def test_when_no_broker_knows_who_asked_each_was_tried_once(cluster, monkeypatch):
    cluster.topic(TOPIC, cluster.a, cluster.b, count=2)
    async with replier_of(cluster) as replier:
        with noted_pauses(monkeypatch) as pauses, pytest.raises(SendFailed, match="2 attempts") as failed:
            await send(replier, "gone", "broker-b")
        assert (len(replies(cluster.a)), len(replies(cluster.b)), pauses) == (1, 1, [])
        assert [str(cause).partition(" answered ")[2] for cause in failed.value.causes] == [
            "code 1: channel not found"
        ] * 2


async def test_a_busy_broker_is_asked_again(cluster, monkeypatch):
    cluster.topic(TOPIC, cluster.a, count=1)
    cluster.a.refusals[SendReplyV2] = [ResponseCode.SYSTEM_BUSY]
    async with asker_at(cluster, cluster.a) as client_id, replier_of(cluster) as replier:
        with noted_pauses(monkeypatch) as pauses:
            assert (await send(replier, client_id, "broker-a")).status == "SEND_OK"
        assert pauses == [200]


async def test_a_broker_that_is_gone_is_replaced_by_any_other(cluster):
    cluster.topic(TOPIC, cluster.a, count=1)
    async with asker_at(cluster, cluster.a) as client_id, replier_of(cluster) as replier:
        assert (await send(replier, client_id, "broker-z")).queue.broker_name == "broker-a"


async def test_without_a_reply_topic_there_is_no_way(cluster):
    async with replier_of(cluster) as replier:
        with pytest.raises(RouteNotFound):
            await send(replier, "asker", "broker-a")


async def test_replies_carry_the_consumers_group_and_ids_of_their_own(cluster):
    cluster.topic("c_REPLY_TOPIC", count=1)
    async with open_session(cluster) as session:
        replies = ConsumerReplies(session, "repliers")
        for _ in range(2):
            with pytest.raises(SendFailed):
                await replies.send(
                    Message("c_REPLY_TOPIC", bytes(5_000), in_reply_to=ReplyTo("id", "gone", None, "broker-a")), 20_000
                )
    first, second = (header for header in cluster.a.requests if isinstance(header, SendReplyV2))
    assert (first.producer_group, first.sys_flag & 1) == ("repliers", 1)
    ids = [parse_properties(header.properties or "")["UNIQ_KEY"] for header in (first, second)]
    assert len({*ids}) == 2
    assert all(len(one) == 32 for one in ids)
    assert "TTL" not in parse_properties(first.properties or "")


async def test_what_is_no_reply_is_refused(cluster):
    async with open_session(cluster) as session:
        with pytest.raises(InvalidArgument, match=r"StoredMessage\.reply"):
            await ConsumerReplies(session, "g").send(Message("t", b""), 20_000)
