"""The fake servers keep the contract that the real ones keep: every test here runs against both."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq.codes import ResponseCode
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.net.dispatch.handlers import Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from orbitmq.wire import headers
from orbitmq.wire.bodies.heartbeat import decode_consumer_list, encode_heartbeat
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.header import decode_header
from orbitmq.wire.messages.batch import encode_batch
from orbitmq.wire.messages.record import iter_records
from orbitmq.wire.messages.stored_messages import to_stored_message
from unit.client.fakes import FakeCluster

pytestmark = pytest.mark.real

client_handlers = Handlers()


@client_handlers.on(headers.NotifyConsumerIdsChanged)
def _changed(told, call):
    told.put_nowait(call.header.consumer_group)
    return Reply()


class Servers:
    """A NameServer and a broker with the topic `orders` of two queues, asked by hand."""

    def __init__(self, name_server, broker):
        self.name_server, self.broker = name_server, broker
        self.told = asyncio.Queue()
        self.pool = ConnectionPool(client_handlers, self.told)

    async def ask(self, header, body=b"", *, timeout_ms=10_000):
        return await self.pool.request(self.broker, header, body, timeout_ms=timeout_ms)

    async def send(self, body, *, tag=None, kind=headers.SendMessageV2, queue_id=0):
        header = kind(
            producer_group="g", topic="orders", default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
            sys_flag=0, born_at_ms=1_000, flag=0, properties=f"TAGS\x01{tag}\x02" if tag else "",
            batch=kind is headers.SendBatch,
        )  # fmt: skip
        answer = await self.ask(header, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return decode_header(headers.SendResponse, answer.ext_fields)

    async def pull(self, queue_offset, *, subscription="*", sys_flag=6, commit_offset=0):
        header = headers.PullMessage(
            consumer_group="g", topic="orders", queue_id=0, queue_offset=queue_offset, count_max=32, sys_flag=sys_flag,
            commit_offset=commit_offset, suspend_timeout_ms=10_000, subscription=subscription, sub_version=1,
            expression_type="TAG",
        )  # fmt: skip
        answer = await self.ask(header)
        found = decode_header(headers.PullResponse, answer.ext_fields)
        bodies = [to_stored_message(record).body for record in iter_records(answer.body)]
        return answer.code, bodies, (found.next_begin_offset, found.min_offset, found.max_offset)

    async def offset(self, header):
        answer = await self.ask(header)
        return decode_header(headers.OffsetResponse, answer.ext_fields).offset if answer.code == 0 else answer.code


@asynccontextmanager
async def fake():
    async with FakeCluster() as cluster:
        cluster.topic("orders", count=2)
        servers = Servers(cluster.name_server.address, cluster.a.address)
        yield servers
        await servers.pool.close()


@asynccontextmanager
async def real():
    async with LocalCluster() as cluster:
        servers = Servers(cluster.name_servers, cluster.brokers["broker-a"])
        topic = headers.CreateTopic(
            topic="orders", default_topic="TBW102", read_queue_nums=2, write_queue_nums=2, perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        answer = await servers.ask(topic)
        assert answer.code == 0, answer.remark
        yield servers
        await servers.pool.close()


@pytest.fixture(params=[fake, real], ids=["fake", "real"])
def opened(request):
    return request.param


async def test_a_route_names_the_broker_whose_messages_are_pulled_in_order(opened):
    async with opened() as servers:
        answer = await servers.pool.request(servers.name_server, headers.GetRouteInfo(topic="orders"))
        route = decode_route(answer.body)
        (queue,), (broker,) = route.queues, route.brokers
        assert (queue.broker_name, queue.read_queue_count, queue.write_queue_count, queue.perm) == ("broker-a", 2, 2, 6)
        assert broker.addresses == {0: servers.broker}
        unknown = await servers.pool.request(servers.name_server, headers.GetRouteInfo(topic="nowhere"))
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST

        assert [(await servers.send(body)).queue_offset for body in (b"1", b"2")] == [0, 1]
        batch = encode_batch([(0, b"3", b""), (0, b"4", b"")])
        sent = await servers.send(batch, kind=headers.SendBatch)
        assert (sent.queue_offset, len(sent.message_id.split(","))) == (2, 2)
        assert await servers.pull(0) == (0, [b"1", b"2", b"3", b"4"], (4, 0, 4))
        assert await servers.pull(3) == (0, [b"4"], (4, 0, 4))
        assert await servers.pull(7) == (ResponseCode.PULL_OFFSET_MOVED, [], (4, 0, 4))

        waiting = asyncio.create_task(servers.pull(4))
        await servers.send(b"other queue", queue_id=1)
        assert not waiting.done()
        await servers.send(b"5")
        assert await waiting == (0, [b"5"], (5, 0, 5))


async def test_a_pull_that_filters_everything_moves_on_immediately(opened):
    async with opened() as servers:
        await servers.send(b"1", tag="A")
        await servers.send(b"2", tag="B")
        assert await servers.pull(0, subscription="B || C") == (0, [b"2"], (2, 0, 2))
        code, bodies, (next_offset, *_) = await servers.pull(0, subscription="C")
        assert (code, bodies, next_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, [], 2)


async def test_offsets_of_queues_and_groups(opened):
    async with opened() as servers:
        place: dict[str, Any] = {"topic": "orders", "queue_id": 0}
        group: dict[str, Any] = {"consumer_group": "g", **place}
        await servers.send(b"1")
        assert await servers.offset(headers.GetMaxOffset(**place)) == 1
        assert await servers.offset(headers.GetMinOffset(**place)) == 0
        assert await servers.offset(headers.SearchOffset(**place, timestamp_ms=2**42)) == 1
        assert await servers.offset(headers.SearchOffset(**place, timestamp_ms=0)) == 0
        assert await servers.offset(headers.QueryConsumerOffset(**group, set_zero_if_not_found=False)) == 22
        assert await servers.offset(headers.QueryConsumerOffset(**group)) == 0
        heartbeat = Heartbeat(client_id="me@1", consumers=(ConsumerInfo(group="g"),))
        assert (await servers.ask(headers.HeartbeatRequest(), encode_heartbeat(heartbeat))).code == 0
        assert (await servers.ask(headers.UpdateConsumerOffset(**group, commit_offset=1))).code == 0
        assert await servers.offset(headers.QueryConsumerOffset(**group)) == 1


async def test_a_pull_may_carry_the_groups_offset(opened):
    async with opened() as servers:
        group = headers.QueryConsumerOffset(consumer_group="g", topic="orders", queue_id=0, set_zero_if_not_found=False)
        for body in (b"1", b"2", b"3"):
            await servers.send(body)
        await servers.pull(2, sys_flag=6, commit_offset=1)
        assert await servers.offset(group) == 22
        await servers.pull(2, sys_flag=7, commit_offset=1)
        assert await servers.offset(group) == 1


async def test_a_group_knows_its_members_and_tells_them_of_changes(opened):
    async with opened() as servers:
        assert (await servers.ask(headers.GetConsumerList(consumer_group="g"))).code == ResponseCode.SYSTEM_ERROR
        heartbeat = Heartbeat(client_id="me@1", consumers=(ConsumerInfo(group="g"),))
        assert (await servers.ask(headers.HeartbeatRequest(), encode_heartbeat(heartbeat))).code == 0
        assert await servers.told.get() == "g"
        answer = await servers.ask(headers.GetConsumerList(consumer_group="g"))
        assert decode_consumer_list(answer.body) == ("me@1",)
        assert (await servers.ask(headers.UnregisterClient(client_id="me@1", consumer_group="g"))).code == 0
        assert (await servers.ask(headers.GetConsumerList(consumer_group="g"))).code == ResponseCode.SYSTEM_ERROR
