"""Tasks next to their broker, ours or Java's: the rows of the local read path are those of the pull path."""

from __future__ import annotations

import pytest

from interop.peers import java_servers
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark.options import parse_read_options
from orbitmq.spark.reading import readers as source
from orbitmq.spark.reading.range_reader import RangeReader
from orbitmq.spark.reading.readers import BatchReader
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema
from waiting import wait_for

COUNT = 4_000
NAMES = (*COLUMN_NAMES, "physicalOffset")

pytestmark = pytest.mark.spark


def messages():
    """Of two topics that lie between each other in the log; some are compressed."""
    for n in range(COUNT):
        body = b"%d" % n * (n % 50 + 1) if n % 100 else b"long" * 2000
        yield Message("orders", body, tag="abc"[n % 3], keys=[f"k{n}"], properties={"n": str(n)}, flag=n)
        yield Message("bills", b"%d" % n)


@pytest.fixture
def rows(monkeypatch):
    """Return a function that reads as Spark's tasks do: rows, and how many messages were pulled."""
    pulled = []

    class Counting(RangeReader):
        def __init__(self, wanted, *more):
            pulled.append(wanted.count)
            super().__init__(wanted, *more)

    monkeypatch.setattr(source, "RangeReader", Counting)

    def read(name_servers, **options):
        pulled.clear()
        given = {"nameServer": name_servers, "topic": "orders"} | options
        reader = BatchReader(spark_schema(NAMES), parse_read_options(given, streaming=False))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        found = [row for batch in batches for row in batch.to_pylist()]
        return sorted(found, key=lambda row: (row["queueId"], row["queueOffset"])), sum(pulled)

    return read


def compare(rows, name_servers, stores):
    with Producer("spark-tests", name_servers, compress_over=1000) as producer:
        producer.send_all(messages())
    expected, count = rows(name_servers)
    assert len(expected) == count == COUNT

    # Entries of the last messages come into their files a moment later.
    wait_for(lambda: rows(name_servers, localReads=stores)[1] == 0, "all messages in the broker's files")
    assert rows(name_servers, localReads=stores)[0] == expected
    some = rows(name_servers, localReads=stores, subscription="a || c", maxRecordsPerPartition="700")[0]
    assert some == [row for row in expected if row["tags"] != "b"]


def test_our_brokers_files_have_the_rows_of_the_pull_path(rocketmq, rows):
    compare(rows, rocketmq.name_servers, str(rocketmq.data_dir))


@pytest.mark.proof
@pytest.mark.java
def test_a_java_brokers_files_have_the_rows_of_the_pull_path(rows, tmp_path):
    # Segments of 1 MiB: several of them, with fillers, and one that is made ahead.
    with java_servers(tmp_path, mappedFileSizeCommitLog=1 << 20) as (address, _):
        compare(rows, address, str(tmp_path))
