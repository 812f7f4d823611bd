"""The writing side of the data source: rows of batches and streams become messages.

A task succeeds when the broker has kept its whole promise for every row; otherwise it fails, and Spark runs it again.
So rows may arrive twice and never get lost. Each message carries a property that is the same in every attempt, by which
a reader recognises repeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from orbitmq.client.producer import Producer
from orbitmq.client.send.request import SendResult, SendStatus
from orbitmq.errors import ConfigError, SendFailed
from orbitmq.net.loop import run
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.rows import Rows, check_columns
from orbitmq.spark.security import read_security

_YIELD_EVERY = 256
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Sent(WriterCommitMessage):  # type: ignore[misc]
    """What one task has sent."""

    count: int


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Sends the rows of a DataFrame; made once in the driver, so that all attempts share its id."""

    def __init__(self, schema: StructType, options: WriteOptions, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("mode", "overwrite", "append: what a topic holds is not replaced")
        check_columns(schema, options)
        self._options = options
        self._id = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one task's rows; returns when every one of them is acknowledged."""
        return run(send_rows(iterator, self._options, f"{self._id}/{TaskContext.get().partitionId()}"))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Sends the rows of micro-batches. A batch that is replayed after a failure carries the same row ids."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_columns(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one task's rows; returns when every one of them is acknowledged."""
        task = TaskContext.get()
        origin = f"{task.getLocalProperty(_QUERY_ID)}/{task.getLocalProperty(_BATCH_ID)}/{task.partitionId()}"
        return run(send_rows(iterator, self._options, origin))


async def send_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, origin: str) -> Sent:
    """Send every row and wait for every acknowledgement.

    Args:
        batches: rows with the columns of `rows.COLUMNS`.
        options: how to send.
        origin: what row ids begin with; the row's number follows.

    Raises:
        SendFailed: a row was not stored as promised, after every retry.
        InvalidArgument: a row cannot be a message.
    """
    rows = Rows(options, origin)
    outcome = _Outcome()
    async with Producer(
        options.group,
        options.name_servers,
        send_timeout_ms=options.send_timeout_ms,
        retries=options.retries,
        soon_count_max=options.send_outstanding,
        **read_security(options.security_file)._asdict(),
    ) as producer:
        for batch in batches:
            for message in rows.messages(batch):
                (await producer.send_soon(message)).add_done_callback(outcome.take)
                if rows.count % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)  # lets requests leave and answers in while rows are made into messages
            outcome.check()
        await producer.flush()
    outcome.check()
    return Sent(rows.count)


class _Outcome:
    """What became of the messages so far: the first one that was not stored as promised."""

    def __init__(self) -> None:
        self._failure: SendFailed | None = None

    def take(self, future: asyncio.Future[SendResult]) -> None:
        """Look at one message's result."""
        if self._failure is not None:
            return
        if future.cancelled():
            self._failure = SendFailed("the producer was closed before an answer came")
        elif (error := future.exception()) is not None:
            self._failure = SendFailed(f"a row was not sent: {error}", [error])
        elif (result := future.result()).status is not SendStatus.SEND_OK:
            self._failure = SendFailed(f"{result.queue.broker_name} answered {result.status} for {result.message_id}")

    def check(self) -> None:
        """Raise what went wrong."""
        if self._failure is not None:
            raise self._failure
