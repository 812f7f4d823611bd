"""The offset at which a consumer begins to read a queue: the group's, or else what its settings say.

Source: Java RebalancePushImpl.computePullFromWhereWithException.
"""

from __future__ import annotations

from orbitmq.client.consume.offsets.offset_store import OffsetStore
from orbitmq.client.consume.offsets.queue_offsets import QueueOffsets
from orbitmq.clock import now_ms
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue

HALF_AN_HOUR_MS = 30 * 60 * 1000


class StartOffsets:
    """Finds the first offset of queues.

    Args:
        store: keeps the group's offsets.
        queue_offsets: tell where queues begin and end.
        consume_from: where a queue begins that has no offset.
        consume_from_ms: for TIMESTAMP; half an hour ago when None.
        stores: store what was found, so that the queue's next reader begins there, too.
    """

    def __init__(
        self,
        store: OffsetStore,
        queue_offsets: QueueOffsets,
        consume_from: ConsumeFrom,
        consume_from_ms: int | None,
        *,
        stores: bool,
    ) -> None:
        self._store = store
        self._queue_offsets = queue_offsets
        self._consume_from = consume_from
        self._consume_from_ms = consume_from_ms
        self._stores = stores

    async def find(self, queue: MessageQueue) -> int:
        """Return the offset at which `queue` begins."""
        offset = await self._store.load(queue)
        if offset is None:
            timestamp_ms = self._consume_from_ms if self._consume_from_ms is not None else now_ms() - HALF_AN_HOUR_MS
            offset = await self._queue_offsets.start(queue, self._consume_from, timestamp_ms)
            if self._stores:
                await self._store.store(queue, offset)
        return offset
