"""A producer of rows: plain ones travel in batches that are encoded together; a write fails when one was not stored.

Both wait in the same queues' buffers, so that rows of one sharding key keep their order whichever way they go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.client.producer import Producer
from orbitmq.client.send.batch import EncodedBatch
from orbitmq.client.send.queue_selector import Target, choose_by_key
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.clock import now_ms
from orbitmq.errors import InvalidArgument, SendFailed
from orbitmq.model.route import MessageQueue
from orbitmq.spark.gather import Flags, Positions
from orbitmq.spark.options import WriteOptions
from orbitmq.spark.security import read_security
from orbitmq.spark.writing.messages import MessageBuilder, of_row
from orbitmq.spark.writing.row_encoder import RowEncoder, cut, plain_rows, sharding_keys

PART_COUNT = 10_000
"""Rows that are encoded together; Spark's Arrow batches have as many, unless it is told otherwise."""
TOGETHER_COUNT_MIN = 32
"""Fewer plain rows in succession are made into messages one by one: that is less work, and spreads them over the queues."""
RUN_COUNT_MAX = 1_000
RUN_SIZE_MAX = 1024 * 1024
"""Rows and bytes of one request."""
_YIELD_EVERY = 256

Note = Callable[[asyncio.Future[SendResult]], None]


class RowProducer(Producer):
    """Sends the rows of one task.

    Args:
        options: how to send.
        row_id_prefix: the row ids are `row_id_prefix/row number`.
        note: is called with each request's answer.
    """

    def __init__(self, options: WriteOptions, row_id_prefix: str, note: Note) -> None:
        super().__init__(
            options.group,
            options.name_servers,
            send_timeout_ms=options.send_timeout_ms,
            retries=options.retries,
            soon_count_max=options.send_outstanding,
            **read_security(options.security_file)._asdict(),
        )
        self._options = options
        self._row_id_prefix = row_id_prefix
        self._note = note
        self._builder = MessageBuilder(options, row_id_prefix)

    @property
    def count(self) -> int:
        """Rows that are on their way."""
        return self._builder.count

    async def open(self) -> None:
        """Begin."""
        await super().open()
        self._row_encoder = RowEncoder(self._options, self._row_id_prefix, self._encoder.ids)

    async def send_rows(self, batch: pa.RecordBatch) -> None:
        """Put rows on their way; waits only while too many are.

        Raises:
            InvalidArgument: a row cannot be a message.
            RouteNotFound, NoNameServer: there is no queue to send to.
        """
        for start in range(0, batch.num_rows, PART_COUNT):
            part = batch.slice(start, PART_COUNT)
            topics = self._topics(part)
            is_plain = plain_rows(part, topics)
            for first, end in _segments(is_plain):
                rows = part.slice(first, end - first)
                is_together = bool(is_plain[first]) and end - first >= TOGETHER_COUNT_MIN
                if not (is_together and await self._send_together(rows, topics.slice(first, end - first))):
                    await self._send_each(rows)

    async def _send_each(self, rows: pa.RecordBatch) -> None:
        for message in self._builder.messages(rows):
            if message.queue is not None:
                message.check_queue(await self.queues(message.topic))
            try:
                sent = await self.send_soon(message, queue=message.queue)
            except InvalidArgument as error:
                raise of_row(error, message.row_id) from None
            sent.add_done_callback(self._note)
            if self._builder.count % _YIELD_EVERY == 0:
                await asyncio.sleep(0)  # lets requests leave and answers in while rows are made into messages

    async def _send_together(self, rows: pa.RecordBatch, topics: pa.Array) -> bool:
        """Send plain rows in batches; False: one of them has to be looked at by itself, and nothing is sent."""
        encoded = self._row_encoder.encode(rows, self._builder.count, now_ms())
        if encoded is None:
            return False
        self._builder.count += rows.num_rows
        keys = sharding_keys(rows)
        for topic in pc.unique(topics).to_pylist():
            is_here = pc.equal(topics, topic)
            here = encoded.items if pc.all(is_here).as_py() else encoded.items.filter(is_here)
            queues = await self.queues(topic)
            if keys is None:
                await self._send_anywhere(topic, here, len(queues), encoded.message_id)
                continue
            of_rows = _queues_of(keys.filter(is_here), queues)
            for number in np.unique(of_rows):
                items = here.filter(pa.array(of_rows == number))
                if number == len(queues):
                    await self._send_anywhere(topic, items, len(queues), encoded.message_id)
                else:
                    await self._send_runs(Target(topic, queues[number]), items, RUN_COUNT_MAX, encoded.message_id)
        return True

    async def _send_anywhere(self, topic: str, items: pa.Array, queue_count: int, message_id: str) -> None:
        """Spread rows over all queues, in runs that are worth a request."""
        share = -(-len(items) // queue_count)
        await self._send_runs(Target(topic), items, min(max(share, TOGETHER_COUNT_MIN), RUN_COUNT_MAX), message_id)

    async def _send_runs(self, target: Target, items: pa.Array, count_max: int, message_id: str) -> None:
        for run in cut(items, count_max, RUN_SIZE_MAX):
            if not self._in_flight.has_room:
                await self._in_flight.wait_for_room()
            buffer = self._accumulator.buffer_now(target) or await self._accumulator.buffer(target)
            batch = EncodedBatch(target.topic, run.body, run.row_count, message_id)
            buffer.append_batch(batch).add_done_callback(self._note)
        await asyncio.sleep(0)  # lets requests leave and answers in

    def _topics(self, rows: pa.RecordBatch) -> pa.Array:
        default = pa.scalar(self._options.topic, pa.string())
        if "topic" not in rows.schema.names:
            return pa.repeat(default, rows.num_rows)
        return pc.coalesce(rows.column("topic").cast(pa.string()), default)


def _segments(is_plain: Flags) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of equal flags."""
    bounds = np.flatnonzero(is_plain[1:] != is_plain[:-1]) + 1
    edges = [0, *bounds.tolist(), len(is_plain)]
    yield from pairwise(edges)


def _queues_of(keys: pa.Array, queues: tuple[MessageQueue, ...]) -> Positions:
    """Return the index of each row's queue, as many as there are queues for a row without a key."""
    found = keys.dictionary_encode()
    index = {queue: number for number, queue in enumerate(queues)}
    chosen = [index[choose_by_key(queues, key)] for key in found.dictionary.to_pylist()]
    codes = pc.fill_null(found.indices, len(chosen)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*chosen, len(queues)], np.int64)[codes])


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
    try:
        async with RowProducer(options, row_id_prefix, failure.note) as producer:
            for batch in batches:
                await producer.send_rows(batch)
                failure.check()
            await producer.flush()
    except SendFailed:  # the producer's words are about messages
        failure.check()
        raise
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
