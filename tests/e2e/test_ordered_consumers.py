"""Consumers that keep order, on our own servers: killed in the middle of their work, each key's messages stay in order."""

from __future__ import annotations

import asyncio
import sys

from children import environment
from orbitmq import ConsumeFrom, Message, Producer, PushConsumer
from orbitmq.admin.client import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from waiting import until

KEYS = 6
QUEUES = 3

CHILD = """
import asyncio, sys
from orbitmq import ConsumeFrom, PushConsumer

async def work():
    async def handle(message):
        print(message.sharding_key, message.body.decode(), flush=True)
        await asyncio.sleep(0.001)

    consumer = PushConsumer(
        "takers", sys.argv[1], consume_from=ConsumeFrom.FIRST, ordered=True, message_handler=handle,
        key=lambda message: message.sharding_key,
    )
    consumer.subscribe("orders")
    async with consumer:
        await consumer.run()

asyncio.run(work())
"""


class Child:
    """A consumer in a process of its own, and what it was given: (key, number) each."""

    def __init__(self, process):
        self.received = []
        self._process = process
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, name_server):
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, name_server, stdout=asyncio.subprocess.PIPE, env=environment()
            )
        )

    async def _read(self):
        async for line in self._process.stdout:
            if line.endswith(b"\n"):
                key, number = line.split()
                self.received.append((key.decode(), int(number)))

    async def kill(self):
        self._process.kill()
        await self._process.wait()
        await self._reading


async def test_each_keys_first_deliveries_stay_in_order_when_a_consumer_is_killed():
    received = []  # what the consumer that stays was given
    sent = dict.fromkeys([f"key-{number}" for number in range(KEYS)], 0)
    # The locks of the killed are not given back: they run out.
    async with LocalCluster(settings={"rebalance_lock_max_live_time": 1_000}) as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="orders", read_queue_count=QUEUES, write_queue_count=QUEUES))

        async def handle(message):
            received.append((message.sharding_key, int(message.body)))

        async def send(producer):
            while True:
                for key in sent:
                    await producer.send_soon(Message("orders", b"%d" % sent[key], sharding_key=key))
                    sent[key] += 1
                await asyncio.sleep(0.002)

        staying = PushConsumer(
            "takers", cluster.name_servers, consume_from=ConsumeFrom.FIRST, ordered=True, message_handler=handle
        )
        staying.subscribe("orders")
        async with Producer("makers", cluster.name_servers) as producer:
            sending = asyncio.create_task(send(producer))
            child = await Child.start(cluster.name_servers)
            await until(lambda: {key for key, _ in child.received} == set(sent))
            async with staying:
                await until(lambda: received and len(staying.assignment) < QUEUES)
                before = len(child.received)
                await until(lambda: len(child.received) > before + 50)
                await child.kill()
                await until(lambda: len(staying.assignment) == QUEUES)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                await producer.flush()
                await until(lambda: {*child.received, *received} >= _all(sent))
    for key in sent:
        # The killed one was first wherever both had a message: its queues went over when it was dead, or had let go.
        numbers = [number for own, number in (*child.received, *received) if own == key]
        of_child = [number for own, number in child.received if own == key]
        assert of_child == sorted(of_child)
        of_staying = [number for own, number in received if own == key]
        assert of_staying == sorted(of_staying), "its own are in order and none came twice"
        assert set(numbers) == set(range(sent[key]))
        repeated = set(of_child) & set(of_staying)
        assert max(of_child, default=0) <= min(set(of_staying) - repeated, default=sent[key])


def _all(sent):
    return {(key, number) for key, count in sent.items() for number in range(count)}
