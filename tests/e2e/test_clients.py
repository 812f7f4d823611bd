"""Our producer and consumers against our own NameServer and brokers: real sockets, real files."""

import asyncio
import zlib

import pytest

from orbitmq import (
    ConsumeFrom,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    RouteNotFound,
    SendFailed,
)
from orbitmq.admin.client import AdminClient
from orbitmq.client.send.sender import Sender
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from waiting import until


def messages(count, topic="orders", start=0, **fields):
    return [Message(topic, str(number).encode(), **fields) for number in range(start, start + count)]


def consumer(cluster, topic="orders", tag="*", *, group="takers", **settings):
    found = PushConsumer(group, cluster.name_servers, **{"consume_from": ConsumeFrom.FIRST, **settings})
    found.subscribe(topic, tag)
    return found


async def take(reader, count):
    """Return the bodies of the next `count` messages, committed."""
    bodies = []
    while len(bodies) < count:
        batch = await reader.next_batch()
        bodies += [message.body for message in batch]
        assert batch.commit()
    return bodies


async def test_what_is_sent_is_consumed_with_all_its_fields():
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            sent = await producer.send(
                Message("orders", b"hello", tag="new", keys=["k1", "k2"], properties={"own": "värde"}, flag=7)
            )
        async with consumer(cluster) as reader:
            (found,) = await reader.next_batch()
    assert (found.body, found.tag, found.keys, found.flag) == (b"hello", "new", ("k1", "k2"), 7)
    assert found.properties["own"] == "värde"
    assert found.message_id == sent.message_id
    assert (found.broker_name, found.queue_id, found.queue_offset) == (*sent.queue[1:], sent.queue_offset)


async def test_large_bodies_travel_compressed_and_arrive_as_they_were():
    body = b"a long story. " * 40_000
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            await producer.send(Message("orders", body))
            await producer.send_soon(Message("orders", body))
        async with consumer(cluster) as reader:
            found = [message for _ in range(2) for message in await _settled(reader)]
    assert [message.body for message in found] == [body] * 2
    assert all(message.store_size < len(zlib.compress(body)) + 1_000 for message in found)


async def _settled(reader):
    batch = await reader.next_batch()
    batch.commit()
    return batch


async def test_batches_and_pipelines_lose_and_double_nothing():
    async with LocalCluster(brokers=2) as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            batched = await producer.send_batch(messages(100))
            soon = [await producer.send_soon(message) for message in messages(900, start=100)]
            await producer.flush()
            places = {(result.queue, result.queue_offset) for result in [*batched, *(f.result() for f in soon)]}
            assert len(places) == 1_000
        async with consumer(cluster) as reader:
            bodies = await take(reader, 1_000)
    assert sorted(map(int, bodies)) == list(range(1_000))


async def test_a_keys_messages_keep_their_order_from_end_to_end():
    async with LocalCluster(brokers=2) as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            await producer.send(Message("orders", b"0", sharding_key="x"))
            await until_settled(producer)
            for message in messages(300, start=1):
                await producer.send_soon(message, key=str(int(message.body) % 3))
        found = {}
        async with consumer(cluster, batch_count_max=7) as reader:
            count = 0
            while count < 301:
                batch = await reader.next_batch()
                for message in batch:
                    found.setdefault(int(message.body) % 3, []).append(int(message.body))
                count += len(batch)
                batch.commit()
    for numbers in found.values():
        rest = [number for number in numbers if number]
        assert rest == sorted(rest)


async def until_settled(producer):
    """Wait until the topic's true route is known: before that, a key may still change its queue."""
    await until(lambda: "orders" in producer._session.routes.known.routes, pause_s=0.005)


async def test_tags_are_filtered():
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            for number, tag in enumerate(["A", "B", "C", "A", None, "Aa", "BB"]):
                await producer.send(Message("orders", str(number).encode(), tag=tag))
        async with consumer(cluster, tag="A || C", group="g1") as reader:
            assert sorted(await take(reader, 3)) == [b"0", b"2", b"3"]
        async with consumer(cluster, tag="BB", group="g2") as reader:
            assert await take(reader, 1) == [b"6"]


async def test_a_consumer_that_waits_gets_what_is_sent_then():
    async with LocalCluster(brokers=2) as cluster:
        async with Producer("makers", cluster.name_servers) as producer, consumer(cluster) as reader:
            await producer.send(Message("orders", b"0"))
            assert await take(reader, 1) == [b"0"]
            for message in messages(20, start=1):
                await producer.send(message)
                assert await take(reader, 1) == [message.body]


async def test_two_consumers_share_the_queues_and_one_takes_over():
    async with LocalCluster(brokers=2) as cluster:
        async with AdminClient(cluster.name_servers) as admin:  # a topic made by sends may come to one broker alone
            await admin.create_topic(TopicConfig(topic="orders", read_queue_count=4, write_queue_count=4))
        async with Producer("makers", cluster.name_servers) as producer:
            for message in messages(8):
                await producer.send(message)
            async with consumer(cluster) as first:
                await take(first, 8)
                await until(lambda: len(first.assignment) == 8, pause_s=0.005)
                await first.commit_offsets()  # what is stored late comes again at the second
                all_queues = first.assignment
                async with consumer(cluster) as second:
                    await until(
                        lambda: (
                            first.assignment | second.assignment == all_queues
                            and not first.assignment & second.assignment
                            and abs(len(first.assignment) - len(second.assignment)) <= 1
                        )
                    )
                    await producer.send_batch(messages(10, start=100), queue=min(first.assignment))
                    await producer.send_batch(messages(10, start=200), queue=min(second.assignment))
                    mine, others = await asyncio.gather(take(first, 10), take(second, 10))
                    assert sorted(map(int, mine)) == list(range(100, 110))
                    assert sorted(map(int, others)) == list(range(200, 210))
                await until(lambda: first.assignment == all_queues, pause_s=0.005)


async def test_offsets_are_resumed_after_a_restart_of_consumer_and_broker():
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            await producer.send_batch(messages(20))
        async with consumer(cluster, batch_count_max=5) as reader:
            taken = await take(reader, 10)
        await cluster.restart_broker()
        async with consumer(cluster, batch_count_max=5) as reader:
            taken += await take(reader, 10)
        async with PullConsumer("takers", cluster.name_servers) as reader:
            committed = [await reader.committed(queue) for queue in await reader.queues("orders")]
    assert sorted(map(int, taken)) == list(range(20))
    assert sum(filter(None, committed)) == 20


async def test_broadcasting_consumers_get_everything_each(tmp_path):
    settings = {"message_model": MessageModel.BROADCASTING, "offset_dir": tmp_path}
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            await asyncio.gather(*map(producer.send, messages(20)))
        for instance in ("x", "y"):
            async with consumer(cluster, instance=instance, **settings) as reader:
                assert sorted(map(int, await take(reader, 20))) == list(range(20))
        async with Producer("makers", cluster.name_servers) as producer:
            await producer.send(Message("orders", b"20"))
        async with consumer(cluster, instance="x", **settings) as reader:
            assert await take(reader, 1) == [b"20"]


async def test_a_broker_restart_under_running_clients_loses_nothing():
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer, consumer(cluster) as reader:
            confirmed = []
            await producer.send(Message("orders", b"first"))
            for round_ in range(3):
                sending = asyncio.gather(*map(producer.send, messages(20, start=100 * round_)), return_exceptions=True)
                await cluster.restart_broker()
                for message, result in zip(messages(20, start=100 * round_), await sending, strict=True):
                    assert not isinstance(result, BaseException) or isinstance(result, SendFailed)
                    confirmed += [message.body] if not isinstance(result, BaseException) else []
                confirmed.append(f"{100 * round_ + 99}".encode())
                await producer.send(Message("orders", confirmed[-1]))
            found = set()
            while not found >= set(confirmed):
                found.update(await take(reader, 1))


async def test_name_server_restarts_under_running_clients_go_unnoticed():
    async with LocalCluster(name_servers=2) as cluster:
        async with Producer("makers", cluster.name_servers) as producer, consumer(cluster) as reader:
            for number, index in enumerate((0, 1, 0)):
                await producer.send(Message("orders", str(number).encode()))
                await cluster.restart_name_server(index)
            assert sorted(await take(reader, 3)) == [b"0", b"1", b"2"]


async def test_with_all_name_servers_down_known_topics_go_on():
    async with LocalCluster(brokers=2) as cluster:
        async with Producer("makers", cluster.name_servers) as producer, consumer(cluster) as reader:
            await producer.send(Message("orders", b"0"))
            assert await take(reader, 1) == [b"0"]
            # A topic that a broker does not have yet cannot be found while there is no server to ask.
            for broker in cluster.brokers:
                await producer.send(Message("orders", b"-1"), queue=MessageQueue("orders", broker, 0))
            assert await take(reader, 2) == [b"-1", b"-1"]
            await cluster.stop_name_server()
            await asyncio.gather(*map(producer.send, messages(50, start=1)))
            assert sorted(map(int, await take(reader, 50))) == list(range(1, 51))
            await cluster.start_name_server()
            await producer.send(Message("orders", b"51"))
            assert await take(reader, 1) == [b"51"]


async def test_one_of_two_brokers_may_stop_while_sending():
    async with LocalCluster(brokers=2, settings={"default_topic_queue_nums": 4}) as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            await asyncio.gather(*map(producer.send, messages(16)))
            await cluster.stop_broker("broker-b")
            sent = [await producer.send(message) for message in messages(20, start=16)]
            assert {result.queue.broker_name for result in sent} == {"broker-a"}


async def test_queues_are_read_from_where_one_likes():
    async with LocalCluster() as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            sent = await producer.send_batch(messages(10))
        async with PullConsumer("auditors", cluster.name_servers) as reader:
            queue = sent[0].queue
            assert queue in await reader.queues("orders")
            assert (await reader.offsets([queue]))[queue] == (0, 10)
            reader.assign([queue])
            reader.seek(queue, 7)
            assert [message.body for message in await reader.poll(10_000)] == [b"7", b"8", b"9"]
            assert await reader.seek_to_begin(queue) == 0
            stored_at_ms = (await reader.poll(10_000))[0].stored_at_ms
            assert await reader.seek_to_timestamp(queue, stored_at_ms) == 0
            assert await reader.seek_to_timestamp(queue, stored_at_ms + 3_600_000) == 10
            await reader.commit({queue: 4})
            assert await reader.committed(queue) == 4


async def test_without_automatic_topics_an_unknown_topic_is_an_error_that_helps():
    async with LocalCluster(settings={"auto_create_topic_enable": False}) as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            with pytest.raises(RouteNotFound, match="orbitmq topic create orders"):
                await producer.send(Message("orders", b"x"))


async def test_sync_flush_answers_once_the_message_is_safe():
    async with LocalCluster(settings={"flush_disk_type": "SYNC_FLUSH"}) as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            sent = await asyncio.gather(*map(producer.send, messages(50)))
    assert {result.status for result in sent} == {"SEND_OK"}


async def test_a_waiting_send_goes_when_its_broker_is_back(monkeypatch):
    pauses = []
    pause = Sender._pause

    async def note(self, broker_name, pause_s):
        pauses.append(pause_s)
        await pause(self, broker_name, pause_s)

    monkeypatch.setattr(Sender, "_pause", note)
    async with (
        LocalCluster(processes=True) as cluster,
        Producer("waiting", cluster.name_servers, send_timeout_ms=600_000) as producer,
    ):
        await producer.send(Message("orders", b"before"))
        await cluster.kill_broker()
        sending = asyncio.create_task(producer.send(Message("orders", b"meanwhile")))
        await until(lambda: len(pauses) >= 3)
        await cluster.start_broker()
        before = len(pauses)
        await sending
    assert len(pauses) - before <= 1, "the pause that had begun, or one more, and it has gone"
    assert max(pauses) <= 1
