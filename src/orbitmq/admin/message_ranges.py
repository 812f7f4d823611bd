"""Messages between two times or offsets, read from many queues in one order. Nothing is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from orbitmq.admin.each_master import ask_each
from orbitmq.client.consume.start_offsets import OffsetRange
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue

T = TypeVar("T")

READ_TIMEOUT_S = 10
"""How long ranges are read; what has come until then is the answer."""
QUEUES_AT_A_TIME = 16
_POLL_MS = 500


class ShortReader(PullConsumer):
    """A consumer for tables, which keeps the beginnings of bodies alone.

    Args:
        body_size_max: bytes of each body that are kept.
        options: as of `PullConsumer`.
    """

    def __init__(self, group: str, name_servers: str, *, body_size_max: int, **options: Any) -> None:
        super().__init__(group, name_servers, **options)
        self._settings = replace(self._settings, body_size_max=body_size_max)


class Place(NamedTuple):
    """A message's place; places sort by the time, and in one millisecond by the queue: the same for each reading."""

    stored_at_ms: int
    broker_name: str
    queue_id: int
    queue_offset: int


class FoundRanges(NamedTuple):
    """What queues hold.

    Args:
        ranges: by queue.
        silent: the brokers that did not answer, and why; they may have more.
    """

    ranges: Mapping[MessageQueue, OffsetRange]
    silent: Mapping[str, str]


async def ranges_of_time(
    reader: PullConsumer, queues: Sequence[MessageQueue], begin_ms: int, end_ms: int
) -> FoundRanges:
    """Return what each queue holds of a time, its end included; queues without any are left out.

    Raises:
        ClientError: no broker answers.
    """

    async def find(queues: Sequence[MessageQueue]) -> dict[MessageQueue, OffsetRange]:
        bounds = await reader.offsets(queues)
        begins = await asyncio.gather(*(reader.offset_at(queue, begin_ms) for queue in queues))
        ends = await asyncio.gather(*(reader.offset_at(queue, end_ms + 1) for queue in queues))
        return {
            queue: OffsetRange(max(begin, bounds[queue].begin), min(end, bounds[queue].end))
            for queue, begin, end in zip(queues, begins, ends, strict=True)
        }

    return _filled(await _find_ranges(queues, find))


async def ranges_from(reader: PullConsumer, queues: Sequence[MessageQueue], queue_offset: int = 0) -> FoundRanges:
    """Return what each queue holds from an offset on; queues without any are left out.

    Raises:
        ClientError: no broker answers.
    """
    bounds, silent = await known_offsets(reader, queues)
    cut = {queue: OffsetRange(max(queue_offset, found.begin), found.end) for queue, found in bounds.items()}
    return _filled(FoundRanges(cut, silent))


async def known_offsets(reader: PullConsumer, queues: Sequence[MessageQueue]) -> FoundRanges:
    """Return where each queue begins and ends now.

    Raises:
        ClientError: no broker answers.
    """
    return await _find_ranges(queues, reader.offsets)


def _filled(found: FoundRanges) -> FoundRanges:
    return found._replace(ranges={queue: at for queue, at in found.ranges.items() if at.begin < at.end})


async def _find_ranges(
    queues: Sequence[MessageQueue],
    find: Callable[[Sequence[MessageQueue]], Awaitable[Mapping[MessageQueue, OffsetRange]]],
) -> FoundRanges:
    """Ask all brokers together, each for its queues."""

    async def ask(broker: str, _broker: str) -> Mapping[MessageQueue, OffsetRange]:
        return await find([queue for queue in queues if queue.broker_name == broker])

    brokers = sorted({queue.broker_name for queue in queues})
    answers, silent = await ask_each(dict(zip(brokers, brokers, strict=True)), ask, needs_one=True)
    return FoundRanges({queue: at for found in answers.values() for queue, at in found.items()}, silent)


async def read_ranges(
    reader: PullConsumer,
    ranges: Mapping[MessageQueue, OffsetRange],
    count: int,
    make: Callable[[StoredMessage], T],
) -> tuple[list[tuple[Place, T]], bool]:
    """Return the oldest messages of ranges, as `make` makes them of each, and whether all of the ranges were read in time.

    Args:
        make: keeps little of a message: there may be many, of 4 MiB each.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + READ_TIMEOUT_S
    found: list[tuple[Place, T]] = []
    queues = list(ranges)
    for first in range(0, len(queues), QUEUES_AT_A_TIME):
        pending = set(queues[first : first + QUEUES_AT_A_TIME])
        reader.assign(pending)
        for queue in pending:
            reader.seek(queue, ranges[queue].begin)
        while pending and loop.time() < deadline_s:
            found += [
                (Place(read.stored_at_ms, read.broker_name, read.queue_id, read.queue_offset), make(read))
                for read in await reader.poll(_POLL_MS)
                if read.queue_offset < ranges[MessageQueue(read.topic, read.broker_name, read.queue_id)].end
            ]
            pending = {queue for queue in pending if (reader.position(queue) or 0) < ranges[queue].end}
            reader.assign(pending)
        found = sorted(found, key=lambda one: one[0])[:count]
        if pending:
            return found, False
    return found, True
