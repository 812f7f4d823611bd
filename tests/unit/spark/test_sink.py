"""A task of the sink sends its rows under ids that are the same in every attempt."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from orbitmq.errors import ConfigError
from orbitmq.spark import sink
from orbitmq.spark.exactly_once.prepared import Prepared
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.sink import BatchWriter, Sent, StreamWriter

SCHEMA = StructType([StructField("body", BinaryType())])
NO_BODY = StructType([StructField("flag", IntegerType())])


class Task:
    """The context of Spark's third task in the fifth micro-batch of a query."""

    @classmethod
    def get(cls):
        return cls()

    def partitionId(self) -> int:  # noqa: N802
        return 3

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return {"streaming.sql.batchId": "5", "sql.streaming.queryId": "some-query"}[name]


@pytest.fixture
def options(fake, monkeypatch):
    monkeypatch.setattr(sink, "TaskContext", Task)
    monkeypatch.setattr(sink, "WRITES_STREAMS_BY_ARROW", True)
    fake.fill("orders", 0, 0)
    return WriteOptions(name_servers=(fake.address,), topic="orders")


def batches():
    return iter([pa.RecordBatch.from_pydict({"body": [b"a", b"b"]}), pa.RecordBatch.from_pydict({"body": [b"c"]})])


def row_ids(fake):
    return [properties["SPARK_ROW_ID"] for _, _, properties in fake.sent]


def test_a_task_of_a_batch_sends_every_row_and_says_how_many(fake, options):
    sent = BatchWriter(SCHEMA, options, False).write(batches())

    assert sent == Sent(3)
    assert [body for _, body, _ in fake.sent] == [b"a", b"b", b"c"]


def test_a_stream_whose_spark_hands_over_rows_sends_them_under_the_same_ids(fake, options, monkeypatch):
    StreamWriter(SCHEMA, options).write(batches())
    monkeypatch.setattr(sink, "WRITES_STREAMS_BY_ARROW", False)
    StreamWriter(SCHEMA, options).write(iter([Row(b"a"), Row(b"b"), Row(b"c")]))

    assert [body for _, body, _ in fake.sent] == [b"a", b"b", b"c"] * 2
    assert row_ids(fake)[:3] == row_ids(fake)[3:]


def test_rows_that_spark_hands_over_keep_their_queue(fake, options, monkeypatch):
    fake.fill("orders", 1, 0)
    queue = StructType([StructField("brokerName", StringType()), StructField("queueId", IntegerType())])
    monkeypatch.setattr(sink, "WRITES_STREAMS_BY_ARROW", False)
    rows = [Row(b"a", Row(brokerName="fake", queueId=1)), Row(b"b", None), Row(b"c", Row(brokerName="fake", queueId=1))]
    StreamWriter(StructType([*SCHEMA.fields, StructField("queue", queue)]), options).write(iter(rows))

    to = {body: queue_id for queue_id, (_, body, _) in zip(fake.sent_queue_ids, fake.sent, strict=True)}
    assert (to[b"a"], to[b"c"]) == (1, 1)


def test_attempts_of_a_batch_share_its_ids_and_batches_do_not(fake, options):
    writer = BatchWriter(SCHEMA, options, False)
    for _ in range(2):
        pickle.loads(pickle.dumps(writer)).write(batches())
    BatchWriter(SCHEMA, options, False).write(batches())

    first, again, other = (row_ids(fake)[at : at + 3] for at in (0, 3, 6))
    assert first == again
    assert not set(first) & set(other)
    assert [found.split("/")[1:] for found in first] == [["3", "0"], ["3", "1"], ["3", "2"]]


def test_rows_of_a_stream_are_known_by_query_batch_partition_and_row(fake, options):
    sent = StreamWriter(SCHEMA, options).write(batches())

    assert sent == Sent(3)
    assert row_ids(fake) == [f"some-query/5/3/{row}" for row in range(3)]


def test_a_topic_is_not_overwritten(options):
    with pytest.raises(ConfigError, match="append"):
        BatchWriter(SCHEMA, options, True)


@pytest.mark.parametrize(
    "make", [lambda options: BatchWriter(NO_BODY, options, False), lambda options: StreamWriter(NO_BODY, options)]
)
def test_columns_that_make_no_message_are_refused_before_anything_is_sent(options, make):
    with pytest.raises(ConfigError, match="body"):
        make(options)


@pytest.mark.parametrize(
    ("make", "named"),
    [(lambda options: BatchWriter(SCHEMA, options, False), 0), (lambda options: StreamWriter(SCHEMA, options), 5)],
    ids=["batch", "stream"],
)
def test_exactly_once_leaves_the_decision_to_the_driver(options, monkeypatch, make, named):
    seen = []

    def prepare(rows, options, query, batch):
        seen.append((query, batch))
        return Prepared(query, batch, "attempt", 0)

    monkeypatch.setattr(sink.delivery, "prepare", prepare)
    monkeypatch.setattr(sink.delivery, "commit", lambda parts, options: seen.append(("commit", parts)))
    monkeypatch.setattr(sink.delivery, "abort", lambda parts, options: seen.append(("abort", parts)))
    writer = make(replace(options, exactly_once=True, run_id="r"))
    part = writer.write(batches())
    extra = () if isinstance(writer, BatchWriter) else (named,)
    writer.commit([part, None], *extra)
    writer.abort([part, None], *extra)

    (_, batch), *ends = seen
    assert batch == named
    assert ends == [("commit", [part]), ("abort", [part])]


def test_at_least_once_has_nothing_to_commit(fake, options):
    writer = StreamWriter(SCHEMA, options)
    writer.commit([Sent(3)], 0)
    writer.abort([None], 0)

    assert fake.sent == []
