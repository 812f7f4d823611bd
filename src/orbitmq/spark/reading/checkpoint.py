"""A stream's position, as Spark's checkpoint keeps it. Pure.

Queries that were started with an older version of the connector go on: what is written here once is read for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Offsets, format_offsets, json_items, parse_offsets


class Origin(NamedTuple):
    """The first message that a queue holds: its offset, and when it was stored, in ms since 1970.

    Retention moves both up. A topic that was deleted and created again begins again, with a message that was stored later.
    """

    offset: int
    stored_at_ms: int

    def is_of_another(self, now: Origin) -> bool:
        """Return True if a queue that begins at `now` is another one. A slave may keep more of the same than its master."""
        return now.offset <= self.offset and now.stored_at_ms > self.stored_at_ms


Origins = Mapping[MessageQueue, Origin]
CLOCK_MARGIN_MS = 60_000
"""By so much the clocks of driver and brokers may differ."""
_FIELDS = frozenset({"queues", "begins", "firstOffsets", "firstTimes", "reachedAtMs"})
_NONE: Origins = MappingProxyType({})


class StreamPosition(NamedTuple):
    """How far a stream has come, as its checkpoint keeps it.

    `begins` says for some queues where the micro-batch that ends here began; it overrules the position before. The first
    batch of a stream lists all its queues there: a restart before that batch is committed asks for the initial offset
    again, and "latest" would have moved on by then. Later batches list queues that were new to them.

    `origins` says of which topic the offsets are, where that was known: positions of older versions have none.

    `reached_at_ms` is when the position was planned, in ms since 1970, 0 where that was not noted: whatever lies before its
    offsets was stored by then.
    """

    offsets: Offsets
    begins: Offsets = {}
    origins: Origins = _NONE
    reached_at_ms: int = 0

    @property
    def is_initial(self) -> bool:
        """True for the position before the first batch."""
        return self.offsets == self.begins

    def has_had(self, queue: MessageQueue) -> bool:
        """Return True unless a queue has always been empty, as far as the position says: its end loses nothing."""
        return self.seen(queue) > 0

    def seen(self, queue: MessageQueue) -> int:
        """Return the offset up to which a queue is known to have had messages: those that were read, or its first one."""
        origin = self.origins.get(queue)
        return max(self.offsets.get(queue, 0), 0 if origin is None else origin.offset + 1)

    def is_recreated(self, queue: MessageQueue, now: Origin) -> bool:
        """Return True if a queue that begins at `now` is another one than that of its name which was read up to here."""
        then, offset = self.origins.get(queue), self.offsets.get(queue)
        if then is not None and then.is_of_another(now):
            return True
        if offset is None or not self.reached_at_ms:
            return False
        # One that was trimmed past its old beginning: what it holds below the position came after the position was reached.
        return now.offset < offset and now.stored_at_ms > self.reached_at_ms + CLOCK_MARGIN_MS


def format_position(position: StreamPosition) -> dict[str, Any]:
    """Return a position as the JSON object that Spark keeps in its checkpoint."""
    document: dict[str, Any] = {"queues": format_offsets(position.offsets)}
    if position.begins or position.is_initial:
        document["begins"] = format_offsets(position.begins)
    if position.origins:
        document["firstOffsets"] = format_offsets({queue: one.offset for queue, one in position.origins.items()})
        document["firstTimes"] = format_offsets({queue: one.stored_at_ms for queue, one in position.origins.items()})
    if position.reached_at_ms:
        document["reachedAtMs"] = position.reached_at_ms
    return document


def parse_position(document: Any) -> StreamPosition:
    """Return the position that a checkpoint's JSON object spells.

    Raises:
        InvalidArgument: the object was not written by this connector.
    """
    fields = dict(json_items("checkpointed position", document))
    if "queues" not in fields or not fields.keys() <= _FIELDS:
        raise InvalidArgument("checkpointed position", document, f"an object with {', '.join(sorted(_FIELDS))}")
    queues, begins, offsets, times_ms = (
        parse_offsets(fields.get(name, {}), 0) for name in ("queues", "begins", "firstOffsets", "firstTimes")
    )
    origins = {queue: Origin(offset, times_ms[queue]) for queue, offset in offsets.items() if queue in times_ms}
    reached_at_ms = fields.get("reachedAtMs", 0)
    if not isinstance(reached_at_ms, int):
        raise InvalidArgument("checkpointed position", reached_at_ms, "reachedAtMs: milliseconds since 1970")
    return StreamPosition(queues, begins, origins, reached_at_ms)
