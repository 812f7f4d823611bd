"""The records of a logical queue's pull, with the number and the offsets that they have there. Pure.

Brokers give them as they are stored, in the queue behind it, and say by how much their offsets differ.

Source: Java PullAPIWrapper.processPullResult (offsetDelta).
"""

from __future__ import annotations

from struct import Struct

from orbitmq.client.routing.route_queues import is_logical
from orbitmq.model.route import MessageQueue

_SIZE = Struct(">I")
_QUEUE_ID_AT, _QUEUE_OFFSET_AT = 12, 20
_QUEUE_ID, _QUEUE_OFFSET = Struct(">i"), Struct(">q")
_HEAD_SIZE = _QUEUE_OFFSET_AT + _QUEUE_OFFSET.size


def logical_records(records: bytes, queue: MessageQueue, offset_delta: int | None) -> bytes:
    """Return whole records, back to back, as records of their logical queue; those of a plain queue as they are.

    What is damaged stays as it is, for whoever decodes it.
    """
    if not is_logical(queue):
        return records
    found = bytearray(records)
    start = 0
    while start + _HEAD_SIZE <= len(found):
        (size,) = _SIZE.unpack_from(found, start)
        if size < _HEAD_SIZE:
            break
        (queue_offset,) = _QUEUE_OFFSET.unpack_from(found, start + _QUEUE_OFFSET_AT)
        _QUEUE_ID.pack_into(found, start + _QUEUE_ID_AT, queue.queue_id)
        _QUEUE_OFFSET.pack_into(found, start + _QUEUE_OFFSET_AT, queue_offset + (offset_delta or 0))
        start += size
    return bytes(found)
