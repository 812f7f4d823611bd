"""Consumers of a group while one of two brokers restarts: no message comes twice, and no queue stays without a reader."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack

import pytest

from orbitmq import Message, Producer, PushConsumer, StoredMessage
from orbitmq.admin import AdminClient
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from waiting import until


@pytest.mark.parametrize(
    ("members", "rounds", "processes"),
    [(2, 1, False), pytest.param(4, 20, True, marks=pytest.mark.proof)],
    ids=["short", "twenty restarts"],
)
async def test_no_message_comes_twice_when_a_broker_restarts(members: int, rounds: int, processes: bool) -> None:
    seen: Counter[bytes] = Counter()
    sent: list[bytes] = []

    async def note(message: StoredMessage) -> None:
        seen[message.body] += 1

    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(brokers=2, processes=processes))
        admin = await stack.enter_async_context(AdminClient(cluster.name_servers))
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=4, write_queue_count=4))
        queues = sorted(MessageQueue("orders", f"broker-{name}", number) for name in "ab" for number in range(4))
        consumers = []
        for number in range(members):
            consumer = PushConsumer("g", cluster.name_servers, message_handler=note, instance=f"m{number}")
            consumer.subscribe("orders")
            consumers.append(await stack.enter_async_context(consumer))
        producer = await stack.enter_async_context(Producer("p", cluster.name_servers))

        async def send(count: int) -> None:
            for _ in range(count):
                sent.append(b"%d" % len(sent))
                await producer.send(Message("orders", sent[-1]))

        await until(
            lambda: (
                sorted(queue for consumer in consumers for queue in consumer.assignment) == queues
                and {len(consumer.assignment) for consumer in consumers} == {8 // members}
            )
        )
        for number in range(rounds):
            name = ("broker-b", "broker-a")[number % 2]
            await send(50)
            await cluster.stop_broker(name)
            await send(50)
            await cluster.start_broker(name)
            await send(100)
            await until(lambda: len(seen) == len(sent))
        assert {body: count for body, count in seen.items() if count > 1} == {}
