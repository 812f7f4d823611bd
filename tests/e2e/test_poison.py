"""Messages that always fail, on our own broker: every good one is consumed once, each key's in order, the bad ones are kept."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from children import environment
from orbitmq import (
    Batch,
    ConsumeFrom,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    StoredMessage,
    blocking,
)
from orbitmq.admin.client import AdminClient
from orbitmq.admin.dead_letter_client import DeadLetters
from orbitmq.admin.dead_letters import DeadLetter
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from orbitmq.testing.blocking_cluster import BlockingCluster
from waiting import until

ROOT = Path(__file__).parents[2]
COUNT, ONE_BAD_IN, KEYS, QUEUES = 600, 40, 7, 3
BAD = set(range(0, COUNT, ONE_BAD_IN))
GOOD = set(range(COUNT)) - BAD


class Handled:
    """What a group's handlers were given, and how often: those of a bad message fail each time."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.by_key: defaultdict[str | None, list[int]] = defaultdict(list)

    def take(self, message: StoredMessage) -> None:
        number = int(message.body)
        self.counts[number] += 1
        self.by_key[message.sharding_key].append(number)
        if number in BAD:
            raise ValueError(number)

    async def message(self, message: StoredMessage) -> None:
        for _ in range(10 - int(message.body) % 10):  # no other takes as long as the next one
            await asyncio.sleep(0)
        self.take(message)

    async def batch(self, batch: Batch) -> None:
        for message in batch:
            try:
                self.take(message)
            except ValueError:
                batch.reject(message)
            else:
                batch.ack(message)

    def is_all(self) -> bool:
        return set(self.counts) == GOOD | BAD


async def fill(cluster: LocalCluster | BlockingCluster) -> None:
    async with AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=QUEUES, write_queue_count=QUEUES))
    async with Producer("makers", cluster.name_servers) as producer:
        for number in range(COUNT):
            await producer.send_soon(
                Message("orders", b"%d" % number, sharding_key=str(number % KEYS)), key=str(number % KEYS)
            )


async def check(cluster: LocalCluster | BlockingCluster, group: str) -> None:
    """All of a topic is settled for a group, and its bad messages lie with the dead letters, each of them once."""
    async with DeadLetters(cluster.name_servers) as dead_letters:
        letters = [int(letter.message.body) async for letter in dead_letters.read(group)]
    assert sorted(letters) == sorted(BAD)
    async with (
        PullConsumer("readers", cluster.name_servers) as reader,
        PullConsumer(group, cluster.name_servers) as member,
    ):
        for queue in await reader.queues("orders"):
            await member.queues("orders")
            assert await member.committed(queue) == await reader.end_offset(queue)


# One attempt: the first delivery is the last one, and no test has to wait ten seconds for the second.
@pytest.mark.parametrize(
    ("how", "settings"),
    [
        ("message", {}),
        ("message", {"ordered": True}),
        ("message", {"ordered": True, "key": lambda message: message.sharding_key}),
        ("batch", {}),
    ],
    ids=["messages", "messages-ordered", "keys-ordered", "batches"],
)
async def test_one_bad_message_in_forty_costs_no_good_one(how, settings):
    handled = Handled()
    handler = {"message_handler" if how == "message" else "handler": getattr(handled, how)}
    async with LocalCluster() as cluster:
        await fill(cluster)
        consumer = PushConsumer(
            "takers",
            cluster.name_servers,
            consume_from=ConsumeFrom.FIRST,
            retry_delay_ms=1,
            max_attempts=1,
            **handler,
            **settings,
        )
        consumer.subscribe("orders")
        async with consumer:
            await until(handled.is_all, 0.001)
        await check(cluster, "takers")
    assert set(handled.counts.values()) == {1}
    assert all(numbers == sorted(numbers) for numbers in handled.by_key.values())


def test_without_a_loop_it_costs_none_either():
    handled = Handled()
    with LocalCluster.running() as cluster:
        asyncio.run(fill(cluster))
        consumer = blocking.PushConsumer(
            "takers",
            cluster.name_servers,
            consume_from=ConsumeFrom.FIRST,
            max_attempts=1,
            message_handler=handled.take,
            concurrency=4,
        )
        consumer.subscribe("orders")
        with consumer:
            asyncio.run(until(handled.is_all, 0.001))
        asyncio.run(check(cluster, "takers"))
    assert set(handled.counts.values()) == {1}
    assert all(numbers == sorted(numbers) for numbers in handled.by_key.values())


def test_the_benchmark_of_failing_messages_runs():
    # In a process of its own: it chooses its core, and where its log goes.
    words = ["-m", "benchmarks.poison", "--json", "--messages", "200", "--runs", "1", "--case", "keys"]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ratio"] > 0


async def letters_of(cluster: LocalCluster, group: str) -> dict[bytes, DeadLetter]:
    async with DeadLetters(cluster.name_servers) as dead_letters:
        return {letter.message.body: letter async for letter in dead_letters.read(group)}


@pytest.mark.parametrize("ordered", [False, True])
async def test_what_a_simple_consumer_never_acknowledges_is_a_dead_letter_after_its_attempts(ordered: bool) -> None:
    async with LocalCluster() as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
        async with Producer("makers", cluster.name_servers) as producer:
            sent = [await producer.send(Message("orders", body)) for body in (b"bad", b"rejected", b"good")]
        counts: Counter[bytes] = Counter()
        async with SimpleConsumer("takers", cluster.name_servers, max_attempts=3, ordered=ordered) as consumer:
            consumer.subscribe("orders")
            while (counts[b"bad"], counts[b"good"]) != (3, 1):
                for message in await consumer.receive(1, timeout_ms=1_000):
                    counts[message.body] += 1
                    if message.body == b"good":
                        await consumer.ack(message)
                    elif message.body == b"rejected":
                        await consumer.reject(message)
                    else:
                        await consumer.change_invisible_time(message, 0)
            letters: dict[bytes, DeadLetter] = {}
            while len(letters) < 2:  # the next time that it comes, no consumer gets it
                assert await consumer.receive(timeout_ms=200) == []
                letters |= await letters_of(cluster, "takers")
        assert counts == {b"bad": 3, b"rejected": 1, b"good": 1}
        assert {body: letter.origin_topic for body, letter in letters.items()} == {
            b"bad": "orders",
            b"rejected": "orders",
        }
        assert {letter.message.message_id for letter in letters.values()} == {one.message_id for one in sent[:2]}
