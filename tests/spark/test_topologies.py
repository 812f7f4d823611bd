"""Clusters that change under a stream of Spark's: brokers join and leave, NameServers are others. Needs no Spark.

The driver's questions and the tasks' reading are called as Spark calls them, so that every step of it can be told apart.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from orbitmq import Message
from orbitmq.admin.client import AdminClient
from orbitmq.blocking import Producer
from orbitmq.model.topic import TopicConfig
from orbitmq.spark.options import parse_read_options
from orbitmq.spark.reading import offset_poller
from orbitmq.spark.reading.readers import BatchReader, StreamReader
from orbitmq.spark.schema import spark_schema
from orbitmq.spark.versions import ReadAllAvailable
from orbitmq.testing import BlockingCluster, LocalCluster

TOPIC = "orders"
COLUMNS = ("brokerName", "body")
Row = dict[str, object]


class Query:
    """What Spark does with a stream's reader: batch after batch, with the position of its checkpoint."""

    def __init__(self, name_servers: str, position: dict | None = None, **options: str) -> None:
        given = {
            "nameServer": name_servers,
            "topic": TOPIC,
            "startingOffsets": "earliest",
            "offsetPollMs": "10",
        } | options
        self._options = parse_read_options(given, streaming=True)
        self._reader = StreamReader(spark_schema(COLUMNS), self._options)
        self.position = position or self._reader.initialOffset()

    def batch(self) -> list[Row]:
        """Return the rows of the next micro-batch, none where there is nothing to read."""
        end = self._reader.latestOffset(self.position, ReadAllAvailable())
        # Spark's tasks get a reader that was never asked anything.
        fresh = StreamReader(spark_schema(COLUMNS), self._options)
        found = rows_of(fresh, self._reader.partitions(self.position, end)) if end != self.position else []
        self.position = end
        return found

    def rows(self, count: int) -> list[Row]:
        """Return so many rows or more, of as many batches as it takes."""
        found: list[Row] = []
        give_up_at = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < give_up_at, f"{len(found)} of {count} rows"
            found += self.batch()
        return found

    def stop(self) -> None:
        self._reader.stop()


def rows_of(reader, partitions) -> list[Row]:
    return [
        row
        for partition in pickle.loads(pickle.dumps(partitions))
        for batch in pickle.loads(pickle.dumps(reader)).read(partition)
        for row in batch.to_pylist()
    ]


@pytest.fixture
def query() -> Iterator[Callable[..., Query]]:
    made: list[Query] = []

    def make(*arguments, **options) -> Query:
        made.append(Query(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def two() -> Iterator[BlockingCluster]:
    with LocalCluster.running(brokers=2, name_servers=2) as cluster:
        yield cluster


def make_topic(cluster: BlockingCluster, broker: str | None = None) -> None:
    async def make() -> None:
        async with AdminClient(cluster.name_servers, timeout_ms=30_000) as admin:
            for name in [broker] if broker else sorted(cluster.brokers):
                await admin.create_topic(TopicConfig(topic=TOPIC, read_queue_count=2, write_queue_count=2), broker=name)

    asyncio.run(make())


def send(cluster: BlockingCluster, numbers: range) -> None:
    with Producer("makers", cluster.name_servers, send_timeout_ms=30_000) as producer:
        for number in numbers:
            producer.send(Message(TOPIC, b"%d" % number))


def bodies(rows: list[Row]) -> Counter[int]:
    return Counter(int(cast("bytes", row["body"])) for row in rows)


def test_a_broker_that_joins_a_running_topic_is_read_from_its_first_message(two, query, monkeypatch):
    monkeypatch.setattr(offset_poller, "ROUTE_POLL_S", 0)
    make_topic(two, "broker-a")
    send(two, range(10))
    stream = query(two.name_servers, startingOffsets="latest")
    make_topic(two, "broker-b")
    send(two, range(10, 50))

    found = stream.rows(40)
    assert bodies(found) == Counter(range(10, 50))
    assert {row["brokerName"] for row in found} == {"broker-a", "broker-b"}


def test_a_broker_that_leaves_and_comes_back_loses_and_repeats_nothing(two, query):
    make_topic(two)
    send(two, range(40))
    stream = query(two.name_servers)
    found = stream.rows(40)
    send(two, range(40, 80))
    two.stop_broker("broker-b")
    while "broker-a" not in {row["brokerName"] for row in found[40:]}:
        found += stream.batch()
    assert {row["brokerName"] for row in found[40:]} == {"broker-a"}
    two.start_broker("broker-b")

    found += stream.rows(80 - len(found))
    assert bodies(found) == Counter(range(80))


def test_a_checkpoint_goes_on_at_another_name_server(two, query):
    first, second = two.name_servers.split(";")
    make_topic(two)
    send(two, range(20))
    stream = query(first)
    found = stream.rows(20)
    send(two, range(20, 50))
    two.stop_name_server(0)

    again = query(second, stream.position)
    assert bodies(found + again.rows(30)) == Counter(range(50))


def test_two_attempts_at_one_task_read_the_same(two, query):
    make_topic(two)
    send(two, range(40))
    options = parse_read_options({"nameServer": two.name_servers, "topic": TOPIC}, streaming=False)
    reader = BatchReader(spark_schema(COLUMNS), options)
    partitions = reader.partitions()
    # A speculative copy of a task runs next to the first one, and either may be the one that counts.
    for partition in partitions:
        first, second = reader.read(partition), pickle.loads(pickle.dumps(reader)).read(partition)
        assert [next(first).to_pylist(), *[b.to_pylist() for b in first]] == [b.to_pylist() for b in second]
