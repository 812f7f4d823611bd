"""The offsets at which queues begin and end, asked from their brokers.

Source: Java MQAdminImpl.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.client.session.session import ClientSession
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import GetMaxOffset, GetMinOffset, OffsetResponse, SearchOffset


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
