"""Sending of rows: many messages under way at once, and a failure when one of them was not stored as promised."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa

from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.errors import SendFailed
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.writing.row_producer import RowProducer


async def send_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, row_id_prefix: str) -> int:
    """Send every row and wait for every acknowledgement; return how many rows there were.

    Args:
        batches: rows with the columns of `messages.COLUMNS`.
        options: how to send.
        row_id_prefix: the row ids are `row_id_prefix/row number`.

    Raises:
        SendFailed: a row was not stored as promised, after every retry.
        InvalidArgument: a row cannot be a message.
    """
    failure = FirstFailure()
    async with RowProducer(options, row_id_prefix, failure.note) as producer:
        for batch in batches:
            await producer.send_rows(batch)
            failure.check()
        await producer.flush()
    failure.check()
    return producer.count


class FirstFailure:
    """The first failure among the messages that were answered so far."""

    def __init__(self) -> None:
        self._failure: SendFailed | None = None

    def note(self, future: asyncio.Future[SendResult]) -> None:
        """Keep what went wrong with one message, if it is the first."""
        if self._failure is not None:
            return
        if future.cancelled():
            self._failure = SendFailed("the producer was closed before an answer came")
        elif (error := future.exception()) is not None:
            self._failure = SendFailed(f"a row was not sent: {error}", [error])
        elif (result := future.result()).status is not SendStatus.SEND_OK:
            self._failure = SendFailed(f"{result.queue.broker_name} answered {result.status} for {result.message_id}")

    def check(self) -> None:
        """Raise the failure."""
        if self._failure is not None:
            raise self._failure
