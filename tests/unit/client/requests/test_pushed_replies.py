"""Replies of clients and consumers: sent, and pushed by brokers."""

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import cast

import pytest

from orbitmq.client.requests.consumer_replies import ConsumerReplies
from orbitmq.client.requests.pending import PendingRequests
from orbitmq.client.requests.pushed_replies import handlers, take_reply
from orbitmq.client.requests.replier import Replier
from orbitmq.client.send.failures.fault_tolerance import FaultTolerance
from orbitmq.client.send.queue_selector import QueueSelector
from orbitmq.client.send.request import encode_message
from orbitmq.client.send.sender import Sender
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, Rejected, RouteNotFound, SendFailed
from orbitmq.model.group import Heartbeat
from orbitmq.model.message import Host, Message, ReplyTo
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PushReply, SendReplyV2
from orbitmq.wire.messages.compression import CompressionType, compress
from orbitmq.wire.messages.properties import parse_properties
from unit.client.support import noted_pauses, open_session


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


async def test_a_reply_that_nobody_waits_for_is_confirmed_all_the_same():
    assert take_reply(PendingRequests(1), call("CORRELATION_ID\x01late\x02")).code == 0


@pytest.mark.parametrize("properties", [None, "", "TAGS\x01t\x02"])
async def test_a_reply_that_names_no_request_is_refused(properties):
    with pytest.raises(Rejected, match="process reply message fail") as refused:
        take_reply(PendingRequests(1), call(properties))
    assert refused.value.code == 1


@pytest.mark.parametrize(
    "fields", [{"sys_flag": CompressionType.ZLIB.sys_flag}, {"born_host": "nowhere"}, {"store_host": ""}]
)
async def test_a_reply_that_cannot_be_read_fails_its_request_at_once(fields):
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
            session, selector, faults, group="g", timeout_ms=20_000, attempt_timeout_ms=None, retries=retries, queue_count=4
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
