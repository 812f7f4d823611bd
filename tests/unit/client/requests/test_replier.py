"""Replies of clients and consumers."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest

from orbitmq.client.requests.consumer_replies import ConsumerReplies
from orbitmq.client.requests.pending import PendingRequests
from orbitmq.client.requests.pushed_replies import handlers
from orbitmq.client.requests.replier import Replier
from orbitmq.client.send.failures.fault_tolerance import FaultTolerance
from orbitmq.client.send.queue_selector import QueueSelector
from orbitmq.client.send.request import encode_message
from orbitmq.client.send.sender import Sender
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RouteNotFound, SendFailed
from orbitmq.model.group import Heartbeat
from orbitmq.model.message import Message, ReplyTo
from orbitmq.wire.headers import SendReplyV2
from orbitmq.wire.messages.properties import parse_properties
from unit.client.support import noted_pauses, open_session

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
