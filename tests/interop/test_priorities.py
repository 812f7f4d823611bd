"""Priorities, side by side with the broker of RocketMQ 5.5.0: the peers' version, 5.3.3, has none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interop import peers
from orbitmq import Message
from orbitmq.admin.client import AdminClient
from orbitmq.blocking import Producer, SimpleConsumer
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster

pytestmark = pytest.mark.proof

VERSION = "5.5.0"
COUNT = 10_000
GREATER_THAN_QUEUES = (0, 2, 1, 9, 0, 2, 1, 1, 2, 0)
OF_THREE = tuple(number % 3 for number in range(COUNT))
ONE_FILE = {"mappedFileSizeConsumeQueue": 20 * COUNT}
"""Java fills a pop from the next priority where a file of the consume queue ends; of a real broker's size, it holds 300,000."""


@pytest.fixture(autouse=True)
def newer_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Java's servers and clients run from the jars of a newer version."""
    monkeypatch.setenv("ORBITMQ_ROCKETMQ", VERSION)
    monkeypatch.setattr(peers, "_TARGET", Path(peers.__file__).parent / "java" / "target" / VERSION)
    peers.require_java()


async def create(name_servers: str, topic: str) -> None:
    attributes = {"+message.type": "PRIORITY"}
    async with AdminClient(name_servers) as admin:
        await admin.create_topic(
            TopicConfig(topic=topic, read_queue_count=3, write_queue_count=3, attributes=attributes)
        )


def queues_and_order(
    name_servers: str, topic: str, priorities: Sequence[int], batch_size: int
) -> tuple[list[int], list[int]]:
    """Send messages of these priorities; return the queues that they lie in, and the order in which a group pops them."""
    asyncio.run(create(name_servers, topic))
    with Producer(f"{topic}-p", name_servers) as producer:
        sent = [
            producer.send(Message(topic, b"%d" % number, priority=priority))
            for number, priority in enumerate(priorities)
        ]
    order: list[int] = []
    with SimpleConsumer(f"{topic}-group", name_servers) as consumer:
        consumer.subscribe(topic)
        while len(order) < len(priorities):
            for message in consumer.receive(batch_size):
                order.append(int(message.body))
                consumer.ack(message)
    return [result.queue.queue_id for result in sent], order


def of_each_priority(order: Sequence[int], priorities: Sequence[int]) -> dict[int, list[int]]:
    """Return the messages of each priority in the order in which they were popped.

    Java's broker may pass over a queue that its last pop still locks (PopMessageProcessor unlocks it after the answer),
    so only this part of its order is the same each time.
    """
    return {priority: [number for number in order if priorities[number] == priority] for priority in set(priorities)}


@pytest.mark.parametrize(("priorities", "batch_size"), [(GREATER_THAN_QUEUES, 1), (OF_THREE, 32)])
def test_both_brokers_keep_priorities_in_the_same_queues_and_order_and_ours_gives_the_highest_first(
    priorities, batch_size, ours, name, tmp_path
):
    with peers.java_servers(tmp_path, **ONE_FILE) as (name_servers, _):
        javas_queues, javas_order = queues_and_order(name_servers, name, priorities, batch_size)
    queues, order = queues_and_order(ours.name_servers, name, priorities, batch_size)
    assert queues == javas_queues
    assert order == sorted(range(len(priorities)), key=lambda number: -min(priorities[number], 2))
    assert javas_order[0] == order[0]
    assert of_each_priority(javas_order, priorities) == of_each_priority(order, priorities)


def through_the_proxy(name_servers: str, cluster: str, home: Path, client: str) -> dict[str, Any]:
    """Return what an official client of 5.x finds when it sends messages of three priorities and receives them."""
    asyncio.run(create(name_servers, "urgent"))
    proxy = peers.JavaProxy(home, name_servers, cluster=cluster)
    proxy.start()
    try:
        return peers.walk_through(proxy, client, ["priority"])["priority"]
    finally:
        proxy.kill()


@pytest.mark.parametrize("client", ["python", "java"])
def test_official_clients_get_the_highest_priority_first_through_the_proxy(client, tmp_path):
    with peers.java_servers(tmp_path / "java", **ONE_FILE) as (name_servers, broker):
        javas = through_the_proxy(name_servers, broker.cluster, tmp_path / "javas-proxy", client)
    with LocalCluster.running() as cluster:
        ours = through_the_proxy(cluster.name_servers, "DefaultCluster", tmp_path / "our-proxy", client)
    assert ours == {"runs": [[2, 3333], [1, 3333], [0, 3334]], "sorted": True}
    assert javas["sorted"]
    assert javas["runs"][0][0] == 2
