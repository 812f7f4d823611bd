"""The offsets at which queues begin and end, and the one at which a consumer begins to read.

Source: Java RebalancePushImpl.computePullFromWhereWithException.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from orbitmq.client.consume.offset_stores import OffsetStore
from orbitmq.client.session.arguments import LONG_MAX, choice, whole
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import GetMaxOffset, GetMinOffset, OffsetResponse, SearchOffset

_CONSUME_FROM = choice(ConsumeFrom)
_TIME_MS = whole(0, LONG_MAX)


def check_start(consume_from: ConsumeFrom, consume_from_ms: int | None) -> ConsumeFrom:
    """Check where a user lets a group begin that has no offset.

    Raises:
        InvalidArgument: there is no such place, or no time for TIMESTAMP.
    """
    _CONSUME_FROM("consume_from", consume_from)
    found = ConsumeFrom(consume_from)
    if consume_from_ms is not None:
        _TIME_MS("consume_from_ms", consume_from_ms)
    elif found is ConsumeFrom.TIMESTAMP:
        raise InvalidArgument("consume_from_ms", None, "a time, in ms since 1970, for ConsumeFrom.TIMESTAMP")
    return found


class StartOffsets:
    """Finds the first offset of queues.

    Args:
        store: keeps the group's offsets.
        queue_offsets: tell where queues begin and end.
        consume_from: where a queue begins that has no offset.
        consume_from_ms: for TIMESTAMP, in ms since 1970.
        stores: store what was found, so that the queue's next reader begins there, too.
        has_appeared: returns True for a queue that came while the consumer was open. It begins at its first message, not at its
            end: what was sent to it was sent to a group that reads. Brokers see to that for groups whose offsets they keep.
    """

    def __init__(
        self,
        store: OffsetStore,
        queue_offsets: QueueOffsets,
        consume_from: ConsumeFrom,
        consume_from_ms: int | None,
        *,
        stores: bool,
        has_appeared: Callable[[MessageQueue], bool] = lambda _queue: False,
    ) -> None:
        self._store = store
        self._queue_offsets = queue_offsets
        self._consume_from = consume_from
        self._consume_from_ms = consume_from_ms or 0
        self._stores = stores
        self._has_appeared = has_appeared

    async def find(self, queue: MessageQueue) -> int:
        """Return the offset at which `queue` begins."""
        offset = await self._store.load(queue)
        if offset is None:
            is_new = self._consume_from is ConsumeFrom.LAST and self._has_appeared(queue)
            start = ConsumeFrom.FIRST if is_new else self._consume_from
            offset = await self._queue_offsets.start(queue, start, self._consume_from_ms)
            if self._stores:
                await self._store.store(queue, offset)
        return offset


class OffsetRange(NamedTuple):
    """The messages a queue holds: from `begin` up to, and without, `end`."""

    begin: int
    end: int


class QueueOffsets:
    """Asks brokers where queues begin and end.

    Args:
        session: carries the requests.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def begin(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that is still there."""
        return await self._ask(queue, GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))

    async def end(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._ask(queue, GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))

    async def at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` or later."""
        return await self._ask(
            queue, SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp_ms=timestamp_ms)
        )

    async def start(self, queue: MessageQueue, consume_from: ConsumeFrom, timestamp_ms: int) -> int:
        """Return where a group without an offset begins."""
        if consume_from is ConsumeFrom.FIRST:
            return await self.begin(queue)
        if consume_from is ConsumeFrom.TIMESTAMP:
            return await self.at(queue, timestamp_ms)
        return await self.end(queue)

    async def _ask(self, queue: MessageQueue, header: object) -> int:
        answer = await self._session.call_queue(queue, header)
        address = self._session.routes.address(self._session.routes.broker_of(queue))
        return decode_header(OffsetResponse, expect(answer, address).ext_fields).offset
