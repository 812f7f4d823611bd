"""Offsets in a file of this machine, for broadcasting: each consumer reads everything and keeps its own offsets.

The file holds Java's form (`{"offsetTable":{{"brokerName":..,"queueId":..,"topic":..}:offset}}`). A crash
leaves the old or the new content; the generation before stays as `.bak`.

Source: Java LocalFileOffsetStore.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import read_generations, replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.heartbeat import parse_queue, queue_document

log = logging.getLogger(__name__)


class LocalOffsets:
    """The offset store of broadcasting consumers (OffsetStore).

    Args:
        directory: holds one directory per client id.
        group: the consumer group; gives the file its name.
    """

    def __init__(self, directory: Path, group: str) -> None:
        self._directory = directory
        self._group = group
        self._path = directory / f"{group}.json"
        self._offsets: dict[MessageQueue, int] = {}
        self._writing: asyncio.Task[None] | None = None
        self._queued: asyncio.Task[None] | None = None

    def open(self, client_id: str) -> None:
        """Read what the file of this client holds; a file that cannot be used is logged and counts as empty."""
        self._path = self._directory / client_id / f"{self._group}.json"
        self._offsets = _read(self._path)

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
        HeaderError: it is no table of offsets.
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
