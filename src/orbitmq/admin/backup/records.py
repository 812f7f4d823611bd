"""The messages of a queue in a file: the records of a broker's pull answers, one behind the other. Pure.

Each record begins with its own size, so the records need no further frame. What a file holds is checked record by record:
those of one queue, whole, with offsets that only grow.

Source: docs/formats/backup.md, docs/formats/commit_log.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import SysFlag
from orbitmq.wire.messages.record import RECORD_SIZE_MIN, Blank, Record, parse_record

RECORD_SIZE_MAX = 128 * 1024 * 1024
"""Bytes of one record; brokers take messages of 4 MiB unless they are set otherwise."""
_SIZE_BYTES = 4


class RecordReader:
    """Collects bytes in any slices, and yields the whole records of one queue that they complete.

    Args:
        topic: whose records they are.
        queue_id: of the queue.
        begin: the first queue offset that may come.
        end: the first one that may not.
    """

    def __init__(self, topic: str, queue_id: int, begin: int, end: int) -> None:
        self.count = 0
        self._topic = topic
        self._queue_id = queue_id
        self._next = begin
        self._end = end
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Record]:
        """Yield the records that are whole with these bytes.

        Raises:
            CorruptRecord: bytes that are no record of this queue.
        """
        self._buffer += data
        while (record := self._take()) is not None:
            yield record

    def finish(self) -> None:
        """Check that no record is cut short at the end.

        Raises:
            CorruptRecord: one is.
        """
        if self._buffer:
            raise CorruptRecord(-1, f"cut short after {len(self._buffer)} bytes, behind {self.count} records")

    def _take(self) -> Record | None:
        if len(self._buffer) < _SIZE_BYTES:
            return None
        size = int.from_bytes(self._buffer[:_SIZE_BYTES], "big")
        if not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX:
            raise CorruptRecord(
                -1, f"size {size} behind {self.count} records, limits {RECORD_SIZE_MIN} and {RECORD_SIZE_MAX}"
            )
        if len(self._buffer) < size:
            return None
        record = parse_message(bytes(self._buffer[:size]))
        check_place(record, self._topic, self._queue_id, self._next, self._end)
        del self._buffer[:size]
        self._next = record.queue_offset + 1
        self.count += 1
        return record


def parse_message(view: bytes | memoryview) -> Record:
    """Return the record that begins with these bytes.

    Raises:
        CorruptRecord: none does.
    """
    record = parse_record(view)
    if isinstance(record, Blank):
        raise CorruptRecord(-1, "segment filler among messages")
    return record


def check_place(record: Record, topic: str, queue_id: int, begin: int, end: int) -> None:
    """Check that a record is of a queue, and has an offset from `begin` up to `end`.

    Raises:
        CorruptRecord: it is elsewhere.
    """
    if record.topic != topic or record.queue_id != queue_id:
        reason = f"of queue {record.queue_id} of {record.topic!r:.80} among those of queue {queue_id} of {topic}"
        raise CorruptRecord(record.physical_offset, reason)
    if not begin <= record.queue_offset < end:
        reason = f"queue offset {record.queue_offset}, expected one from {begin} to {end - 1}"
        raise CorruptRecord(record.physical_offset, reason)


def is_batch(record: Record) -> bool:
    """Say whether a record holds several messages, as those of topics of the type BatchCQ do."""
    return bool(record.sys_flag & SysFlag.INNER_BATCH)
