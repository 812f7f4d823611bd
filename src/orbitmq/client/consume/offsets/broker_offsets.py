"""A group's offsets at the brokers that hold the queues.

Source: Java RemoteBrokerOffsetStore.
"""

from __future__ import annotations

from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.model.group import SUBSCRIBE_ALL, TAG
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import OffsetResponse, PullMessage, PullSysFlag, QueryConsumerOffset, UpdateConsumerOffset


class BrokerOffsets:
    """The offset store of clustering groups (OffsetStore).

    Args:
        session: carries the requests.
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
        answer = await self._session.call_queue(queue, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        address = self._session.routes.address(self._session.routes.broker_of(queue))
        offset = decode_header(OffsetResponse, expect(answer, address).ext_fields).offset
        return offset if offset >= 0 else None  # Java answers -1 where it has none

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the group's offset in `queue`; returns when the broker has it."""
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
        header = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            count_max=1,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription=SUBSCRIBE_ALL,
            sub_version=0,
            expression_type=TAG,
            broker_name=queue.broker_name,
        )
        await self._session.call_queue(queue, header, only_this=True)
