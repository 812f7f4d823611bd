"""One consume queue: where the messages of one queue of one topic lie. Source: docs/formats/consume_queue.md.

```
| physical offset 8 | size 4 | tag code 8 |     20 bytes per message; its index is the message's queue offset
```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from orbitmq.store.disk import Buffer, Disk
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.segment_log import SegmentLog
from orbitmq.wire.messages.record import format_topic

UNIT = Struct(">qiq")
BLANK_SIZE = 0x7FFFFFFF
"""The size in an entry that stands before the first message of a queue."""
BLANK_UNIT = UNIT.pack(0, BLANK_SIZE, 0)
RESERVE_SIZE = 64 * 1024

_GAP_FILES_MAX = 10
_OFFSET_END = 1 << 48

log = logging.getLogger(__name__)

Entry = tuple[int, int, int]
"""(physical offset, size, tag code)."""


class ConsumeQueue:
    """The entries of one queue, in files of `unit_count` entries each.

    Two ends: `next_offset` is the queue offset that the next appended message gets, `max_offset` ends what readers see.
    They differ while messages wait for their sync.
    """

    def __init__(self, disk: Disk, directory: Path, unit_count: int, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.magic, self.topic_part = format_topic(topic)
        self.log = SegmentLog(disk, directory, unit_count * UNIT.size, RESERVE_SIZE, is_one_of_many=True)
        self.next_offset = 0
        self.max_offset = 0
        self.reserved_offset = 0
        """There is room for the entries before this one."""
        self.synced_offset = 0
        self.data_end = 0
        """Behind this entry there were only zeros when the queue was loaded."""
        self._unit_count = unit_count
        self._min_offset = 0
        self._min_known_at = -1
        # The segment that is being written, in plain attributes for `put`.
        self._buffer: Buffer = bytearray()
        self._base_offset = 0
        self._end_offset = 0

    @property
    def base_offset(self) -> int:
        """The first entry that there is a file for."""
        return self.log.base // UNIT.size

    def load(self) -> None:
        """Find the files and where the entries end; `truncate` has the last word during recovery.

        Raises:
            DamagedLog: files are missing or cut short.
            StoreError: files of another size than configured.
        """
        self.log.load()
        if self.log.segments:
            last = self.log.segments[-1]
            # Behind this lie holes: on a full tmpfs, looking at one through the map would kill the process.
            self.data_end = -(-(last.base + last.file.data_end(0)) // UNIT.size)
        self.next_offset = self.max_offset = self._find_end()
        self.synced_offset = self.reserved_offset = self.max_offset

    def reserve(self, queue_offset: int) -> None:
        """Make room for the entry of `queue_offset`, so that putting it cannot fail.

        Raises:
            OSError: the disk has none.
        """
        position = queue_offset * UNIT.size
        segment = self.log.find(position)
        if segment is None:
            segment = self._extend(queue_offset)
        room = segment.reserve(position - segment.base + UNIT.size)
        self.reserved_offset = (segment.base + room) // UNIT.size

    def lacks_beginning(self, physical_min: int) -> bool:
        """Say whether the first files are missing: the first that is there begins with a message that is in the log.

        Args:
            physical_min: the CommitLog's first byte.
        """
        return (
            self.base_offset > 0
            and self.max_offset > self.base_offset
            and not _is_gone(self.entry(self.base_offset), physical_min)
        )

    def put(self, queue_offset: int, physical_offset: int, size: int, tag_code: int) -> None:
        """Write the next entry. There is room for it."""
        if queue_offset >= self._end_offset:
            self._enter(queue_offset)
        UNIT.pack_into(self._buffer, (queue_offset - self._base_offset) * 20, physical_offset, size, tag_code)
        self.max_offset = queue_offset + 1

    def goes_on_at(self, queue_offset: int) -> bool:
        """Say whether this can be the next message: the next number, the first of all, or a topic made again."""
        return queue_offset in (self.max_offset, 0) or (not self.log.segments and 0 < queue_offset < _OFFSET_END)

    def replay(self, queue_offset: int, physical_offset: int, size: int, tag_code: int) -> bool:
        """Write the entry of a message that recovery found in the CommitLog.

        Where messages before it are missing, their entries lead to this one.

        Returns:
            False, and nothing is written: no broker gave this queue offset; no checksum covers it.
        """
        is_gap = self.max_offset < queue_offset <= self.max_offset + _GAP_FILES_MAX * self._unit_count
        if not is_gap and not self.goes_on_at(queue_offset):
            return False
        if queue_offset < self.max_offset:
            self.truncate(queue_offset)
        if queue_offset >= self.reserved_offset:
            self.reserve(queue_offset)
        if queue_offset > self.max_offset:
            self._fill_gap(queue_offset, UNIT.pack(physical_offset, size, tag_code))
        self.put(queue_offset, physical_offset, size, tag_code)
        self.next_offset = self.max_offset
        return True

    def restart(self, queue_offset: int) -> None:
        """Drop the entries from `queue_offset` on; when it lies behind them all, drop all: the queue begins there."""
        self.truncate(queue_offset if queue_offset <= self.max_offset else -1)

    def sync(self) -> None:
        """Return when all entries are on the disk. Raises OSError."""
        for segment in self.unsynced():
            segment.file.sync()
        self.synced_offset = self.max_offset

    def truncate(self, max_offset: int) -> None:
        """Drop the entries from `max_offset` on; -1: the files, too."""
        self.log.truncate(max_offset * UNIT.size)
        max_offset = max(max_offset, 0)
        self.next_offset = self.max_offset = self.reserved_offset = max_offset
        self.synced_offset = min(self.synced_offset, max_offset)
        self._min_known_at = -1
        self._end_offset = 0

    def entry(self, queue_offset: int) -> Entry:
        """Return one entry; zeros where there is none."""
        position = queue_offset * UNIT.size
        segment = self.log.find(position)
        if segment is None:
            return (0, 0, 0)
        found: Entry = UNIT.unpack_from(segment.buffer, position - segment.base)
        return found

    def entries(self, queue_offset: int, count_max: int) -> Iterator[Entry]:
        """Yield up to `count_max` entries from `queue_offset` on, as far as readers may see."""
        end = min(queue_offset + count_max, self.max_offset)
        while queue_offset < end:
            position = queue_offset * UNIT.size
            segment = self.log.find(position)
            if segment is None:
                return
            stop = min(end, segment.end // UNIT.size)
            # The slice is a copy: a view would keep the map open while a reader holds this generator.
            yield from UNIT.iter_unpack(segment.buffer[position - segment.base : stop * UNIT.size - segment.base])
            queue_offset = stop

    def stored_entries(self, queue_offset: int, count_max: int) -> list[Entry]:
        """Return up to `count_max` entries from `queue_offset` on, as they were loaded, whoever may see them."""
        end = min(queue_offset + count_max, max(self.data_end, self.max_offset))
        found: list[Entry] = []
        while queue_offset < end and (segment := self.log.find(queue_offset * UNIT.size)) is not None:
            stop = min(end * UNIT.size, segment.end)
            found += UNIT.iter_unpack(segment.buffer[queue_offset * UNIT.size - segment.base : stop - segment.base])
            queue_offset = stop // UNIT.size
        return found

    def min_offset(self, physical_min: int) -> int:
        """Return the queue offset of the first message that is still in the CommitLog.

        Found by bisection, and remembered until the CommitLog's beginning moves: every pull asks.

        Args:
            physical_min: the CommitLog's first byte.
        """
        if physical_min != self._min_known_at or self._min_offset > self.max_offset:
            self._min_offset = self.search(lambda entry: _is_gone(entry, physical_min))
            self._min_known_at = physical_min if self._min_offset < self.max_offset else -1
        return self._min_offset

    def search(self, is_before: Callable[[Entry], bool], first: int | None = None) -> int:
        """Return the first queue offset whose entry is not `is_before`, by bisection; `max_offset` if all are."""
        low = self.base_offset if first is None else first
        return _first_without(lambda offset: is_before(self.entry(offset)), low, self.max_offset)

    def known_end(self) -> int:
        """Return where the entries end by the last file that there is, also where other files are missing."""
        if self.max_offset or not self.log.segments:
            return self.max_offset
        last = self.log.segments[-1]
        count = -(-last.file.data_end(0) // UNIT.size)
        return last.base // UNIT.size + _first_without(
            lambda n: UNIT.unpack_from(last.buffer, n * 20)[1] != 0, 0, count
        )

    def resume(self, queue_offset: int) -> None:
        """Let a queue without files go on at `queue_offset`, and sync that: what was before it is gone. Raises OSError."""
        self.reserve(queue_offset)
        for segment in self.log.segments:
            segment.file.sync()

    def detach_expired(self, physical_min: int) -> Segment | None:
        """Give up the first file when nothing in it leads into the log any more; its removal is the caller's.

        What stays begins with an entry of a message that is gone, too: so a start can tell that no file is missing before
        it. And the last file stays in any case, for it says where the queue goes on: offsets are never given twice.

        Args:
            physical_min: the CommitLog's first byte.
        """
        segments = self.log.segments
        # Where an entry in the next file is on the disk, the name of that file is, too.
        if not segments or segments[0].end >= self.synced_offset * UNIT.size:
            return None
        following = self.entry(segments[0].end // UNIT.size)
        if following[1] <= 0 or not _is_gone(following, physical_min):
            return None
        return self.log.detach_first()

    def unsynced(self) -> list[Segment]:
        """Return the segments that hold entries which were not synced yet."""
        return self.log.between(self.synced_offset * UNIT.size, self.max_offset * UNIT.size)

    def close(self) -> None:
        """Close every file."""
        self.log.close()

    def forget(self) -> None:
        """Close every file and know none: they are being deleted, and a sync under way must not bring them back."""
        self.log.close()
        self.log.segments.clear()

    def discard(self) -> None:
        """Delete every file: the queue is to be written anew."""
        self.truncate(-1)
        self.log.remove()

    def _find_end(self) -> int:
        """Return the first offset without an entry: doubling, then bisecting, so that few pages of a hole are touched."""
        if not self.log.segments:
            return 0
        first = self.log.segments[-1].base // UNIT.size
        low, high, end = first, first, self.data_end
        while high < end and self.entry(high)[1]:
            low, high = high, first + 2 * (high - first) + 1
        return _first_without(lambda offset: self.entry(offset)[1] != 0, low, min(high, end))

    def _extend(self, queue_offset: int) -> Segment:
        """Add the file for `queue_offset`.

        In a queue that begins later than at 0, blanks stand before it, in a file of their own if need be: where neither
        they do nor messages that were cleaned away, the first files are missing.
        """
        is_first = not self.log.segments
        first_offset = max(queue_offset - 1, 0) if is_first else queue_offset
        segment = self.log.extend((first_offset - first_offset % self._unit_count) * UNIT.size)
        if is_first:
            self._fill(segment, segment.base // UNIT.size, min(queue_offset, segment.end // UNIT.size), BLANK_UNIT)
        while segment.end <= queue_offset * UNIT.size:  # replay may leave out whole files
            segment = self.log.extend()
        if is_first:
            self.max_offset = self.next_offset = queue_offset
        return segment

    def _fill_gap(self, queue_offset: int, unit: bytes) -> None:
        """Let the entries up to `queue_offset` lead to the message there: their own are not in the log any more."""
        log.warning(
            "%s, queue %d: messages %d to %d are missing", self.topic, self.queue_id, self.max_offset, queue_offset - 1
        )
        for segment in self.log.between(self.max_offset * UNIT.size, queue_offset * UNIT.size):
            first = max(self.max_offset, segment.base // UNIT.size)
            self._fill(segment, first, min(queue_offset, segment.end // UNIT.size), unit)

    def _fill(self, segment: Segment, first: int, end: int, unit: bytes) -> None:
        start, stop = first * UNIT.size - segment.base, end * UNIT.size - segment.base
        if stop > start:
            segment.reserve(stop)
            segment.buffer[start:stop] = unit * (end - first)

    def _enter(self, queue_offset: int) -> None:
        segment = self.log.find(queue_offset * UNIT.size)
        assert segment is not None, "reserve comes before put"
        self._buffer = segment.buffer
        self._base_offset = segment.base // UNIT.size
        self._end_offset = segment.end // UNIT.size


def _is_gone(entry: Entry, physical_min: int) -> bool:
    physical_offset, size, _tag_code = entry
    return size == BLANK_SIZE or physical_offset < physical_min


def _first_without(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number in [low, high) for which `holds` ends, `high` if it never does."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            low = middle + 1
        else:
            high = middle
    return low
