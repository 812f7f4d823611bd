"""The writing side of the data source: rows or Arrow batches, of queries and streams, become messages.

A task succeeds when every one of its messages is acknowledged with SEND_OK; otherwise it fails, and Spark runs it again.
So rows may arrive twice and never get lost. Each message carries a property that is the same in every attempt, by which
a reader recognises repeats. With delivery exactly-once tasks send half messages, and the driver's commit decides about them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import signature
from itertools import islice
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from orbitmq.errors import ConfigError
from orbitmq.net.loop import run
from orbitmq.spark.error_messages import in_sentences
from orbitmq.spark.exactly_once import delivery
from orbitmq.spark.exactly_once.commit_markers import RUN_PREFIX
from orbitmq.spark.exactly_once.prepared import Prepared
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.versions import WRITES_STREAMS_BY_ARROW, DataSourceStreamArrowWriter
from orbitmq.spark.worker import prepare_worker
from orbitmq.spark.writing.messages import check_columns
from orbitmq.spark.writing.row_producer import send_rows

log = logging.getLogger(__name__)

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Sent(WriterCommitMessage):  # type: ignore[misc]
    """What one task has sent."""

    count: int


@in_sentences
class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Sends the rows of a DataFrame. It is made once, in the driver, so that all attempts of a task share its id.

    With delivery exactly-once the id is that of the option runId, the same in every run of the program.
    """

    def __init__(self, schema: StructType, options: WriteOptions, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("mode", "overwrite", "append: what a topic holds is not replaced")
        check_columns(schema, options)
        self._options = options
        self._id = uuid4().hex if options.run_id is None else f"{RUN_PREFIX}{options.run_id}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one task's rows; returns when every one of them is acknowledged."""
        prepare_worker()
        if self._options.exactly_once:
            return delivery.prepare(iterator, self._options, self._id, 0)
        prefix = f"{self._id}/{TaskContext.get().partitionId()}"
        return Sent(run(send_rows(iterator, self._options, prefix)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let consumers get the rows, if that is left to the driver."""
        if any(isinstance(part, Prepared) and part.is_decided for part in messages):
            log.warning("run %s was written before: no rows are sent again", self._options.run_id)
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take back what was sent, if that can be."""
        _abort(messages, self._options)


@in_sentences
class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Sends the rows of micro-batches. A batch that is replayed after a failure carries the same row ids."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_columns(schema, options)
        self._schema = schema
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch] | Iterator[Row]) -> WriterCommitMessage:
        """Send one task's rows; returns when every one of them is acknowledged."""
        prepare_worker()
        batches = iterator if WRITES_STREAMS_BY_ARROW else batches_of(iterator, self._schema)
        task = TaskContext.get()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if self._options.exactly_once:
            return delivery.prepare(batches, self._options, query, int(batch))
        return Sent(run(send_rows(batches, self._options, f"{query}/{batch}/{task.partitionId()}")))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Let consumers get the micro-batch's rows, if that is left to the driver."""
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Take back what was sent, if that can be: the micro-batch runs again."""
        _abort(messages, self._options)


def _commit(messages: Sequence[WriterCommitMessage | None], options: WriteOptions) -> None:
    if options.exactly_once:
        delivery.commit([part for part in messages if isinstance(part, Prepared)], options)


def _abort(messages: Sequence[WriterCommitMessage | None], options: WriteOptions) -> None:
    if options.exactly_once:
        delivery.abort([part for part in messages if isinstance(part, Prepared)], options)


ROWS_PER_BATCH = 1_000


def batches_of(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in batches of a thousand, with the types that Spark itself gives them."""
    arrow = arrow_types(schema)
    while some := list(islice(rows, ROWS_PER_BATCH)):
        columns = zip(*some, strict=True) if arrow.names else ()
        arrays = [pa.array(map(_plain, column), type=field.type) for field, column in zip(arrow, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


def arrow_types(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark itself makes of its own."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def _plain(value: Any) -> Any:
    """Return a value as Arrow takes it: a map as its pairs, a time, which Spark gives as this machine's, with its zone."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone()
    return value
