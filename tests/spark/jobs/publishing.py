"""Real messages for the tests of jobs: flights that left New York in January 2013, by carrier."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from examples.quickstart.flights import find_flights, read_flights, to_message
from orbitmq.admin.client import AdminClient
from orbitmq.client.producer import Producer
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.cluster import Cluster


def publish_flights(name_servers: str, topic: str, first: int, end: int | None, months: int = 1) -> int:
    """Send flights, the first of them makes the topic; return how many."""

    async def work() -> int:
        count = 0
        async with AdminClient(name_servers) as admin:
            if not first:
                await admin.create_topic(TopicConfig(topic=topic, read_queue_count=4, write_queue_count=4))
        async with Producer("flights", name_servers) as producer:
            for flight in islice(read_flights(find_flights(None, Path(".cache")), months), first, end):
                await producer.send_soon(to_message(topic, flight))
                count += 1
            await producer.flush()
        return count

    return run(work())


def make_topic(cluster: Cluster, name: str) -> None:
    """Make a topic of two queues."""

    async def work() -> None:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic=name, read_queue_count=2, write_queue_count=2))

    run(work())
