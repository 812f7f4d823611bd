"""Sends the messages of a backup, queue by queue, and writes into a file how far that is. Resumed, a restore goes on there.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orbitmq.admin.backup.directory import named, read_bounded, read_records
from orbitmq.admin.backup.messages import message_key, parse_message, send_header
from orbitmq.admin.backup.plan import QueueProgress, QueueStep
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.client.queue_reader import QueueReader
from orbitmq.client.send.result import is_stored
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConfigError, HeaderError, InvalidArgument, RemoteRefused, StoreError
from orbitmq.files import replace_file, write_aside
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, text
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendResponse
from orbitmq.wire.messages.record import Record

PROGRESS_NAME = "restore-progress.json"
_FORMAT = 2
_NUMBERS = {"base": "base", "next_old": "nextOld", "next_new": "nextNew", "sent": "sent"}
_SIZE_MAX = 1024 * 1024 * 1024
QUEUES_AT_A_TIME = 16
_BATCH_COUNT = 256
_BATCH_SIZE = 1024 * 1024
"""Messages, and bytes of their records, after which progress is written; a larger record comes alone."""
_BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
_BUSY_ATTEMPTS = 8
_BUSY_PAUSE_S = 0.1


class RestoreProgress(NamedTuple):
    """A restore under way.

    Args:
        backup: the checksum of the manifest that it restores.
        brokers: from the backup's broker names to the target's.
    """

    backup: str
    brokers: dict[str, str]
    queues: dict[MessageQueue, QueueProgress]


class _MessageRefused(ClientError):
    """The target takes no such message, however often it is sent."""


@dataclass
class Sending:
    """The messages of one restore.

    Args:
        path: of the progress file.
        addresses: of the target's brokers, by name.
        state: how far each queue is; it is kept up to date.
        is_resumed: a batch of each queue may be in the target that `state` does not know.
        skip_refused: go on behind a message that the target takes never; `state` names it.
        progress: is told messages that are done, and messages in all.
    """

    clients: ClusterClients
    directory: Path
    path: Path
    addresses: Mapping[str, str]
    state: RestoreProgress
    is_resumed: bool
    skip_refused: bool
    progress: Callable[[int, int], None]

    def __post_init__(self) -> None:
        self._reader = QueueReader(self.clients.request)
        self._lost: set[str] = set()
        """Brokers that gave no answer: they are not asked for each further queue."""
        self._problems: list[str] = []
        self._saving = asyncio.Lock()
        self._wanted = self._saved = self._done = self._total = 0

    async def send_all(self, steps: Sequence[QueueStep]) -> list[str]:
        """Send what is missing in each queue; return what went wrong, a line each.

        Raises:
            StoreError: a file of the backup changed meanwhile.
            OSError: progress cannot be saved.
        """
        self._total = sum(step.file.count for step in steps)
        self._done = sum(found.sent + len(found.skipped) for found in self.state.queues.values())
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)

        async def send(step: QueueStep) -> None:
            async with permits:
                broker = step.queue.broker_name
                if broker in self._lost:
                    return
                try:
                    await self._send_queue(step)
                except ClientError as error:
                    if not isinstance(error, RemoteRefused | _MessageRefused):
                        self._lost.add(broker)
                    way_out = " --skip-refused to leave it out" if isinstance(error, _MessageRefused) else ""
                    self._problems.append(f"{step}: {error}; go on with --resume{way_out}")

        try:
            async with asyncio.TaskGroup() as group:
                for step in steps:
                    group.create_task(send(step))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await self.save()
        return self._problems

    async def save(self) -> None:
        """Write how far the restore is; queues that wait for it share a writing."""
        self._wanted += 1
        wanted = self._wanted
        async with self._saving:
            if self._saved < wanted:
                covered = self._wanted
                await write_aside(save_progress, self.path, encode_progress(self.state))
                self._saved = covered

    async def _send_queue(self, step: QueueStep) -> None:
        place, begin = step.place, step.place.next_old
        file = read_records(self.directory, step.file)
        missing = (record for record in file if record.queue_offset >= begin)
        stored: list[tuple[bytes, int]] | None = None if self.is_resumed else []
        try:
            while batch := await _take(missing):
                if stored is None:
                    stored = await self._stored(step, set(map(message_key, batch)))
                for record in batch:
                    try:
                        new = _take_stored(stored, message_key(record)) if stored else None
                        place.add(record.queue_offset, await self._send(step, record) if new is None else new)
                    except _MessageRefused as refused:
                        if not self.skip_refused:
                            raise
                        place.skip(record.queue_offset, str(refused))
                    self._done += 1
                    self.progress(self._done, self._total)
                stored = []
                await self.save()
        finally:
            await asyncio.to_thread(file.close)

    async def _stored(self, step: QueueStep, keys: Collection[bytes]) -> list[tuple[bytes, int]]:
        """Return what lies in the target queue behind the known end and has one of these keys: key and offset, in order.

        The restore may have been stopped between the broker's answers and the writing of its progress.
        """
        topic, broker, queue_id = step.queue
        address, found = self.addresses[broker], []
        begin, end = await self._reader.bounds(address, topic, queue_id)
        begin = max(begin, step.place.next_new)
        while begin < end:
            pulled = await self._reader.pull(address, topic, queue_id, begin)
            view = memoryview(pulled.records)
            while view:
                record = parse_message(view, topic, queue_id, begin, 2**63)
                view, begin = view[record.size :], record.queue_offset + 1
                if (key := message_key(record)) in keys:
                    found.append((key, record.queue_offset))
            begin = max(begin if pulled.records else begin + 1, pulled.next_offset)
        return found

    async def _send(self, step: QueueStep, record: Record) -> int:
        """Send a message; return its new queue offset.

        Raises:
            _MessageRefused: the broker takes no such message.
            RemoteRefused: the broker refuses it now.
            ClientError: there is no answer: it may be stored.
        """
        broker = step.queue.broker_name
        address = self.addresses[broker]
        what = f"the message at offset {record.queue_offset} with {len(record.body)} bytes is refused: "
        try:
            header = send_header(record, broker)
        except InvalidArgument as error:
            raise _MessageRefused(f"{what}{error}") from error
        for attempt in range(_BUSY_ATTEMPTS):
            answer = await self.clients.request(address, header, bytes(record.body))
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


def _take_stored(stored: list[tuple[bytes, int]], key: bytes) -> int | None:
    """Return the offset of the next stored message with this key; it and those before it are taken from the list."""
    for at, (found, offset) in enumerate(stored):
        if found == key:
            del stored[: at + 1]
            return offset
    return None


async def _take(records: Iterator[Record]) -> list[Record]:
    """Return the next batch, read by a thread; a cancelled caller goes on when that has ended: two cannot read."""
    reading = asyncio.ensure_future(asyncio.to_thread(_read_batch, records))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait((reading,))
        raise


def _read_batch(records: Iterator[Record]) -> list[Record]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.size
        if len(batch) == _BATCH_COUNT or size >= _BATCH_SIZE:
            break
    return batch


def encode_progress(progress: RestoreProgress) -> bytes:
    """Encode a progress file."""
    queues = [
        {"topic": queue.topic, "broker": queue.broker_name, "queueId": queue.queue_id}
        | {json_name: getattr(place, name) for name, json_name in _NUMBERS.items()}
        | {"wasEmpty": place.was_empty, "moved": list(place.moved.items()), "skipped": list(place.skipped.items())}
        for queue, place in progress.queues.items()
    ]
    document = {"format": _FORMAT, "backup": progress.backup, "brokers": progress.brokers, "queues": queues}
    return orjson.dumps(document)


def _parse(document: dict[str, Any]) -> RestoreProgress:
    if document.get("format") != _FORMAT:
        raise ValueError("written by another version; delete what was restored, and this file, and begin again")
    queues = {}
    for found in items(document["queues"]):
        queue = MessageQueue(text(found["topic"]), text(found["broker"]), number(found["queueId"]))
        base, next_old, next_new, sent = (number(found[name]) for name in _NUMBERS.values())
        queues[queue] = QueueProgress(
            base=base,
            next_old=next_old,
            next_new=next_new,
            sent=sent,
            was_empty=boolean(found["wasEmpty"]),
            moved={number(committed): number(new) for committed, new in items(found["moved"])},
            skipped={number(offset): text(reason) for offset, reason in items(found["skipped"])},
        )
    brokers = {text(old): text(new) for old, new in document["brokers"].items()}
    return RestoreProgress(text(document["backup"]), brokers, queues)


def load_progress(path: Path, *, is_resumed: bool) -> RestoreProgress | None:
    """Return how far an interrupted restore is; None where a new one begins.

    Raises:
        ConfigError: there is one, and it is not to be resumed; or the other way round.
        StoreError: the file cannot be used.
    """
    try:
        content = read_bounded(path, _SIZE_MAX)
    except FileNotFoundError:
        if not is_resumed:
            return None
        allowed = "the file of an interrupted restore; without one, leave --resume out"
        raise ConfigError("progress", str(path), allowed) from None
    if not is_resumed:
        allowed = "no such file: a restore was interrupted. Go on with --resume, or delete the file"
        raise ConfigError("progress", str(path), allowed)
    try:
        return parse_body("progress of a restore", content, _parse)
    except HeaderError as error:
        raise StoreError(f"{path} cannot be used: {error.remark}") from error


def save_progress(path: Path, content: bytes) -> None:
    """Write an encoded progress file, durably."""
    with named(path):
        replace_file(path, content, mode=0o600)


def forget_progress(path: Path) -> None:
    """Remove the file of a restore that is done, its former generation as well."""
    path.unlink(missing_ok=True)
    path.with_name(path.name + ".bak").unlink(missing_ok=True)
