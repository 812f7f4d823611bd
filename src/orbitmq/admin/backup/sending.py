"""Sends the messages of a backup, queue by queue, and keeps account of how far that is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from orbitmq.admin.backup.broker_calls import BrokerCalls, is_silent
from orbitmq.admin.backup.directory import read_records
from orbitmq.admin.backup.messages import is_same_message, send_header
from orbitmq.admin.backup.offset_map import OffsetMap
from orbitmq.admin.backup.progress import RestoreProgress, encode_progress, save_progress
from orbitmq.admin.backup.records import parse_message
from orbitmq.admin.backup.steps import QueueStep
from orbitmq.client.send.result import is_stored
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, RemoteRefused
from orbitmq.files import write_aside
from orbitmq.model.route import MessageQueue
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendResponse
from orbitmq.wire.messages.record import Record

QUEUES_AT_A_TIME = 16
SAVE_EVERY_S = 1.0
_RECORDS_AT_A_TIME = 256
_BYTES_AT_A_TIME = 1024 * 1024
"""Of each queue; a larger record comes alone."""
_BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
_BUSY_ATTEMPTS = 8
_BUSY_PAUSE_S = 0.1


class _MessageRefused(ClientError):
    """The target takes no such message, however often it is sent."""


class Sending:
    """The messages of one restore.

    Args:
        path: of the progress file.
        addresses: of the target's brokers, by name.
        state: where messages are already; what is sent is added to it.
        is_resumed: messages may be in their queues that `state` does not know.
        skip_refused: go on behind a message that the target takes never; `state` notes it.
        progress: is told messages that are done, and messages in all.
    """

    def __init__(
        self,
        calls: BrokerCalls,
        directory: Path,
        path: Path,
        addresses: Mapping[str, str],
        state: RestoreProgress,
        *,
        is_resumed: bool,
        skip_refused: bool = False,
        progress: Callable[[int, int], None],
    ) -> None:
        self.lost: set[str] = set()
        """Brokers that gave no answer: they are not asked for each further queue."""
        self._calls = calls
        self._directory = directory
        self._path = path
        self._addresses = addresses
        self._state = state
        self._is_resumed = is_resumed
        self._skip_refused = skip_refused
        self._progress = progress
        self._problems: list[str] = []
        self._saved_at = 0.0
        self._saving = asyncio.Lock()
        self._done = 0
        self._total = 0

    async def send_all(self, steps: Sequence[QueueStep]) -> list[str]:
        """Send what is missing in each queue; return what went wrong, a line each.

        Raises:
            StoreError: a file of the backup changed meanwhile.
            OSError: progress cannot be saved.
        """
        self._total = sum(step.file.count for step in steps)
        places = [found.offsets for found in self._state.queues.values()]
        self._done = sum(offsets.count + len(offsets.skipped) for offsets in places)
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)

        async def send(step: QueueStep) -> None:
            async with permits:
                if step.broker in self.lost:
                    return
                try:
                    await self._send_queue(step)
                except ClientError as error:
                    is_refused = isinstance(error, _MessageRefused)
                    if is_silent(error) and not is_refused:
                        self.lost.add(step.broker)
                    where = f"queue {step.file.queue_id} of {step.file.topic} on {step.broker}"
                    way_out = " --skip-refused to leave it out" if is_refused else ""
                    self._problems.append(f"{where}: {error}; go on with --resume{way_out}")

        try:
            async with asyncio.TaskGroup() as group:
                for step in steps:
                    group.create_task(send(step))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await self.save()
        return self._problems

    async def _send_queue(self, step: QueueStep) -> None:
        offsets = self._state.queues[queue_of(step)].offsets
        async with aclosing(self._missing(step, offsets)) as records:
            async for record in records:
                try:
                    new = await self._send_one(step, record)
                    if new < offsets.next_new:
                        raise ClientError(
                            f"the message at offset {record.queue_offset} is at {new} now, expected {offsets.next_new} "
                            "at least: messages before it are lost"
                        )
                    offsets.add(record.queue_offset, new)
                except _MessageRefused as refused:
                    if not self._skip_refused:
                        raise
                    offsets.skipped[record.queue_offset] = str(refused)
                    await (
                        self.save()
                    )  # first: a resumed restore would look for it in the queue, and find none behind it
                self._done += 1
                self._progress(self._done, self._total)
                if asyncio.get_running_loop().time() >= self._saved_at + SAVE_EVERY_S:
                    await self.save()

    async def _missing(self, step: QueueStep, offsets: OffsetMap) -> AsyncGenerator[Record, None]:
        """Yield the records that are not in the target queue yet."""
        records = read_records(self._directory, step.file)
        first = offsets.next_old
        stored: AsyncIterator[Record] | None = self._stored(step, offsets.next_new) if self._is_resumed else None
        try:
            while part := await _take(records):
                for record in part:
                    if record.queue_offset < first or record.queue_offset in offsets.skipped:
                        continue
                    if stored is not None:
                        found = await _find(stored, record)
                        if found is not None:
                            offsets.add(record.queue_offset, found)
                            continue
                        stored = None
                    yield record
        finally:
            await asyncio.to_thread(records.close)

    async def _stored(self, step: QueueStep, begin: int) -> AsyncIterator[Record]:
        """Yield what lies in the target queue from an offset on: a stopped restore may have sent more than it noted."""
        address, topic, queue_id = self._addresses[step.broker], step.file.topic, step.file.queue_id
        end = (await self._calls.bounds(address, topic, queue_id)).end
        while begin < end:
            pulled = await self._calls.pull(address, topic, queue_id, begin)
            view = memoryview(pulled.records)
            while view:
                record = parse_message(view)
                view = view[record.size :]
                yield record
            begin = max(begin + 1, pulled.next_offset)

    async def _send_one(self, step: QueueStep, record: Record) -> int:
        """Send a message; return its new queue offset.

        Raises:
            _MessageRefused: the broker takes no such message.
            RemoteRefused: the broker refuses it now.
            ClientError: there is no answer: it may be stored.
        """
        address = self._addresses[step.broker]
        what = f"the message at offset {record.queue_offset} with {len(record.body)} bytes is refused: "
        try:
            header = send_header(record, step.broker)
        except InvalidArgument as error:
            raise _MessageRefused(f"{what}{error}") from error
        for attempt in range(_BUSY_ATTEMPTS):
            answer = await self._calls.send(address, header, bytes(record.body))
            if answer.code not in _BUSY:
                break
            await asyncio.sleep(_BUSY_PAUSE_S * 2**attempt)
        if answer.code == ResponseCode.MESSAGE_ILLEGAL:
            raise _MessageRefused(f"{what}{RemoteRefused(answer.code, answer.remark, address)}")
        if not is_stored(answer):
            raise RemoteRefused(answer.code, answer.remark, address)
        found = decode_header(SendResponse, answer.ext_fields)
        if found.queue_id != record.queue_id:
            raise ClientError(f"the broker put a message into queue {found.queue_id}, not into {record.queue_id}")
        return found.queue_offset

    async def save(self) -> None:
        """Write how far the restore is."""
        async with self._saving:
            self._saved_at = asyncio.get_running_loop().time()
            await write_aside(save_progress, self._path, encode_progress(self._state))


def queue_of(step: QueueStep) -> MessageQueue:
    """Return the queue of the target that a step fills."""
    return MessageQueue(step.file.topic, step.broker, step.file.queue_id)


async def _take(records: Iterator[Record]) -> list[Record]:
    """Return the next records, read by a thread; a cancelled caller goes on when that has ended: two cannot read."""
    reading = asyncio.ensure_future(asyncio.to_thread(_read_part, records))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait((reading,))
        raise


def _read_part(records: Iterator[Record]) -> list[Record]:
    part: list[Record] = []
    size = 0
    for record in records:
        part.append(record)
        size += record.size
        if len(part) == _RECORDS_AT_A_TIME or size >= _BYTES_AT_A_TIME:
            break
    return part


async def _find(stored: AsyncIterator[Record], wanted: Record) -> int | None:
    """Return the offset of the next message that is the wanted one; messages of others are passed over."""
    async for record in stored:
        if is_same_message(wanted, record):
            return record.queue_offset
    return None
