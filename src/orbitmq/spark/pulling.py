"""What a Spark task does: pull one range of one queue and decode it, megabytes at a time.

The range is cut into blocks. Several blocks are pulled at once over one connection, each by one request at a time that
follows the broker's `nextBeginOffset`, and are handed on in order: a broker that gives 32 messages per pull and one that
gives a thousand are both kept busy, and no message is asked for twice.

Under a tag filter the whole range is one block: what a pull counts then is what matches, so that only its answer says how
far it came.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, OrbitError, RemoteRefused, RequestTimeout
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.arrow import parse_records
from orbitmq.spark.cluster import Cluster, readable_queues
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.planning import Range
from orbitmq.spark.security import read_security
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PullMessage, PullResponse, PullSysFlag

log = logging.getLogger(__name__)

DECODE_SIZE = 4 * 1024 * 1024
"""Bytes of answers that are decoded at once: smaller is slower, larger falls out of the processor's cache."""
BLOCK_SIZE = 1024 * 1024
"""Bytes that a block is meant to have; what one pull asks for."""
BUFFER_SIZE_MAX = 8 * 1024 * 1024
"""Bytes that a block may hold while blocks before it are not complete; then it waits."""
FIRST_BLOCK_COUNT = 32
"""Messages of the first blocks, while nothing is known of their size."""
BACKOFF_MS_MAX = 2000

_RETRIED = frozenset({ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})


class DataLoss(OrbitError):
    """Messages that a query was to read are gone, and failOnDataLoss is true."""


class _TryAgain(Exception):
    """The broker cannot answer now; the reason is for the log and the last error."""


@dataclass
class Block:
    """A run of offsets that is pulled by one request at a time."""

    cursor: int
    end: int
    bodies: list[bytes] = field(default_factory=list)
    size: int = 0
    opaque: int | None = None

    @property
    def is_complete(self) -> bool:
        """True when every offset of the block has been pulled, or passed over by the broker."""
        return self.cursor >= self.end


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
        self._blocks: deque[Block] = deque()
        self._next_begin = wanted.begin
        self._expected = wanted.begin
        self._record_size = 0.0
        self._attempt = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the range's messages in order, in batches of a few megabytes.

        Raises:
            DataLoss: messages of the range are gone.
            ClientError: the broker could not be asked, or refused, after every retry.
            CorruptRecord: an answer cannot be read.
        """
        chunks: list[bytes] = []
        size = 0
        for body in self._pull():
            chunks.append(body)
            size += len(body)
            if size >= DECODE_SIZE:
                yield from self._decode(chunks)
                chunks, size = [], 0
        yield from self._decode(chunks)
        if self._options.tags is None and self._expected < self._range.end:
            self._lost(self._expected, self._range.end)

    def _pull(self) -> Iterator[bytes]:
        """Yield the bodies of pull answers in order; connect again after a failure."""
        while not self._is_finished:
            try:
                with self._connect() as connection:
                    yield from self._pull_over(connection)
            except (ConnectionFailed, RequestTimeout, _TryAgain) as error:
                self._wait_before_retry(error)
            finally:
                for block in self._blocks:
                    block.opaque = None

    def _connect(self) -> BlockingConnection:
        timeout_ms = self._options.pull_timeout_ms
        return BlockingConnection(self._address, timeout_ms=timeout_ms, **self._security._asdict())

    def _pull_over(self, connection: BlockingConnection) -> Iterator[bytes]:
        asked: dict[int, Block] = {}
        while not self._is_finished:
            self._ask(connection, asked)
            answer = connection.receive()
            block = asked.pop(answer.opaque)
            block.opaque = None
            self._take(block, answer)
            while self._blocks:
                head = self._blocks[0]
                yield from head.bodies
                head.bodies, head.size = [], 0
                if not head.is_complete:
                    break
                self._blocks.popleft()

    @property
    def _is_finished(self) -> bool:
        return not self._blocks and self._next_begin >= self._range.end

    def _ask(self, connection: BlockingConnection, asked: dict[int, Block]) -> None:
        """Keep one pull under way for each block, and as many blocks as are allowed."""
        while len(self._blocks) < self._options.pull_outstanding and self._next_begin < self._range.end:
            end = (
                self._range.end if self._options.tags else min(self._range.end, self._next_begin + self._block_count())
            )
            self._blocks.append(Block(self._next_begin, end))
            self._next_begin = end
        for place, block in enumerate(self._blocks):
            if block.opaque is None and not block.is_complete and (place == 0 or block.size < BUFFER_SIZE_MAX):
                block.opaque = connection.send(self._request(block))
                asked[block.opaque] = block

    def _block_count(self) -> int:
        if not self._record_size:
            return min(FIRST_BLOCK_COUNT, self._options.pull_count)
        return max(1, min(int(BLOCK_SIZE / self._record_size), self._options.pull_count))

    def _request(self, block: Block) -> PullMessage:
        queue = self._range.queue
        return PullMessage(
            consumer_group=self._options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=block.cursor,
            count_max=min(self._options.pull_count, block.end - block.cursor),
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription=self._options.subscription,
            sub_version=0,
            expression_type="TAG",
            size_max=BLOCK_SIZE,
        )

    def _take(self, block: Block, answer: Command) -> None:
        """Take one answer in: its messages, or where to go on, or why there is nothing."""
        if answer.code == ResponseCode.SUCCESS:
            header = decode_header(PullResponse, answer.ext_fields)
            self._learn_size(len(answer.body), header.next_begin_offset - block.cursor)
            block.bodies.append(answer.body)
            block.size += len(answer.body)
            self._go_on(block, header.next_begin_offset)
        elif answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            self._go_on(block, decode_header(PullResponse, answer.ext_fields).next_begin_offset)
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._move(block, decode_header(PullResponse, answer.ext_fields))
        elif answer.code == ResponseCode.PULL_NOT_FOUND:
            self._miss(block)
        elif answer.code in _RETRIED:
            raise _TryAgain(f"{self._address} answered code {answer.code}: {answer.remark}")
        elif answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            hint = f"{answer.remark}: create group {self._options.group}, or name one that exists with the option group"
            raise RemoteRefused(answer.code, hint, self._address)
        else:
            raise RemoteRefused(answer.code, answer.remark, self._address)

    def _go_on(self, block: Block, cursor: int) -> None:
        if cursor <= block.cursor:
            raise _TryAgain(f"{self._address} does not get past offset {block.cursor} of {self._range.queue}")
        block.cursor = cursor
        self._attempt = 0

    def _move(self, block: Block, header: PullResponse) -> None:
        """The offset is outside what the broker holds: before its first message, or behind its last."""
        if block.cursor < header.min_offset:
            self._lost(block.cursor, min(header.min_offset, block.end))
            self._go_on(block, header.min_offset)
        else:
            self._miss(block)

    def _miss(self, block: Block) -> None:
        """There is no message at the block's offset, though the plan said so: perhaps not yet on this broker."""
        if self._attempt < self._options.retries:
            raise _TryAgain(f"{self._address} has no message at offset {block.cursor} of {self._range.queue}")
        self._lost(block.cursor, block.end)
        block.cursor = block.end

    def _lost(self, begin: int, end: int) -> None:
        where = (
            f"queue {self._range.queue.queue_id} of topic {self._range.queue.topic} on {self._range.queue.broker_name}"
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"offsets {begin} to {end - 1} of {where} are gone (retention, or the topic was made anew). "
                "Set failOnDataLoss to false to go on without them."
            )
        log.warning("offsets %d to %d of %s are gone; going on without them", begin, end - 1, where)

    def _learn_size(self, size: int, count: int) -> None:
        if count > 0:
            self._record_size = size / count if not self._record_size else (self._record_size + size / count) / 2

    def _wait_before_retry(self, error: Exception) -> None:
        self._attempt += 1
        if self._attempt > self._options.retries:
            raise ConnectionFailed(f"gave up after {self._attempt} attempts: {error}") from error
        log.warning("attempt %d of %d: %s", self._attempt, self._options.retries, error)
        time.sleep(min(50 * 2**self._attempt, BACKOFF_MS_MAX) / 1000)
        self._find_broker()

    def _find_broker(self) -> None:
        """Ask where the queue is now: its broker may have come back under another address."""
        queue = self._range.queue
        timeout_ms = self._options.pull_timeout_ms
        try:
            with Cluster(self._options.name_servers, timeout_ms=timeout_ms, security=self._security) as cluster:
                self._address = readable_queues(queue.topic, cluster.route(queue.topic)).get(queue, self._address)
        except ClientError as error:
            log.warning("no route for %s now, trying %s again: %s", queue, self._address, error)

    def _decode(self, chunks: list[bytes]) -> Iterator[pa.RecordBatch]:
        records = parse_records(b"".join(chunks)).between(self._range.begin, self._range.end)
        if self._options.tags is None:
            self._check_order(records.queue_offsets)
        yield from records.batches(self._names, self._range.queue.broker_name, self._options.tags)

    def _check_order(self, offsets: npt.NDArray[np.int64]) -> None:
        """Without a filter every offset must come, in order: whatever is missing is lost, whatever the broker said."""
        if not len(offsets):
            return
        if offsets[0] > self._expected:
            self._lost(self._expected, int(offsets[0]))
        for gap in np.flatnonzero(np.diff(offsets) != 1).tolist():
            self._lost(int(offsets[gap]) + 1, int(offsets[gap + 1]))
        self._expected = int(offsets[-1]) + 1
