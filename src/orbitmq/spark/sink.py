"""The writing side of the data source: rows of batches and streams become messages.

A task succeeds when the broker has kept its whole promise for every row; otherwise it fails, and Spark runs it again.
So rows may arrive twice and never get lost. Each message carries a property that is the same in every attempt, by which
a reader recognises repeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from orbitmq.client.producer import Producer
from orbitmq.client.sending import SendResult, SendStatus
from orbitmq.errors import ConfigError, SendFailed
from orbitmq.model.message import Message
from orbitmq.net.loop import run
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.rows import Rows, check_columns

BATCH_COUNT_MAX = 128
BATCH_SIZE_MAX = 256 * 1024
"""Messages and bytes that travel in one request, where no order or delay asks for one each."""

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
    async with Producer(
        options.group,
        options.name_servers,
        send_timeout_ms=options.send_timeout_ms,
        retries=options.retries,
    ) as producer:
        sender = _Sender(producer, options.send_outstanding)
        for batch in batches:
            for message in rows.messages(batch):
                await sender.add(message)
        await sender.finish()
    return Sent(rows.count)


class _Sender:
    """Keeps several requests under way; messages of one sharding key follow one another."""

    def __init__(self, producer: Producer, outstanding_max: int) -> None:
        self._producer = producer
        self._outstanding_max = outstanding_max
        self._under_way: set[asyncio.Task[None]] = set()
        self._last_of_key: dict[str, asyncio.Task[None]] = {}
        self._together: dict[str, list[Message]] = {}
        self._sizes: dict[str, int] = {}

    async def add(self, message: Message) -> None:
        """Send a message, alone or with others of its topic; waits while too much is under way."""
        if message.sharding_key is not None:
            previous = self._last_of_key.get(message.sharding_key)
            task = await self._start(self._send_after(previous, message))
            self._last_of_key[message.sharding_key] = task
        elif message.delay_level:
            await self._start(self._send_after(None, message))
        else:
            await self._add_together(message)

    async def finish(self) -> None:
        """Send what is left and wait for everything."""
        for topic in tuple(self._together):
            await self._send_together(topic)
        await self._wait_until(0)

    async def _add_together(self, message: Message) -> None:
        batch = self._together.setdefault(message.topic, [])
        size = self._sizes.get(message.topic, 0) + len(message.body)
        if batch and size > BATCH_SIZE_MAX:
            await self._send_together(message.topic)
            batch, size = self._together.setdefault(message.topic, []), len(message.body)
        batch.append(message)
        self._sizes[message.topic] = size
        if len(batch) >= BATCH_COUNT_MAX:
            await self._send_together(message.topic)

    async def _send_together(self, topic: str) -> None:
        batch = self._together.pop(topic)
        self._sizes.pop(topic)
        await self._start(self._send_batch(batch))

    async def _send_batch(self, batch: list[Message]) -> None:
        if len(batch) == 1:
            await self._send_after(None, batch[0])
            return
        for result in await self._producer.send_batch(batch):
            _check(result)

    async def _send_after(self, previous: asyncio.Task[None] | None, message: Message) -> None:
        if previous is not None:
            await asyncio.wait([previous])
            if previous.exception() is not None:
                raise SendFailed(f"not sent: an earlier message of sharding key {message.sharding_key} failed")
        _check(await self._producer.send(message, key=message.sharding_key))

    async def _start(self, sending: Any) -> asyncio.Task[None]:
        await self._wait_until(self._outstanding_max - 1)
        task: asyncio.Task[None] = asyncio.ensure_future(sending)
        self._under_way.add(task)
        return task

    async def _wait_until(self, count: int) -> None:
        """Wait until at most `count` requests are under way; raises what the first failed one raised."""
        while len(self._under_way) > count:
            done, self._under_way = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()


def _check(result: SendResult) -> None:
    if result.status is not SendStatus.SEND_OK:
        raise SendFailed(f"message {result.message_id}: {result.queue.broker_name} answered {result.status}")
