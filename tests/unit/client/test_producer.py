import asyncio
from contextlib import nullcontext

import pytest

from cases import each_case
from orbitmq.client.producer import Producer
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import (
    ClientError,
    ConnectionFailed,
    InvalidArgument,
    NoNameServer,
    RemoteRefused,
    RequestTimeout,
    SendFailed,
)
from orbitmq.model.message import BODY_SIZE_MAX, Message
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import HeartbeatRequest, SendBatch, SendMessageV2
from waiting import until


def producer(cluster, **settings):
    return Producer("makers", cluster.name_servers, **settings)


def messages(count, topic="orders", **fields):
    return [Message(topic, str(number).encode(), **fields) for number in range(count)]


async def test_a_message_arrives_and_its_place_is_told(cluster):
    cluster.topic("orders", count=1)
    async with producer(cluster) as sender:
        sent = await sender.send(Message("orders", b"hello", keys=["42"], tag="new"))
        again = await sender.send(Message("orders", b"again"))
    assert cluster.a.bodies("orders") == [b"hello", b"again"]
    assert (sent.queue, sent.queue_offset, sent.status) == (MessageQueue("orders", "broker-a", 0), 0, "SEND_OK")
    assert again.queue_offset == 1
    assert len(sent.message_id) == 32
    assert sent.message_id != again.message_id
    assert sent.offset_message_id.startswith("7F000001")


async def test_messages_go_to_all_queues_in_turn(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    async with producer(cluster) as sender:
        sent = [await sender.send(message) for message in messages(8)]
    assert sorted(result.queue for result in sent) == sorted([result.queue for result in sent[:4]] * 2)
    assert len({result.queue for result in sent}) == 4


async def test_a_key_always_goes_to_the_same_queue(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=4)
    async with producer(cluster) as sender:
        by_argument = {(await sender.send(message, key="42")).queue for message in messages(5)}
        by_message = {(await sender.send(message)).queue for message in messages(5, sharding_key="42")}
        others = {(await sender.send(message, key=message.body.decode())).queue for message in messages(20)}
    assert len(by_argument) == 1
    assert by_message == by_argument
    assert len(others) > 1


async def test_a_named_queue_needs_no_route_asked_before(cluster):
    cluster.topic("orders", count=4)
    async with producer(cluster) as sender:
        queue = MessageQueue("orders", "broker-a", 3)
        assert (await sender.send(Message("orders", b"x"), queue=queue)).queue == queue


async def test_a_broker_that_stands_still_costs_no_send_and_no_other_brokers_reputation(cluster):
    """Of 100 sends at the same time about half went to it; their second attempts had no time left, and the other broker the blame."""
    cluster.topic("orders", cluster.a, cluster.b, count=4)
    cluster.b.silent.add(SendMessageV2)
    async with producer(cluster, send_timeout_ms=1_000) as sender:
        for _ in range(3):
            sent = await asyncio.gather(*(sender.send(message) for message in messages(100)))
            assert {result.queue.broker_name for result in sent} == {"broker-a"}


async def test_the_time_out_covers_all_attempts(cluster):
    cluster.topic("orders")
    cluster.a.silent.add(SendMessageV2)
    async with producer(cluster) as sender:
        with pytest.raises(SendFailed, match="may be stored all the same") as caught:
            await sender.send(Message("orders", b"x"), timeout_ms=500)
    assert [type(cause) for cause in caught.value.causes] == [RequestTimeout]
    assert cluster.a.address in str(caught.value)


async def test_when_all_attempts_fail_each_cause_is_told(cluster):
    cluster.topic("orders")
    await cluster.a.stop()
    async with producer(cluster, retries=1, send_timeout_ms=500) as sender:
        with pytest.raises(SendFailed) as caught:
            await sender.send(Message("orders", b"x"))
    assert len(caught.value.causes) >= 2
    assert {type(cause) for cause in caught.value.causes} == {ConnectionFailed}
    for part in (cluster.a.address, "broker-a", cluster.name_server.address, "brokerIP1"):
        assert part in str(caught.value)


async def test_a_new_topic_is_made_from_the_template_and_its_true_route_found(cluster):
    cluster.topic("TBW102", count=8)
    async with producer(cluster) as sender:
        assert len(await sender.queues("orders")) == 4
        await until(lambda: cluster.name_server.asked.count("orders") >= 2)
        await sender.send(Message("orders", b"x"))
        cluster.topic("orders", cluster.a, count=2)
        while len(await sender.queues("orders")) != 2:
            await asyncio.sleep(0)


async def test_a_route_once_known_outlives_the_name_server(cluster):
    cluster.topic("orders")
    async with producer(cluster) as sender:
        await sender.send(Message("orders", b"x"))
        await cluster.name_server.stop()
        await sender.send(Message("orders", b"y"))
    assert sorted(cluster.a.bodies("orders")) == [b"x", b"y"]


async def test_name_servers_may_be_changed_at_run_time(cluster):
    cluster.topic("orders")
    sender = Producer("makers", "127.0.0.1:1")
    async with sender:
        with pytest.raises(NoNameServer):
            await sender.send(Message("orders", b"x"))
        sender.use_name_servers(cluster.name_servers)
        await sender.send(Message("orders", b"x"))


async def test_a_batch_arrives_in_order_in_one_queue(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=4)
    async with producer(cluster) as sender:
        sent = await sender.send_batch(messages(5))
    assert len({result.queue for result in sent}) == 1
    assert [result.queue_offset for result in sent] == [0, 1, 2, 3, 4]
    assert cluster.a.bodies("orders") + cluster.b.bodies("orders") == [b"0", b"1", b"2", b"3", b"4"]
    assert len({result.offset_message_id for result in sent}) == 5


async def test_a_long_batch_travels_in_several_requests_to_the_same_queue(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=4)
    async with producer(cluster, batch_size_max=1024) as sender:
        sent = await sender.send_batch([Message("orders", bytes(300)) for _ in range(10)])
    assert [result.queue_offset for result in sent] == list(range(10))
    assert len({result.queue for result in sent}) == 1
    requests = cluster.a.requests + cluster.b.requests
    assert len([request for request in requests if isinstance(request, SendBatch)]) > 2


async def test_what_is_sent_soon_arrives_in_batches_and_over_all_queues(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    async with producer(cluster) as sender:
        futures = [await sender.send_soon(message) for message in messages(100)]
        await sender.flush()
        sent = [future.result() for future in futures]
    assert sorted(cluster.a.bodies("orders") + cluster.b.bodies("orders")) == sorted(m.body for m in messages(100))
    assert {len(queue) for broker in (cluster.a, cluster.b) for queue in broker.queues.values()} == {25}
    assert len({(result.queue, result.queue_offset) for result in sent}) == 100
    requests = [request for request in cluster.a.requests + cluster.b.requests if isinstance(request, SendBatch)]
    assert 0 < len(requests) < 50


async def test_what_is_sent_soon_with_a_key_keeps_its_order(cluster):
    cluster.topic("orders", count=4)
    async with producer(cluster) as sender:
        for message in messages(200):
            await sender.send_soon(message, key="42")
            if len(message.body) == 1:
                await asyncio.sleep(0)
    assert [int(body) for body in cluster.a.bodies("orders")] == list(range(200))


async def test_large_and_delayed_messages_travel_alone_but_in_turn(cluster):
    cluster.topic("orders", count=1)
    mixed = [Message("orders", b"1"), Message("orders", bytes(5_000)), Message("orders", b"3", delay_level=1)]
    async with producer(cluster) as sender:
        for message in [*mixed, Message("orders", b"4"), Message("orders", b"5")]:
            await sender.send_soon(message)
    kinds = [type(r) for r in cluster.a.requests if isinstance(r, SendMessageV2)]
    assert kinds == [SendMessageV2, SendMessageV2, SendMessageV2, SendBatch]
    assert [len(body) < 10 for body in cluster.a.bodies("orders")] == [True, False, True, True, True]


async def test_who_sends_too_much_too_soon_waits(cluster):
    cluster.topic("orders", count=1)
    cluster.a.silent = {SendMessageV2, SendBatch}
    async with producer(cluster, soon_count_max=10, send_timeout_ms=300, retries=0) as sender:
        for message in messages(10):
            await sender.send_soon(message)
        blocked = asyncio.create_task(sender.send_soon(Message("orders", b"one more")))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not blocked.done()
        cluster.a.silent.clear()
        await blocked
        with pytest.raises(SendFailed, match="were not sent"):
            await sender.flush()


async def test_one_of_256_one_way_messages_is_answered_so_that_a_slow_broker_slows_its_senders(cluster):
    cluster.topic("orders", count=1)
    async with producer(cluster) as sender:
        for message in messages(257):
            await sender.send_oneway(message)
        await until(lambda: len(cluster.a.bodies("orders")) == 257)
    sends = [command for command in cluster.a.commands if command.code == RequestCode.SEND_MESSAGE_V2]
    assert [number for number, command in enumerate(sends, 1) if not command.is_oneway] == [256]


async def test_flush_tells_what_failed_and_forgets_it(cluster):
    cluster.topic("orders", count=1)
    cluster.a.refusals[SendBatch] = [ResponseCode.MESSAGE_ILLEGAL]
    async with producer(cluster) as sender:
        futures = [await sender.send_soon(message) for message in messages(3)]
        with pytest.raises(SendFailed, match="3 messages given to send_soon") as caught:
            await sender.flush()
        assert [type(cause) for cause in caught.value.causes] == [RemoteRefused]
        assert [type(future.exception()) for future in futures] == [RemoteRefused] * 3
        await sender.flush()


async def test_closing_waits_for_what_was_sent_soon(cluster):
    cluster.topic("orders")
    async with producer(cluster) as sender:
        await sender.send_soon(Message("orders", b"x"))
    assert cluster.a.bodies("orders") == [b"x"]
    await sender.close()


async def test_what_was_sent_soon_and_failed_is_told_at_the_end(cluster):
    cluster.topic("orders")
    cluster.a.refusals[SendMessageV2] = [ResponseCode.MESSAGE_ILLEGAL]
    with pytest.raises(SendFailed, match="1 messages given to send_soon"):
        async with producer(cluster) as sender:
            await sender.send_soon(Message("orders", b"x"))


async def test_a_broker_learns_of_the_group_and_of_its_end(cluster):
    cluster.topic("orders")
    async with producer(cluster) as sender:
        await sender.send(Message("orders", b"x"))
        await until(lambda: cluster.a.heartbeats)
    heartbeat = cluster.a.heartbeats[0]
    assert heartbeat.producer_groups == ("makers",)
    assert heartbeat.client_id.startswith("127.0.0.1@")
    (farewell,) = cluster.a.unregistered
    assert (farewell.client_id, farewell.producer_group) == (heartbeat.client_id, "makers")


async def test_heartbeats_go_on(cluster):
    cluster.topic("orders")
    async with producer(cluster, heartbeat_interval_ms=1) as sender:
        await sender.send(Message("orders", b"x"))
        await until(lambda: len([1 for request in cluster.a.requests if isinstance(request, HeartbeatRequest)]) >= 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda sender, message: sender.send(message),
        lambda sender, message: sender.send_batch([message]),
        lambda sender, message: sender.send_soon(message),
        lambda sender, message: sender.send_oneway(message),
        lambda sender, message: sender.queues("orders"),
    ],
)
async def test_a_producer_that_is_not_open_says_what_to_do(cluster, use):
    cluster.topic("orders")
    sender = producer(cluster)
    with pytest.raises(ClientError, match="async with"):
        await use(sender, Message("orders", b"x"))
    await sender.close()


async def test_many_sends_together_share_everything(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with producer(cluster) as sender:
        sent = await asyncio.gather(*map(sender.send, messages(300)))
    assert len({(result.queue, result.queue_offset) for result in sent}) == 300
    assert cluster.name_server.asked.count("orders") <= 2  # the first send, and the first poll


@pytest.mark.parametrize(("settings", "attempts"), [({}, 3), ({"retries": 0}, 1), ({"retries": 1}, 2)])
async def test_a_send_has_two_retries_unless_asked_otherwise(cluster, settings, attempts):
    cluster.topic("orders")
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_ERROR] * 9
    async with producer(cluster, **settings) as sender:
        with pytest.raises(SendFailed) as caught:
            await sender.send(Message("orders", b"x"))
    assert [type(cause) for cause in caught.value.causes] == [RemoteRefused] * attempts


@pytest.mark.parametrize(("size", "is_compressed"), [(4_096, False), (4_097, True)])
async def test_bodies_of_more_than_four_kib_are_compressed(cluster, size, is_compressed):
    cluster.topic("orders", count=1)
    async with producer(cluster) as sender:
        await sender.send(Message("orders", bytes(size)))
    assert [len(body) < size for body in cluster.a.bodies("orders")] == [is_compressed]


@pytest.mark.parametrize(("settings", "is_avoided"), [({}, True), ({"avoid_slow_brokers": False}, False)])
async def test_a_broker_that_failed_is_avoided_unless_asked_otherwise(cluster, settings, is_avoided):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY] * 99
    async with producer(cluster, **settings) as sender:
        for message in messages(6):
            await sender.send(message)
    tried = len([request for request in cluster.a.requests if isinstance(request, SendMessageV2)])
    assert (tried == 1) is is_avoided


@each_case((1_023, False), (1_024, True), (BODY_SIZE_MAX, True), (BODY_SIZE_MAX + 1, False))
def test_a_batch_has_a_kib_at_least_and_a_message_at_most(size, is_legal):
    with nullcontext() if is_legal else pytest.raises(InvalidArgument, match="batch_size_max"):
        Producer("g", "a:1", batch_size_max=size)


async def test_what_is_no_message_is_refused_at_every_door(cluster):
    async with producer(cluster) as sender:
        for send in (sender.send, sender.send_soon, sender.send_oneway, sender.request):
            with pytest.raises(InvalidArgument, match="a Message, not str"):
                await send("x")
        with pytest.raises(InvalidArgument, match="a Message, not str"):
            await sender.send_batch(["x"])
