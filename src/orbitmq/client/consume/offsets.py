"""Offsets at the brokers: where queues begin and end, and how far a group has come.

Source: Java RemoteBrokerOffsetStore, MQAdminImpl; facts of the requests 14, 15, 29, 30 and 31.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from orbitmq.client.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)


class OffsetRange(NamedTuple):
    """The messages a queue holds: from `begin` up to, and without, `end`."""

    begin: int
    end: int


class OffsetStore(Protocol):
    """Where a group's progress is kept."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the group's offset in `queue`, None when there is none."""
        ...

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the group's offset in `queue`."""
        ...


class QueueOffsets:
    """Asks brokers where queues begin and end."""

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
        answer = await self._session.call(queue.broker_name, header)
        address = self._session.routes.address(queue.broker_name)
        return decode_header(OffsetResponse, expect(answer, address).ext_fields).offset


class BrokerOffsets:
    """A group's progress, kept by the brokers that hold the queues.

    Args:
        session: carries the questions.
        group: the consumer group.
        young_queue_at_zero: let the broker answer 0 for a group without an offset while the queue still holds its
            first message. Java's push consumers rely on it: what was sent to a new queue before its consumers saw
            the queue is not skipped.
    """

    def __init__(self, session: ClientSession, group: str, *, young_queue_at_zero: bool) -> None:
        self._session = session
        self._group = group
        self._set_zero = None if young_queue_at_zero else False

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the group's offset in `queue`, None when there is none."""
        header = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=self._set_zero,
        )
        answer = await self._session.call(queue.broker_name, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        address = self._session.routes.address(queue.broker_name)
        found = decode_header(OffsetResponse, expect(answer, address).ext_fields).offset
        return found if found >= 0 else None

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the group's offset in `queue`; returns when the broker has it."""
        header = UpdateConsumerOffset(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=queue_offset
        )
        answer = await self._session.call(queue.broker_name, header, only_this=True)
        expect(answer, self._session.routes.address(queue.broker_name))
