"""The SimpleConsumer against brokers of ours."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from orbitmq import ConsumeFrom, Message, Producer, SimpleConsumer
from orbitmq.admin.client import AdminClient
from orbitmq.client.consume.popped_messages import handle_of
from orbitmq.errors import ClientError, InvalidArgument, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from orbitmq.wire.headers import PopMessage
from orbitmq.wire.messages.record import iter_records
from orbitmq.wire.messages.stored_messages import to_stored_message
from orbitmq.wire.messages.traces import ConsumeReturnType, ConsumptionBegun, ConsumptionEnded, decode_traces
from orbitmq.wire.pop.handles import format_handle
from waiting import until

pytestmark = pytest.mark.real


async def create(cluster, topic="orders", queues=1):
    async with AdminClient(cluster.name_servers) as admin:
        config = TopicConfig(topic=topic, read_queue_count=queues, write_queue_count=queues)
        await admin.create_topic(config, cluster="DefaultCluster")


def service_of(cluster, name="broker-a"):
    """What a broker in this process knows."""
    return cluster._broker(name)._service.service


def consumer(cluster, **settings):
    return SimpleConsumer("billing", cluster.name_servers, **settings)


@asynccontextmanager
async def harness(brokers=1, *, settings=None, **of_consumer):
    """Yield a cluster with the topic orders, a producer and a consumer."""
    async with LocalCluster(brokers=brokers, settings=settings) as cluster:
        await create(cluster)
        async with Producer("p", cluster.name_servers) as producer, consumer(cluster, **of_consumer) as reader:
            yield cluster, producer, reader


async def test_messages_are_received_acknowledged_and_kept():
    async with harness() as (cluster, producer, reader):
        reader.subscribe("orders")
        await producer.send_batch([Message("orders", b"%d" % number) for number in range(4)])
        one = (await reader.receive(1))[0]
        await reader.ack(one)
        rest = await reader.receive()
        assert [message.body for message in (one, *rest)] == [b"0", b"1", b"2", b"3"]
        kept = await reader.change_invisible_time(rest[0], 600_000)
        assert kept.properties["POP_CK"] != rest[0].properties["POP_CK"]
        with pytest.raises(RemoteRefused) as refused:
            await reader.change_invisible_time(rest[0], 1)
        assert refused.value.code == 208
        await reader.ack([kept, *rest[1:]])
        assert await reader.receive(timeout_ms=1) == []
        assert service_of(cluster).delivery.pop.revive_log.checkpoints.count == 0


async def test_what_is_given_back_comes_again():
    async with harness() as (_cluster, producer, reader):
        reader.subscribe("orders", tag="new")
        await producer.send(Message("orders", b"old", tag="old"))
        await producer.send(Message("orders", b"new", tag="new"))
        (message,) = await reader.receive()
        await reader.change_invisible_time(message, 0)
        (again,) = await reader.receive(timeout_ms=60_000)
        assert (again.body, again.reconsume_times, again.topic) == (b"new", 1, "orders")
        await reader.ack(again)


async def test_a_waiter_gets_the_first_message_of_any_broker():
    async with harness(brokers=2) as (cluster, producer, reader):
        reader.subscribe("orders")
        helds = [service_of(cluster, name).delivery.pop.notices.held for name in ("broker-a", "broker-b")]
        found = set()
        for _ in range(4):
            receiving = asyncio.ensure_future(reader.receive(timeout_ms=60_000))
            await until(lambda: any(held.count for held in helds))
            await producer.send(Message("orders", b"x"))
            (message,) = await receiving
            found.add(message.broker_name)
            await reader.ack(message)
        assert found == {"broker-a", "broker-b"}


async def test_one_broker_that_is_away_keeps_no_message_of_the_other():
    async with harness(brokers=2) as (cluster, producer, reader):
        reader.subscribe("orders")
        await reader.receive(timeout_ms=1)
        await cluster.stop_broker("broker-b")
        await producer.send(Message("orders", b"x"))
        found = await reader.receive(timeout_ms=60_000)
        assert [message.body for message in found] == [b"x"]
        await cluster.stop_broker("broker-a")
        with pytest.raises(ClientError):
            await reader.receive(timeout_ms=1)


async def test_a_receive_goes_on_when_its_broker_is_back():
    async with harness() as (cluster, producer, reader):
        reader.subscribe("orders")
        await producer.send(Message("orders", b"before"))
        (before,) = await reader.receive()
        await reader.ack(before)
        await cluster.stop_broker()
        receiving = asyncio.ensure_future(reader.receive(timeout_ms=600_000))
        await until(lambda: "broker-a" in reader._popper._absent or receiving.done(), 0.001)
        await cluster.start_broker()
        await producer.send(Message("orders", b"x"))
        assert [message.body for message in await receiving] == [b"x"]


async def test_no_request_waits_for_a_silent_broker_until_it_answers(monkeypatch):
    async with harness(brokers=2) as (_cluster, producer, reader):
        call, thawed, pops = reader._session.call, asyncio.Event(), []

        async def freezing(broker_name, header, *args, **settings):
            if broker_name == "broker-b" and not thawed.is_set():
                if isinstance(header, PopMessage):
                    pops.append(header)
                    raise RequestTimeout("no answer")
                await thawed.wait()
            return await call(broker_name, header, *args, **settings)

        monkeypatch.setattr(reader._session, "call", freezing)
        reader.subscribe("orders")
        await reader.receive(timeout_ms=1)
        for number in range(6):
            await producer.send(Message("orders", b"%d" % number), queue=MessageQueue("orders", "broker-a", 0))
            (message,) = await reader.receive(timeout_ms=600_000)
            await reader.ack(message)
        assert len(pops) == 1
        assert await reader.receive(timeout_ms=1) == []
        receiving = asyncio.ensure_future(reader.receive(timeout_ms=600_000))
        await producer.send(Message("orders", b"late"), queue=MessageQueue("orders", "broker-b", 0))
        thawed.set()
        assert [message.body for message in await receiving] == [b"late"]


async def test_an_unknown_topic_keeps_no_message_of_the_others(caplog):
    async with harness() as (cluster, producer, reader):
        reader.subscribe("nowhere")
        reader.subscribe("orders")
        await producer.send(Message("orders", b"x"))
        (message,) = await reader.receive(timeout_ms=600_000)
        assert message.body == b"x"
        assert "topic nowhere has no route" in caplog.text
        reader._targets._asks_again_s = 0
        await create(cluster, "nowhere")
        await producer.send(Message("nowhere", b"y"))
        assert [one.body for one in await reader.receive(timeout_ms=600_000)] == [b"y"]


async def test_a_receiver_gets_to_know_that_the_consumer_was_closed():
    async with LocalCluster() as cluster:
        await create(cluster)
        async with consumer(cluster) as reader:
            reader.subscribe("orders")
            receiving = asyncio.ensure_future(reader.receive(timeout_ms=600_000))
            await until(lambda: service_of(cluster).delivery.pop.waiting.held.count, 0.001)
        with pytest.raises(ClientError, match="SimpleConsumer is not open"):
            await receiving


async def test_routes_of_what_it_subscribes_to_are_kept_up_to_date():
    async with LocalCluster() as cluster, consumer(cluster) as reader:
        watched = reader._session.routes.is_watched
        reader.subscribe("orders")
        assert watched("orders")
        reader.unsubscribe("orders")
        assert not watched("orders")


async def test_a_new_group_may_begin_at_the_end():
    async with LocalCluster() as cluster, consumer(cluster, consume_from=ConsumeFrom.LAST) as reader:
        assert reader._popper._init_mode == 1
    with pytest.raises(InvalidArgument, match=r"expected one of ConsumeFrom\.FIRST, ConsumeFrom\.LAST$"):
        SimpleConsumer("g", "127.0.0.1:9876", consume_from=ConsumeFrom.TIMESTAMP)


async def test_wrong_arguments_are_named():
    async with LocalCluster() as cluster, consumer(cluster) as reader:
        with pytest.raises(InvalidArgument, match="at least one"):
            await reader.receive()
        reader.subscribe("nowhere")
        with pytest.raises(InvalidArgument, match="1 to 32"):
            await reader.receive(33)
        for name in ("count_max", "timeout_ms", "invisible_ms"):
            with pytest.raises(InvalidArgument, match=f"^{name}: 'x' "):
                await reader.receive(**{name: "x"})
        with pytest.raises(InvalidArgument, match="invisible_ms"):
            await reader.receive(invisible_ms=-1)
        for none in (5, "x", [None]):
            with pytest.raises(InvalidArgument, match=r"a message that receive\(\) returned"):
                await reader.ack(none)
        with pytest.raises(InvalidArgument, match=r"a message that receive\(\) returned"):
            await reader.change_invisible_time("x", 1)
        with pytest.raises(RouteNotFound):
            await reader.receive()
        reader.unsubscribe("nowhere")
        with pytest.raises(InvalidArgument, match="at least one"):
            await reader.receive()
    with pytest.raises(ClientError, match="not open"):
        await reader.receive()
    with pytest.raises(InvalidArgument, match="invisible_ms"):
        SimpleConsumer("g", "127.0.0.1:9876", invisible_ms=-1)


async def test_a_tag_whose_hash_clashes_matches_nothing():
    async with harness() as (cluster, producer, reader):
        reader.subscribe("orders", tag="Aa")
        await producer.send(Message("orders", b"clash", tag="BB"))
        await producer.send(Message("orders", b"wanted", tag="Aa"))
        found = await reader.receive()
        assert [message.body for message in found] == [b"wanted"]
        assert service_of(cluster).delivery.pop.revive_log.checkpoints.message_count == 1


async def test_a_refusal_is_told():
    async with harness(settings={"pop_checkpoints_max": 1}) as (_cluster, producer, reader):
        reader.subscribe("orders")
        await producer.send_batch([Message("orders", b"0"), Message("orders", b"1")])
        await reader.receive(1)
        with pytest.raises(RemoteRefused, match="popCheckpointsMax"):
            await reader.receive(1)


async def test_in_order_no_consumer_gets_more_of_a_queue_until_all_before_is_acknowledged():
    async with LocalCluster() as cluster:
        await create(cluster)
        async with (
            Producer("p", cluster.name_servers) as producer,
            consumer(cluster, ordered=True) as reader,
            consumer(cluster, ordered=True) as other,
        ):
            for one in (reader, other):
                one.subscribe("orders")
            await producer.send_batch([Message("orders", b"%d" % number) for number in range(4)])
            first, second = await reader.receive(2)
            assert await other.receive(timeout_ms=1) == []
            await reader.ack(first)
            await reader.change_invisible_time(second, 0)
            again, third = await other.receive(2, timeout_ms=60_000)
            assert [(message.body, message.reconsume_times) for message in (again, third)] == [(b"1", 1), (b"2", 0)]
            waiting = asyncio.ensure_future(reader.receive(timeout_ms=60_000))
            await until(lambda: service_of(cluster).delivery.pop.waiting.held.count)
            await other.ack([again, third])
            assert [message.body for message in await waiting] == [b"3"]


async def test_in_order_a_receive_that_got_no_answer_asks_for_the_same_messages_again():
    async with harness(ordered=True) as (cluster, producer, reader):
        reader.subscribe("orders")
        waiting = asyncio.ensure_future(reader.receive(timeout_ms=60_000))
        await until(lambda: service_of(cluster).delivery.pop.waiting.held.count)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await producer.send(Message("orders", b"given to nobody"))
        await until(lambda: service_of(cluster).delivery.pop.ordered.count)
        found = await reader.receive(timeout_ms=60_000)
        assert [(message.body, message.reconsume_times) for message in found] == [(b"given to nobody", 0)]


async def test_in_order_receives_at_the_same_time_do_not_get_one_anothers_messages():
    async with harness(ordered=True) as (cluster, producer, reader):
        reader.subscribe("orders")
        receiving = [asyncio.ensure_future(reader.receive(1, timeout_ms=60_000)) for _ in range(2)]
        await until(lambda: service_of(cluster).delivery.pop.waiting.held.count == 2)
        await producer.send_batch([Message("orders", b"0"), Message("orders", b"1")])
        bodies = []
        for _ in range(2):
            done, _ = await asyncio.wait(receiving, return_when=asyncio.FIRST_COMPLETED)
            (task,) = done
            receiving.remove(task)
            (message,) = task.result()
            bodies.append(message.body)
            await reader.ack(message)
        assert bodies == [b"0", b"1"]


async def test_what_another_consumer_received_may_be_acknowledged():
    async with harness() as (cluster, producer, reader):
        reader.subscribe("orders")
        await producer.send_batch([Message("orders", b"%d" % number) for number in range(2)])
        first, second = await reader.receive()
        async with consumer(cluster) as other:
            await other.ack(first)
        async with consumer(cluster) as other:
            kept = await other.change_invisible_time(second, 600_000)
            await other.ack(kept)
        assert service_of(cluster).delivery.pop.revive_log.checkpoints.count == 0


async def test_a_message_of_a_broker_that_is_gone_keeps_no_other_from_being_acknowledged():
    async with harness() as (cluster, producer, reader):
        reader.subscribe("orders")
        await producer.send_batch([Message("orders", b"%d" % number) for number in range(3)])
        first, lost, last = await reader.receive()
        handle = handle_of(lost)._replace(broker_name="gone")
        gone = replace(lost, topic="nowhere", properties={**lost.properties, "POP_CK": format_handle(handle)})
        with pytest.raises(RouteNotFound, match="gone"):
            await reader.ack([first, gone, last])
        (left,) = service_of(cluster).delivery.pop.revive_log.checkpoints._by_key.values()
        assert left.offsets_left == [lost.queue_offset]


TRACING = {"trace": True, "trace_topic": "traces"}


def told(cluster):
    """Traces in the order in which they were told."""
    store = service_of(cluster).store
    records = iter_records(store.read("traces", 0, 0).body)
    bodies = [to_stored_message(record, "broker-a").body for record in records]
    return [trace for body in bodies for trace in decode_traces(body)]


async def test_a_trace_begins_with_a_receive_and_ends_with_what_is_said_of_the_message():
    async with LocalCluster() as cluster:
        await create(cluster)
        await create(cluster, "traces")
        async with Producer("p", cluster.name_servers) as producer, consumer(cluster, **TRACING) as reader:
            reader.subscribe("orders")
            sent = await producer.send_batch([Message("orders", body) for body in (b"done", b"back", b"open")])
            done, back, _ = await reader.receive()
            await reader.change_invisible_time(await reader.change_invisible_time(back, 600_000), 0)
            await reader.ack(done)
        begun = [trace for trace in told(cluster) if isinstance(trace, ConsumptionBegun)]
        ended = {trace.message_id: trace.outcome for trace in told(cluster) if isinstance(trace, ConsumptionEnded)}
        assert [trace.message_id for trace in begun] == [one.message_id for one in sent]
        assert ended == {done.message_id: ConsumeReturnType.SUCCESS, back.message_id: ConsumeReturnType.FAILED}


async def test_a_consumer_that_is_closed_takes_no_subscriptions():
    async with LocalCluster() as cluster:
        reader = consumer(cluster)
        reader.subscribe("before")
        async with reader:
            reader.subscribe("orders")
        with pytest.raises(ClientError, match="SimpleConsumer is closed, for good"):
            reader.subscribe("others")
