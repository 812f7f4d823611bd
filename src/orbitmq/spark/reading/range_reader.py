"""The work of a Spark task: pull one range of one queue and decode it, megabytes at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from orbitmq.client.consume.pull_request import PullStatus, parse_pull_answer, plain_pull
from orbitmq.client.consume.pulled_messages import logical_records
from orbitmq.client.routing.route_queues import is_logical
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.offsets import queue_names
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading.answer_buffer import AnswerBuffer
from orbitmq.spark.reading.blocks import BLOCK_SIZE, Block, Blocks
from orbitmq.spark.reading.continuity import Continuity
from orbitmq.spark.reading.metadata_client import MetadataClient, is_passing, queue_addresses
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.record_batches import parse_records
from orbitmq.spark.security import read_security
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PullMessage, PullResponse

log = logging.getLogger(__name__)

DECODE_SIZE = 4 * 1024 * 1024
"""Bytes of answers that are decoded in one pass: smaller is slower, larger falls out of the processor's cache."""
FIRST_BACKOFF_MS = 100
BACKOFF_MS_MAX = 2000


class _TryAgain(Exception):
    """The broker cannot answer now; the reason is for the log and the last error."""


class RangeReader:
    """Reads one range of one queue.

    Args:
        wanted: the range.
        address: the broker that held the queue when the range was planned.
        options: how to read.
        names: the columns to decode.
    """

    def __init__(self, wanted: Range, address: str, options: ReadOptions, names: Sequence[str]) -> None:
        self._range = wanted
        self._address = address
        self._options = options
        self._security = read_security(options.security_file)
        self._names = names
        self._blocks = Blocks(wanted, options)
        self._continuity = Continuity(wanted, fails=options.fail_on_data_loss)
        self._answers = AnswerBuffer(DECODE_SIZE + 2 * BLOCK_SIZE)
        self._is_deleted = False
        """NameServers do not know the topic: a broker that has none of its messages does not get them any more."""
        self._attempt = 0
        self._failing_since = 0.0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the range's messages in order, in batches of a few megabytes.

        Raises:
            DataLoss: messages of the range are gone.
            ClientError: the broker could not be asked, or refused, after every retry.
            CorruptRecord: an answer cannot be read.
        """
        # Answers are decoded together: each call of numpy and Arrow has its fixed cost.
        answers = self._answers
        for body in self._pull():
            if answers.room(len(body)) is None:
                yield from self._decode()
            answers.add(body)
            if len(answers) >= DECODE_SIZE:
                yield from self._decode()
        yield from self._decode()
        if not self._options.is_filtered:
            self._continuity.finish()

    def _pull(self) -> Iterator[bytes | memoryview]:
        """Yield the bodies of pull answers in order; connect again after a failure."""
        while not self._blocks.is_finished:
            try:
                with self._connect() as connection:
                    yield from self._pull_over(connection)
            except (ConnectionFailed, RequestTimeout, _TryAgain) as error:
                self._wait_before_retry(error)
            finally:
                self._blocks.forget_pulls()

    def _connect(self) -> BlockingConnection:
        timeout_ms = self._options.pull_timeout_ms
        return BlockingConnection(self._address, timeout_ms=timeout_ms, **self._security._asdict())

    def _pull_over(self, connection: BlockingConnection) -> Iterator[bytes | memoryview]:
        asked: dict[int, Block] = {}

        def place(opaque: int, size: int) -> memoryview | None:
            # The answer that is next in order is received where it is decoded, others wait in memory of their own.
            block = asked.get(opaque)
            if block is None or not self._blocks.is_head(block) or is_logical(self._range.queue):
                return None
            block.received = self._answers.room(size)
            return block.received

        while not self._blocks.is_finished:
            for block in self._blocks.due():
                block.opaque = connection.send(self._request(block))
                block.asked_at, block.received = block.cursor, None
                asked[block.opaque] = block
            answer = connection.receive(place=place)  # the oldest; meanwhile the broker works on the others
            block = asked.pop(answer.opaque)
            block.opaque = None
            self._accept(block, answer)
            yield from self._blocks.drain()

    def _request(self, block: Block) -> PullMessage:
        queue, options = self._range.queue, self._options
        return plain_pull(
            queue.topic,
            queue.queue_id,
            block.cursor,
            min(options.pull_count, block.end - block.cursor),
            group=options.group,
            expression=options.subscription,
            expression_type=options.expression_type,
            size_max=BLOCK_SIZE,
        )

    def _accept(self, block: Block, answer: Command) -> None:
        """Keep an answer's messages, and go on where it says."""
        if block.asked_at != block.cursor:  # another answer has said that these are gone
            return
        result = parse_pull_answer(answer)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            self._miss(block)
            return
        if result is None:
            raise self._refusal(answer)
        next_begin_offset = result.header.next_begin_offset
        match result.status:
            case PullStatus.FOUND:
                records: bytes | memoryview | None = block.received
                if records is None:
                    records = logical_records(result.records, self._range.queue, result.header.offset_delta)
                self._blocks.add(block, records, next_begin_offset)
                self._go_on(block, next_begin_offset)
            case PullStatus.NO_MATCHED_MESSAGE:
                self._go_on(block, next_begin_offset)
            case PullStatus.OFFSET_ILLEGAL:
                self._move(block, result.header)
            case PullStatus.NO_NEW_MESSAGE:
                self._miss(block)

    def _refusal(self, answer: Command) -> Exception:
        """Return the error that a refusal leads to: an answer that says "not now" is asked for again."""
        refusal = RemoteRefused(answer.code, answer.remark, self._address)
        if is_passing(refusal):
            return _TryAgain(str(refusal))
        if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            hint = f"{answer.remark}: create group {self._options.group}, or name one that exists with the option group"
            return RemoteRefused(answer.code, hint, self._address)
        return refusal

    def _go_on(self, block: Block, cursor: int) -> None:
        if cursor <= block.cursor:
            raise _TryAgain(
                f"{self._address} does not get past offset {block.cursor} of {queue_names([self._range.queue])}"
            )
        block.cursor = cursor
        self._attempt = 0

    def _move(self, block: Block, header: PullResponse) -> None:
        """Leave an offset that is outside what the broker holds: before its first message, or behind its last."""
        if block.cursor < header.min_offset:
            self._continuity.lose(block.cursor, min(header.min_offset, self._range.end))
            self._blocks.skip(header.min_offset)
            self._attempt = 0
        else:
            self._miss(block)

    def _miss(self, block: Block) -> None:
        """Wait for a message that the plan saw and the broker lacks: it may come yet, from a master to its slave."""
        if not self._is_deleted and self._may_retry():
            raise _TryAgain(
                f"{self._address} has no message at offset {block.cursor} of {queue_names([self._range.queue])}"
            )
        self._continuity.lose(block.cursor, block.end)
        block.cursor = block.end

    def _may_retry(self) -> bool:
        """Return True for `retries` attempts, and until `brokerTimeoutMs` are over since the first one failed."""
        failing_s = time.monotonic() - self._failing_since if self._attempt else 0.0
        return self._attempt < self._options.retries or failing_s < self._options.broker_timeout_ms / 1000

    def _wait_before_retry(self, error: Exception) -> None:
        if not self._attempt:
            self._failing_since = time.monotonic()
        may_retry = self._may_retry()
        self._attempt += 1
        if not may_retry:
            raise ConnectionFailed(
                f"{queue_names([self._range.queue])}: gave up after {self._attempt} attempts: {error}"
            ) from error
        if self._attempt & (self._attempt - 1) == 0:  # the first, second, fourth, eighth ...
            log.warning("attempt %d, trying again: %s", self._attempt, error)
        time.sleep(min(FIRST_BACKOFF_MS * 2 ** min(self._attempt - 1, 10), BACKOFF_MS_MAX) / 1000)
        self._find_broker()

    def _find_broker(self) -> None:
        """Ask where the queue is now: its broker may have come back under another address."""
        queue = self._range.queue
        timeout_ms = self._options.pull_timeout_ms
        try:
            with MetadataClient(self._options.name_servers, timeout_ms=timeout_ms, security=self._security) as client:
                self._address = queue_addresses(queue.topic, client.route(queue.topic)).get(queue, self._address)
            self._is_deleted = False
        except ClientError as error:
            self._is_deleted = isinstance(error, RouteNotFound)
            log.warning("no route for %s now, trying %s again: %s", queue, self._address, error)

    def _decode(self) -> Iterator[pa.RecordBatch]:
        # Under a tag filter the last pull passes over the range's end: it counts what matches.
        records = parse_records(self._answers.records).between(self._range.begin, self._range.end)
        if not self._options.is_filtered:
            self._continuity.check(records.queue_offsets)
        options = self._options
        yield from records.batches(
            self._names, self._range.queue.broker_name, options.tags, fails=options.fail_on_data_loss
        )
        self._answers.clear()
