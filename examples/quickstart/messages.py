"""The messages of a run: its topics, the flights that go in, the summary that comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from examples.quickstart.flights import read_flights, to_message
from orbitmq.admin.client import AdminClient
from orbitmq.blocking import PushConsumer
from orbitmq.client.producer import Producer
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.topic import TopicConfig
from orbitmq.spark.jobs.screen import Advance

QUEUE_COUNT = 4
TIMEOUT_MS = 30_000
"""For whatever a cluster is asked: a laptop that starts Spark is slow for some seconds."""
_SHOW_EVERY = 2_000


@dataclass(frozen=True)
class Run:
    """The names of one run: all of them are new, so that runs do not meet."""

    id: str
    out: Path
    name_servers: str

    @property
    def topic(self) -> str:
        """Where the flights go."""
        return f"flights-{self.id}"

    @property
    def summary_topic(self) -> str:
        """Where the summary goes."""
        return f"flights-summary-{self.id}"


async def create_topics(run: Run) -> None:
    """Create the topics of a run."""
    async with AdminClient(run.name_servers, timeout_ms=TIMEOUT_MS) as admin:
        for topic, count in ((run.topic, QUEUE_COUNT), (run.summary_topic, 1)):
            await admin.create_topic(TopicConfig(topic=topic, read_queue_count=count, write_queue_count=count))


async def publish(run: Run, path: Path, months: int, advance: Advance, rows_read: Callable[[], int]) -> int:
    """Send every flight; return how many were acknowledged.

    Args:
        rows_read: says how many of them Spark has read, to be shown meanwhile.
    """
    count = 0
    async with Producer("quickstart", run.name_servers, send_timeout_ms=TIMEOUT_MS) as producer:
        for flight in read_flights(path, months):
            await producer.send_soon(to_message(run.topic, flight))
            count += 1
            if count % _SHOW_EVERY == 0:
                advance("published", count)
                advance("read", await asyncio.to_thread(rows_read))
        await producer.flush()  # raises when any of them was not stored
    advance("published", count)
    return count


def receive_summary(run: Run, count: int) -> list[dict[str, Any]]:
    """Consume the second topic until each of `count` carriers has come, or nothing more comes."""
    found: dict[str, dict[str, Any]] = {}
    consumer = PushConsumer(f"quickstart-{run.id}", run.name_servers, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(run.summary_topic)
    with consumer:
        while len(found) < count and (batch := consumer.next_batch(TIMEOUT_MS)) is not None:
            for message in batch:
                summary = orjson.loads(message.body)
                found[summary["carrier"]] = summary
            batch.commit()
    return sorted(found.values(), key=lambda summary: -summary["flights"])
