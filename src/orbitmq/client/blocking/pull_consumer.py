"""The pull consumer for code without an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.consume.offsets.queue_offsets import OffsetRange
from orbitmq.client.pull_consumer import POLL_COUNT_MAX, POLL_TIMEOUT_MS, PullConsumer
from orbitmq.client.session.door import RULES
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class BlockingPullConsumer(BlockingClient[PullConsumer]):
    """Reads queues that the caller assigns; takes the arguments of `orbitmq.PullConsumer`.

    with PullConsumer("audit", name_servers=["127.0.0.1:9876"]) as consumer:
        consumer.assign(consumer.queues("orders"))
        while messages := consumer.poll():
            ...
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: PullConsumer(group, name_servers, **settings), f"consumer {group}")

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues."""
        return self._loop_thread.call(self._client.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others."""
        self._loop_thread.apply(self._client.assign, list(RULES["queues"]("queues", queues)))

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return self._loop_thread.apply(lambda: self._client.assignment)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on reading `queue` at `queue_offset`."""
        self._loop_thread.apply(self._client.seek, queue, queue_offset)

    def seek_to_begin(self, queue: MessageQueue) -> int:
        """Go on at the queue's first message; return its offset."""
        return self._loop_thread.call(self._client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> int:
        """Go on behind the queue's last message; return the offset of the next one."""
        return self._loop_thread.call(self._client.seek_to_end(queue))

    def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Go on at the first message stored at `timestamp_ms` or later; return its offset."""
        return self._loop_thread.call(self._client.seek_to_timestamp(queue, timestamp_ms))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message that `poll` gives of `queue`."""
        return self._loop_thread.apply(self._client.position, queue)

    def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, count_max: int = POLL_COUNT_MAX) -> list[StoredMessage]:
        """Return messages of the assigned queues as they come; an empty list when none came in time."""
        return self._loop_thread.call(self._client.poll(timeout_ms, count_max))

    def offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, OffsetRange]:
        """Return where each queue begins and ends now."""
        return self._loop_thread.call(self._client.offsets(list(RULES["queues"]("queues", queues))))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in `queue`, None when there is none."""
        return self._loop_thread.call(self._client.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets for the group, by default those up to which `poll` gave messages."""
        self._loop_thread.call(self._client.commit(offsets))
