"""The offset at which a consumer begins to read a queue: the group's, or else what its settings say.

Source: Java RebalancePushImpl.computePullFromWhereWithException.
"""

from __future__ import annotations

from orbitmq.client.consume.offsets.offset_store import OffsetStore
from orbitmq.client.consume.offsets.queue_offsets import QueueOffsets
from orbitmq.client.session.arguments import LONG_MAX, choice, whole
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue

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
        self._consume_from_ms = consume_from_ms or 0
        self._stores = stores

    async def find(self, queue: MessageQueue) -> int:
        """Return the offset at which `queue` begins."""
        offset = await self._store.load(queue)
        if offset is None:
            offset = await self._queue_offsets.start(queue, self._consume_from, self._consume_from_ms)
            if self._stores:
                await self._store.store(queue, offset)
        return offset
