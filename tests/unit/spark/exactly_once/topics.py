"""Topics of an exactly-once write: made, filled with numbers, and read by a consumer that drops nothing."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from orbitmq.admin.client import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.exactly_once.marker_topic import read_options
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.range_reader import RangeReader


def create(name_servers: str, topic: str, queues: int) -> None:
    async def work() -> None:
        async with AdminClient(name_servers) as admin:
            config = TopicConfig(topic=topic, read_queue_count=queues, write_queue_count=queues, perm=6)
            await admin.create_topic(config)

    run(work())


def rows(first: int, last: int):
    """Return the batches of rows of one task: numbers as bodies."""
    yield pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(first, last)]})


def stored(options: WriteOptions, topic: str | None = None) -> Counter[int]:
    """Return how often each number is in the topic, as a consumer finds it that does not look at anything else."""
    found: Counter[int] = Counter()
    reading = read_options(options, topic or options.topic)
    with MetadataClient.of(reading) as client:
        queues = client.queues([topic or options.topic])
        ends = client.latest(queues)
    for queue, address in queues.items():
        for batch in RangeReader(Range(queue, 0, ends[queue]), address, reading, ("body",)).batches():
            found.update(int(body) for body in batch.column(0).to_pylist())
    return found


def come(options: WriteOptions) -> int:
    """Return how many messages the topic has, as far as its brokers tell."""
    with MetadataClient.of(read_options(options, options.topic)) as client:
        return sum(client.latest(client.queues([options.topic])).values())
