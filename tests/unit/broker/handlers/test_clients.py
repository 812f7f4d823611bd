"""Clients in their groups, and their locks on queues."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from cases import each_case
from orbitmq.model.group import ConsumerInfo, Heartbeat, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.heartbeat import (
    QueueLock,
    decode_consumer_list,
    decode_locked_queues,
    encode_heartbeat,
    encode_queue_lock,
    subscription_document,
)
from orbitmq.wire.headers import (
    CheckClientConfig,
    GetConsumerConnections,
    GetConsumerList,
    GetProducerConnections,
    HeartbeatRequest,
    HeartbeatResponse,
    LockQueues,
    NotifyConsumerIdsChanged,
    UnlockQueues,
    UnregisterClient,
)
from unit.broker.conftest import Harness
from unit.broker.parts import Serve


class Listener:
    """A client that hears of changes in its groups."""

    handlers: Handlers[Listener] = Handlers()

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()


@Listener.handlers.on(NotifyConsumerIdsChanged)
def _hear(listener: Listener, call: Call[NotifyConsumerIdsChanged]) -> Reply:
    listener.heard.put_nowait(call.header.consumer_group)
    return Reply()


def beat(client: str, group: str = "g", topic: str = "t", **fields: Any) -> bytes:
    info = ConsumerInfo(group=group, subscriptions=(Subscription(topic=topic),))
    return encode_heartbeat(Heartbeat(client_id=client, consumers=(info,), producer_groups=("p",), **fields))


async def ids(harness: Any, group: str = "g") -> tuple[str, ...]:
    answer = await harness.ask(GetConsumerList(consumer_group=group))
    return decode_consumer_list(answer.body) if answer.code == 0 else ()


async def test_members_hear_of_a_client_that_joins_leaves_or_breaks_away(harness: Harness) -> None:
    first, second = Listener(), Listener()
    address = harness.broker.address
    pool1 = harness.connect(handlers=Listener.handlers, service=first)
    pool2 = harness.connect(handlers=Listener.handlers, service=second)
    await pool1.request(address, HeartbeatRequest(), beat("c1"))
    assert await first.heard.get() == "g"
    await pool2.request(address, HeartbeatRequest(), beat("c2"))
    assert await first.heard.get() == "g"
    assert await second.heard.get() == "g"
    assert await ids(harness) == ("c1", "c2")

    await pool1.request(address, UnregisterClient(client_id="c1", consumer_group="g"))
    assert await second.heard.get() == "g"
    assert await ids(harness) == ("c2",)

    await pool1.request(address, HeartbeatRequest(), beat("c1"))
    assert await second.heard.get() == "g"
    pool1.close_address(address)
    assert await second.heard.get() == "g"
    assert await ids(harness) == ("c2",)


async def test_a_heartbeat_makes_the_retry_topic_and_keeps_the_group(serve: Serve) -> None:
    async with serve() as harness:
        response = await harness.answer(HeartbeatRequest(), HeartbeatResponse, beat("c1"))
        assert response == HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=True)
        assert harness.broker.service.tables.topics.get("%RETRY%g").read_queue_count == 1
    async with serve() as harness:
        assert "g" in harness.broker.service.tables.groups.configs.all
        assert await ids(harness) == ()


async def test_a_bare_heartbeat_of_a_stranger_asks_for_its_subscriptions(harness: Harness) -> None:
    bare = beat("c1", fingerprint=5, without_subscriptions=True)
    assert (await harness.answer(HeartbeatRequest(), HeartbeatResponse, bare)).is_sub_change
    await harness.ask(HeartbeatRequest(), beat("c1", fingerprint=5))
    assert not (await harness.answer(HeartbeatRequest(), HeartbeatResponse, bare)).is_sub_change


@each_case(
    (b"", 1),
    (b"{}", 1),
    (b"[1]", 1),
    (encode_heartbeat(Heartbeat(client_id="")), 29),
    (beat("c", group="../g"), 29),
    (beat("c", group="x" * 249), 29),
    (encode_heartbeat(Heartbeat(client_id="c", producer_groups=("a b",))), 29),
)
async def test_a_bad_heartbeat_is_refused_and_changes_nothing(body: bytes, code: int, harness: Harness) -> None:
    assert await harness.code(HeartbeatRequest(), body) == code
    assert not harness.broker.service.clients.members.consumers
    assert not harness.broker.service.clients.members.producers


async def test_where_groups_are_not_made_by_themselves_a_strangers_heartbeat_is_refused(serve: Serve) -> None:
    async with serve(auto_create_subscription_group=False) as harness:
        assert await harness.code(HeartbeatRequest(), beat("c1")) == 26


async def test_administrators_see_who_is_connected(harness: Harness) -> None:
    await harness.ask(HeartbeatRequest(), beat("c1"))
    found = orjson.loads((await harness.ask(GetConsumerConnections(consumer_group="g"))).body)
    assert [client["clientId"] for client in found["connectionSet"]] == ["c1"]
    assert found["subscriptionTable"]["t"]["subString"] == "*"
    found = orjson.loads((await harness.ask(GetProducerConnections(producer_group="p"))).body)
    assert found["connectionSet"][0]["language"] == "PYTHON"
    assert await harness.code(GetConsumerConnections(consumer_group="none")) == 206
    assert await harness.code(GetProducerConnections(producer_group="none")) == 1


def check(kind: str, expression: str = "*") -> bytes:
    document = subscription_document(Subscription(topic="t", expression=expression, expression_type=kind))
    return orjson.dumps({"clientId": "c", "group": "g", "subscriptionData": document})


async def test_without_property_filter_only_tags_pass_the_check(harness: Harness) -> None:
    assert await harness.code(CheckClientConfig(), check("TAG")) == 0
    assert await harness.code(CheckClientConfig()) == 0
    assert await harness.code(CheckClientConfig(), check("SQL92", "a > 5")) == 1


async def test_with_property_filter_an_expression_is_compiled(serve: Serve) -> None:
    async with serve(enable_property_filter=True) as harness:
        assert await harness.code(CheckClientConfig(), check("TAG")) == 0
        assert await harness.code(CheckClientConfig(), check("SQL92", "a > 5")) == 0
        answer = await harness.ask(CheckClientConfig(), check("SQL92", "a > 5 AND"))
        assert (answer.code, answer.remark) == (23, "something is missing at the end (line 1, column 10)")
        assert await harness.code(CheckClientConfig(), check("XPATH", "a")) == 23


async def test_queues_are_locked_for_one_client_at_a_time_and_those_named_twice_once(harness: Harness) -> None:
    queues = (MessageQueue("t", "a", 0), MessageQueue("t", "a", 1))
    twice = encode_queue_lock(QueueLock(group="h", client_id="c", queues=queues[:1] * 2))
    assert decode_locked_queues((await harness.ask(LockQueues(), twice)).body) == queues[:1]

    def lock(client: str) -> bytes:
        return encode_queue_lock(QueueLock(group="g", client_id=client, queues=queues))

    assert set(decode_locked_queues((await harness.ask(LockQueues(), lock("c1"))).body)) == set(queues)
    assert decode_locked_queues((await harness.ask(LockQueues(), lock("c2"))).body) == ()
    assert await harness.code(UnlockQueues(), lock("c1")) == 0
    assert set(decode_locked_queues((await harness.ask(LockQueues(), lock("c2"))).body)) == set(queues)
