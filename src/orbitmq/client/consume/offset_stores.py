"""The stores of a group's offsets: the brokers, or for broadcasting a file of this machine.

Source: Java OffsetStore.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Protocol

from orbitmq.client.consume.pull_request import plain_pull
from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import read_generations, replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.heartbeat import parse_queue, queue_document
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import OffsetResponse, QueryConsumerOffset, UpdateConsumerOffset


class OffsetStore(Protocol):
    """Keeps how far a group has come in each queue."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the group's offset in `queue`, None when there is none."""
        ...

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the group's offset in `queue`."""
        ...


class BrokerOffsets:
    """The offset store of clustering groups (OffsetStore).

    Args:
        session: carries the requests.
        group: the consumer group.
        in_memory_queue_at_zero: let the broker answer 0 for a group without an offset while the queue still holds its
            first message. Java's push consumers rely on it: what was sent to a new queue before its consumers saw
            the queue is not skipped.
    """

    def __init__(self, session: ClientSession, group: str, *, in_memory_queue_at_zero: bool) -> None:
        self._session = session
        self._group = group
        self._set_zero = None if in_memory_queue_at_zero else False
        self._known: set[tuple[str, str]] = set()
        self._making_known = asyncio.Lock()

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the group's offset in `queue`, None when there is none."""
        header = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=self._set_zero,
        )
        answer = await self._session.call_queue(queue, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        address = self._session.routes.address(self._session.routes.broker_of(queue))
        offset = decode_header(OffsetResponse, expect(answer, address).ext_fields).offset
        return offset if offset >= 0 else None  # Java answers -1 where it has none

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the group's offset in `queue`; returns when the broker has it.

        The first offset in a topic's queues on a broker goes alone: Java's broker loses one of two first ones that come at the same
        time (ConsumerOffsetManager.commitOffset).
        """
        place = queue.broker_name, queue.topic
        if place in self._known:
            await self._store(queue, queue_offset)
            return
        async with self._making_known:
            await self._store(queue, queue_offset)
            self._known.add(place)

    async def _store(self, queue: MessageQueue, queue_offset: int) -> None:
        header = UpdateConsumerOffset(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=queue_offset
        )
        answer = await self._session.call_queue(queue, header, only_this=True)
        if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            await self._introduce(queue, queue_offset)
            answer = await self._session.call_queue(queue, header, only_this=True)
        expect(answer, self._session.routes.address(self._session.routes.broker_of(queue)))

    async def _introduce(self, queue: MessageQueue, queue_offset: int) -> None:
        """Make a group known that has neither pulled nor sent heartbeats yet: brokers make a group for its first pull."""
        header = plain_pull(
            queue.topic, queue.queue_id, queue_offset, 1, group=self._group, broker_name=queue.broker_name
        )
        await self._session.call_queue(queue, header, only_this=True)


log = logging.getLogger(__name__)


class LocalOffsets:
    """The offset store of broadcasting consumers (OffsetStore).

    Args:
        directory: holds one directory per instance, or per client id where no instance is given.
        group: the consumer group; gives the file its name.
    """

    def __init__(self, directory: Path, group: str) -> None:
        self._directory = directory
        self._group = group
        self._path = directory / f"{group}.json"
        self._offsets: dict[MessageQueue, int] = {}
        self._writing: asyncio.Task[None] | None = None
        self._queued: asyncio.Task[None] | None = None

    def open(self, name: str) -> None:
        """Read what the file of this client holds; a file that cannot be used is logged and counts as empty.

        Args:
            name: the client's instance, or its id where it has none. An instance without a file goes on where the latest client
                of that instance was, whatever its address: versions before kept offsets by client id.
        """
        self._path = self._directory / name / f"{self._group}.json"
        self._offsets = _read(self._path) or _read(self._file_of_client_id(name))

    def _file_of_client_id(self, instance: str) -> Path:
        """Return the latest file that a client id of this instance has; the client's own path where there is none."""
        found = [
            path / self._path.name
            for path in self._path.parent.parent.glob("*@*")
            if path.name.endswith(f"@{instance}")
        ]
        return max(filter(Path.exists, found), key=lambda path: path.stat().st_mtime, default=self._path)

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the offset in `queue`, None when there is none."""
        return self._offsets.get(queue)

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the offset in `queue`; offsets stored at the same time are written together."""
        self._offsets[queue] = queue_offset
        if self._queued is None:
            self._queued = asyncio.create_task(self._write(self._writing), name="orbitmq local offsets")
        await asyncio.shield(self._queued)

    async def _write(self, previous: asyncio.Task[None] | None) -> None:
        """Write once the write before has ended; what is stored until then goes along."""
        if previous is not None:
            await asyncio.wait([previous])
        await asyncio.sleep(0)
        self._writing, self._queued = self._queued, None
        await asyncio.to_thread(replace_file, self._path, encode_offsets(self._offsets))


def encode_offsets(offsets: dict[MessageQueue, int]) -> bytes:
    """Encode the file's content."""
    table = {tuple(queue_document(queue).items()): offset for queue, offset in sorted(offsets.items())}
    return fastjson.dumps_loose({"offsetTable": table})


def decode_offsets(content: bytes) -> dict[MessageQueue, int]:
    """Decode the file's content.

    Raises:
        HeaderError: it is not a table of offsets.
    """
    try:
        table = fastjson.loads(content)["offsetTable"] or {}
        return {parse_queue(dict(key)): int(offset) for key, offset in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HeaderError(f"not a table of offsets: {error!r}") from None


def _read(path: Path) -> dict[MessageQueue, int]:
    """Return what the file holds, or else what the generation before it held."""
    try:
        return read_generations(path, decode_offsets) or {}
    except StoreError as error:
        log.error("group %s begins without offsets: %s", path.stem, error)
        return {}
