"""Reading a store: messages of queues, records of the log, and the bounds of what can be read now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest

from orbitmq.clock import Clock
from orbitmq.store.log.clock_jumps import ClockJumps
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.scanning import committed_records, whole_records
from orbitmq.store.queues.consume_queue import BLANK_SIZE, Entry
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.reading import offset_at, read_matching, read_message, read_messages
from orbitmq.store.sync.durability import Durability
from orbitmq.store.values import Boundary, PropertyTest, ReadResult, ReadStatus
from orbitmq.wire.messages.record import Record

_COUNT_MAX = 32
_SIZE_MAX = 256 * 1024
_NEWEST_QUEUES = 16
"""Queues in which `newest_places` looks."""


class StoreReader:
    """The part of a store that reads.

    Args:
        jumps: where store times go back.
        is_sync: only what is durable may be read.
        waits_for_slaves: only what is replicated may be read, of what is appended from now on.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        durability: Durability,
        jumps: ClockJumps,
        *,
        clock: Clock,
        is_sync: bool,
        waits_for_slaves: bool = False,
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._durability = durability
        self._jumps = jumps
        self._clock = clock
        self._is_sync = is_sync
        self._replicated = commit_log.end if waits_for_slaves else None
        self._hidden: dict[str, int] = {}

    @property
    def min_physical_offset(self) -> int:
        """The CommitLog's first byte."""
        return self._commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Where the next record goes."""
        return self._commit_log.end

    @property
    def durable_offset(self) -> int:
        """Up to where the CommitLog is known to be on the disk."""
        return self._durability.durable

    @property
    def readable_end(self) -> int:
        """Up to where the CommitLog may be read."""
        end = self._durability.durable if self._is_sync else self._commit_log.end
        return end if self._replicated is None else min(end, self._replicated)

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        count_max: int = _COUNT_MAX,
        size_max: int = _SIZE_MAX,
        tag_codes: frozenset[int] | None = None,
    ) -> ReadResult:
        """Read messages of one queue from `queue_offset` on (see `reading.read_messages`)."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_QUEUE, 0, 0, 0)
        return read_messages(self._commit_log, queue, queue_offset, count_max, size_max, tag_codes)

    def read_matching(
        self, topic: str, queue_id: int, queue_offset: int, count_max: int, size_max: int, test: PropertyTest
    ) -> tuple[ReadResult, int]:
        """Read those messages of one queue whose properties pass a test (see `reading.read_matching`)."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_QUEUE, 0, 0, 0), 0
        return read_matching(self._commit_log, queue, queue_offset, count_max, size_max, test)

    def queue_entries(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[Entry] | None:
        """Return entries of one queue as they are; None without such a queue."""
        queue = self._queues.get(topic, queue_id)
        return None if queue is None else list(queue.entries(queue_offset, count_max))

    def message_at(self, topic: str, queue_id: int, queue_offset: int) -> Record | None:
        """Return the message at a queue offset, None when it is not there."""
        queue = self._queues.get(topic, queue_id)
        return None if queue is None else read_message(self._commit_log, queue, queue_offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last message that can be read, 0 for a queue that never had one."""
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue else 0

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the first message that can be read, 0 for a queue that never had one."""
        queue = self._queues.get(topic, queue_id)
        return queue.min_offset(self._commit_log.min_offset) if queue else 0

    def earliest_stored_at_ms(self, topic: str, queue_id: int) -> int:
        """Return when the first message that can be read was stored, -1 without one."""
        queue = self._queues.get(topic, queue_id)
        first = queue.min_offset(self._commit_log.min_offset) if queue else 0
        if queue is None or first >= queue.max_offset:
            return -1
        return self._commit_log.stored_at_ms(queue.entry(first)[0])

    def stored_at_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return when the message at a queue offset was stored, -1 when it is not there; its content is not looked at."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset(self._commit_log.min_offset) <= queue_offset < queue.max_offset:
            return -1
        return self._commit_log.stored_at_ms(queue.entry(queue_offset)[0]) or -1

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Return the queue offset that belongs to a store time (see `reading.offset_at`), 0 without a queue."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        return offset_at(self._commit_log, queue, timestamp_ms, boundary, self._jumps, self._clock())

    @property
    def hidden_topics(self) -> Mapping[str, int]:
        """The topics of which older messages are hidden, and before which store time, in ms since 1970."""
        return self._hidden

    def hide_before(self, topic: str, stored_ms: int) -> None:
        """Show no message of a topic that was stored before a time, though the log has it; 0: show all.

        Messages that come into the time's range are hidden with the next call.

        Args:
            stored_ms: ms since 1970.
        """
        is_wider = stored_ms < self._hidden.pop(topic, 0)
        if stored_ms:
            self._hidden[topic] = stored_ms
        for queue in self._queues.of_topic(topic):
            if is_wider:
                queue.hide_before(0)
            first = queue.min_offset(self._commit_log.min_offset)
            if not stored_ms or first >= queue.max_offset:
                continue
            known_first, known_ms = queue.first_stored_ms
            if known_first == first and stored_ms <= known_ms:
                continue
            place, now_ms = queue.entry(first)[0], self._clock()
            stored_at_ms = self._commit_log.stored_at_ms(place)
            counted_ms = self._jumps.counted_ms(place, stored_at_ms, now_ms)
            if counted_ms < stored_ms:
                first = offset_at(self._commit_log, queue, stored_ms, Boundary.LOWER, self._jumps, now_ms)
                # Behind the last message that is shown, others may wait for a sync or for slaves: they are new.
                queue.hide_before(queue.entry(first)[0] if first < queue.max_offset else queue.last_place() + 1)
            elif counted_ms == stored_at_ms:  # what counts as stored at another time may come to count differently
                queue.first_stored_ms = first, stored_at_ms

    def is_hidden(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Return True if the log has the message at a queue offset, but does not show it."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.base_offset <= queue_offset < self.min_offset(topic, queue_id):
            return False
        physical_offset, size, _ = queue.entry(queue_offset)
        return 0 < size < BLANK_SIZE and physical_offset >= self._commit_log.min_offset

    def counted_at_ms(self, record: Record) -> int:
        """Return when a message counts as stored: its store time, unless that lies in the future (see `ClockJumps`)."""
        return self._jumps.counted_ms(record.physical_offset, record.stored_at_ms, self._clock())

    def record_at(self, physical_offset: int, size: int | None = None, *, is_for_slave: bool = False) -> bytes | None:
        """Return the whole record that starts at `physical_offset`, None when no readable one does.

        Args:
            size: what it must measure, in bytes; None: any.
            is_for_slave: also one that consumers may not see yet.
        """
        record = self._commit_log.record_at(physical_offset)
        if record is None or is_for_slave:
            return record
        return record if self._may_show(physical_offset, len(record), size) else None

    def parsed_at(self, physical_offset: int, size: int | None = None) -> Record | None:
        """Return the record that `record_at` does, parsed."""
        record = self._commit_log.parsed_at(physical_offset, check_crc=True)
        return record if record is not None and self._may_show(physical_offset, record.size, size) else None

    def _may_show(self, physical_offset: int, size: int, expected: int | None) -> bool:
        if expected is not None and size != expected:
            return False
        return physical_offset + size <= self.readable_end

    def read_raw(self, physical_offset: int, size: int) -> bytes:
        """Return bytes of the log, records or parts of them: fewer where a segment or the log ends or has been deleted.

        Raises:
            StoreUnavailable: the file was cut from outside.
        """
        return self._commit_log.read(physical_offset, min(size, self._commit_log.end - physical_offset))

    def records_between(self, start: int, stop: int) -> Iterator[Record]:
        """Yield the records from one place of the log to another, but no damaged ones."""
        return whole_records(self._commit_log, start, min(stop, self._commit_log.end))

    def committed_from(self, physical_offset: int) -> Iterator[Record]:
        """Yield the records of committed transactions from there to the log's end: for starts, it takes a while."""
        return committed_records(self._commit_log, physical_offset, self._commit_log.end)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that ever had a message, sorted."""
        return sorted(queue.queue_id for queue in self._queues.of_topic(topic))

    def newest_places(self) -> list[int]:
        """Return where some messages of the queues with the newest ones begin in the log, the last one first.

        The further back, the fewer: their distances in a queue double.
        """
        queues = [queue for queue in self._queues if queue.max_offset > queue.base_offset]
        newest = nlargest(_NEWEST_QUEUES, queues, key=lambda queue: queue.entry(queue.max_offset - 1)[0])
        places = {
            queue.entry(queue.max_offset - (1 << power))[0]
            for queue in newest
            for power in range((queue.max_offset - queue.base_offset).bit_length())
        }
        return sorted((place for place in places if place >= self._commit_log.min_offset), reverse=True)

    def topics(self) -> list[str]:
        """Return the topics that have consume queues, sorted."""
        return self._queues.topics()
