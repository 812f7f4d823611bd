"""One consume queue: where the messages of one queue of one topic lie. Source: docs/formats/consume_queue.md.

```
| physical offset 8 | size 4 | tag code 8 |     20 bytes per message; its index is the message's queue offset
```

The latest entries are in memory until they are on the disk. A file is opened only to be written and synced in one go, or
to be read, and may be closed at any other time: nothing in it waits for a sync.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from orbitmq.errors import FileCut, NotWritten
from orbitmq.store.disk import Disk, DiskFile
from orbitmq.store.log.open_files import OpenFiles
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.segment_log import SegmentLog
from orbitmq.wire.messages.record import format_topic

UNIT = Struct(">qiq")
BLANK_SIZE = 0x7FFFFFFF
"""The size in an entry that stands before the first message of a queue."""
BLANK_UNIT = UNIT.pack(0, BLANK_SIZE, 0)

_ABSENT = bytes(UNIT.size)
"""Zeros in place of an entry; neighbours with a size never have so many in a row."""
_GAP_FILES_MAX = 10
_LOOK_COUNT = 64
"""Entries that are read in one pass where one after another would cost as much."""
_OFFSET_END = 1 << 48
_AHEAD_COUNT = 256
"""Entries that are read together: a consumer's next pulls go on where this one ends."""
_AHEAD_QUEUES_MAX = 512
"""Queues whose entries are read ahead; each takes five kilobytes."""

log = logging.getLogger(__name__)

Entry = tuple[int, int, int]
"""(physical offset, size, tag code)."""
Columns = tuple[tuple[int, ...], tuple[int, ...]]
"""The physical offsets of some entries, and their sizes."""
Chunk = tuple[int, bytes]
"""The queue offset of the first of some entries that are on the disk, and the entries."""
_NO_CHUNK: Chunk = (0, b"")


class EntryWrite(NamedTuple):
    """Entries on their way to one file. `run` may be called on another thread; then, on the loop, `ConsumeQueue.end`."""

    segment: Segment
    """Held open."""
    file: DiskFile
    start: int
    """Where the bytes go, within the file."""
    data: bytes
    """The entries, and zeros over what lies behind them."""
    end_offset: int
    """The queue offset after the last entry."""
    is_part: bool = False
    """There are more, for the next file."""

    def run(self) -> None:
        """Write and sync.

        Raises:
            NotWritten: nothing is lost, it may be tried again.
            OSError: the sync failed.
        """
        self.file.write(self.start, self.data)
        self.file.sync()


class ConsumeQueue:
    """The entries of one queue, in files of `unit_count` entries each.

    Two ends: `next_offset` is the queue offset that the next appended message gets, `max_offset` ends what readers see.
    They differ while messages wait for their sync.

    Args:
        form: of `format_topic`, where it is at hand.
        note_unsynced: told this queue when it begins to have entries that are not on the disk.
        open_files: see SegmentLog.
        read_ahead: the entries that were read ahead, of all queues together.
    """

    __slots__ = (
        "_ahead", "_hidden_before", "_min_known_at", "_min_offset", "_note_unsynced", "_seen", "_tail", "_unit_count", "data_end",
        "first_stored_ms", "is_cut_short", "log",
        "magic", "max_offset", "next_offset", "queue_id", "synced_offset", "topic", "topic_part",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path | str,
        unit_count: int,
        topic: str,
        queue_id: int,
        *,
        form: tuple[int, bytes] | None = None,
        note_unsynced: Callable[[ConsumeQueue], object] = lambda _queue: None,
        open_files: OpenFiles | None = None,
        read_ahead: dict[ConsumeQueue, Chunk] | None = None,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.magic, self.topic_part = form or format_topic(topic)
        self.log = SegmentLog(disk, directory, unit_count * UNIT.size, is_one_of_many=True, open_files=open_files)
        self.next_offset = 0
        self.max_offset = 0
        self.synced_offset = 0
        """The entries from here on are not known to be on the disk, and in memory."""
        self.data_end = 0
        """Behind this entry the files have only zeros."""
        self._unit_count = unit_count
        self._note_unsynced = note_unsynced
        self._ahead = {} if read_ahead is None else read_ahead
        self._tail = bytearray()
        # What the first and only file held when it was loaded: recovery looks there again and again.
        self._seen = b""
        self.is_cut_short = False
        """True when the last file was loaded with less than its size: entries at its end may be missing."""
        self._min_offset = 0
        self._min_known_at = -1
        self._hidden_before = 0
        self.first_stored_ms = -1, 0
        """The first message that was shown when that was last looked at: its queue offset, and when it was stored."""

    @property
    def base_offset(self) -> int:
        """The first entry that there is a file for, or the first of all while there is none."""
        return self.log.base // UNIT.size if self.log.segments else self.synced_offset

    @property
    def has_begun(self) -> bool:
        """False while the queue has neither a file nor an entry, and may begin anywhere."""
        return bool(self.log.segments or self._tail)

    @property
    def is_synced(self) -> bool:
        """Return True if the files have all entries, and nothing behind them."""
        return not self._tail and self.data_end <= self.max_offset

    @property
    def unsynced_size(self) -> int:
        """How many bytes of memory hold entries that are not on the disk."""
        return len(self._tail)

    def load(self) -> None:
        """Find the files and where the entries end; `truncate` has the last word during recovery.

        Raises:
            DamagedLog: files are missing or cut short.
            StoreError: files of another size than configured.
        """
        content = self.log.load_first()
        # Where it is full, the queue may go on behind a file that is missing.
        if content is not None and len(content) <= self.log.segment_size - UNIT.size:
            self.data_end = -(-len(content) // UNIT.size)
            self._seen = content.ljust(self.data_end * UNIT.size, b"\0")
        else:
            self.log.load()
            if self.log.segments:
                last = self.log.segments[-1]
                self.is_cut_short = not last.has_size
                self.data_end = -(-(last.base + last.file.data_end(0)) // UNIT.size)
        self.next_offset = self.max_offset = self.synced_offset = self._find_end()

    def last_place(self) -> int:
        """Return where the message of the last entry begins in the log, 0 without one."""
        physical_offset, size, _tag_code = self.entry(self.max_offset - 1)
        return 0 if size == BLANK_SIZE else physical_offset

    @property
    def seen_size(self) -> int:
        """How many bytes of memory hold what was loaded."""
        return len(self._seen)

    def seen_entries(self) -> list[Entry]:
        """Return all entries of a queue that was seen whole when it was loaded, none of any other."""
        return list(UNIT.iter_unpack(self._seen))

    def forget_seen(self) -> None:
        """Look at the files from now on: they are about to change, or there is too much to be kept."""
        self._seen = b""

    def lacks_start(self, physical_min: int) -> bool:
        """Return True if the first files are missing: the first that is there begins with a message that is in the log.

        Args:
            physical_min: the CommitLog's first byte.
        """
        return (
            self.base_offset > 0
            and self.max_offset > self.base_offset
            and not _is_gone(self.entry(self.base_offset), physical_min)
        )

    def put(self, queue_offset: int, physical_offset: int, size: int, tag_code: int) -> None:
        """Take the next entry. It cannot fail: the files follow later."""
        if not self._tail:
            self._note_unsynced(self)
        self._tail += UNIT.pack(physical_offset, size, tag_code)
        self.max_offset = queue_offset + 1

    def goes_on_at(self, queue_offset: int) -> bool:
        """Return True if this can be the next message: the next number, the first of all, or a topic made again."""
        return queue_offset in (self.max_offset, 0) or (not self.has_begun and 0 < queue_offset < _OFFSET_END)

    def replay(self, queue_offset: int, physical_offset: int, size: int, tag_code: int) -> bool:
        """Write the entry of a message that recovery found in the CommitLog.

        Where messages before it are missing, their entries lead to this one.

        Returns:
            False, and nothing is written: no broker gave this queue offset; no checksum covers it.

        Raises:
            OSError: a gap could not be filled in the files.
        """
        is_gap = self.max_offset < queue_offset <= self.max_offset + _GAP_FILES_MAX * self._unit_count
        if not is_gap and not self.goes_on_at(queue_offset):
            return False
        if queue_offset < self.max_offset:
            self.truncate(queue_offset)
        if queue_offset > self.max_offset:
            if self.has_begun:
                self._fill_gap(queue_offset, UNIT.pack(physical_offset, size, tag_code))
            else:
                self._begin_at(queue_offset)
        self.put(queue_offset, physical_offset, size, tag_code)
        self.next_offset = self.max_offset
        return True

    def restart(self, queue_offset: int) -> None:
        """Drop the entries from `queue_offset` on; when it lies behind them all, drop all: the queue begins there."""
        self.truncate(queue_offset if queue_offset <= self.max_offset else -1)

    def begin_write(self) -> EntryWrite | None:
        """Open the file that the first unsynced entries go to, made if need be; None when all are on the disk.

        The caller runs the write and calls `end_write`. Entries for later files come with the next write.

        Raises:
            NotWritten: the file cannot be opened or made.
        """
        first = self.synced_offset
        if self.is_synced:
            return None
        self._seen = b""
        try:
            segment = self.log.find(first * UNIT.size)
            if segment is None:
                # Files of a queue are made when their first entry is written, not when the queue is.
                segment = self.log.extend((first - first % self._unit_count) * UNIT.size, is_derived=True)
            file = segment.hold()
        except OSError as error:
            raise NotWritten(error.errno, error.strerror) from error
        file_end = segment.end // UNIT.size
        end = min(self.max_offset, file_end)
        # A copy for the thread: the loop goes on appending to the tail.
        data = bytes(self._tail[: (end - first) * UNIT.size])
        if end == self.max_offset and self.data_end > end:
            # What a truncation left behind the end is overwritten with zeros, or recovery would take it for entries.
            data += bytes((min(self.data_end, file_end) - end) * UNIT.size)
        return EntryWrite(segment, file, first * UNIT.size - segment.base, data, end, end < self.max_offset)

    def end_write(self, write: EntryWrite, *, is_synced: bool) -> None:
        """Give a write's file back, and forget what is on the disk; where there is more, the queue notes itself again."""
        write.segment.release()
        count = write.end_offset - self.synced_offset
        if not is_synced or count < 0 or not self.log.segments:
            return
        del self._tail[: count * UNIT.size]
        self.synced_offset = write.end_offset
        written = (write.segment.base + write.start + len(write.data)) // UNIT.size
        self.data_end = write.end_offset if written >= self.data_end else self.data_end
        if not self.is_synced:
            self._note_unsynced(self)

    def sync(self) -> None:
        """Return when all entries are on the disk. Raises as `begin_write` and `EntryWrite.run`."""
        while (write := self.begin_write()) is not None:
            is_synced = False
            try:
                write.run()
                is_synced = True
            finally:
                self.end_write(write, is_synced=is_synced)

    def truncate(self, max_offset: int) -> None:
        """Drop the entries from `max_offset` on; -1: the files, too.

        What files have behind them is overwritten with the next sync.
        """
        self._seen = b""
        self._ahead.pop(self, None)
        self.log.drop_behind(max_offset * UNIT.size)
        max_offset = max(max_offset, 0)
        del self._tail[max(max_offset - self.synced_offset, 0) * UNIT.size :]
        self.next_offset = self.max_offset = max_offset
        self.synced_offset = min(self.synced_offset, max_offset)
        self.data_end = min(self.data_end, self.log.end // UNIT.size)
        self._min_known_at = -1
        self.first_stored_ms = -1, 0
        if not self.is_synced:
            self._note_unsynced(self)

    def entry(self, queue_offset: int) -> Entry:
        """Return one entry; zeros where there is none."""
        position = (queue_offset - self.synced_offset) * UNIT.size
        if position >= 0:
            unit = bytes(self._tail[position : position + UNIT.size])
        else:
            unit = self._stored(queue_offset, queue_offset + 1)
        found: Entry = UNIT.unpack(unit) if unit else (0, 0, 0)
        return found

    def entries(self, queue_offset: int, count_max: int) -> Iterator[Entry]:
        """Yield up to `count_max` entries from `queue_offset` on, as far as readers may see.

        Raises:
            FileCut: there are none any more, and zeros in their place; a reader would pass over their messages.
        """
        end = min(queue_offset + count_max, self.max_offset)
        while queue_offset < end and (units := self._units(queue_offset, end)):
            yield from UNIT.iter_unpack(units)
            queue_offset += len(units) // UNIT.size

    def columns(self, queue_offset: int, count_max: int) -> Columns | None:
        """Return up to `count_max` entries as readers may see them, None when not all of them lie in one place.

        All of them by one call of `struct`: that takes a third of what one after another does, and every pull does it.

        Raises: as `entries`.
        """
        count = min(count_max, self.max_offset - queue_offset)
        units = self._units(queue_offset, queue_offset + count)
        if len(units) != count * UNIT.size:
            return None
        numbers = _struct_of(count).unpack(units)
        return numbers[0::3], numbers[1::3]

    def _units(self, first: int, end: int) -> bytes | bytearray:
        """Return the entries from `first` to `end` as far as they lie in one place; none where there are no files.

        Raises: as `entries`.
        """
        tail_offset = first - self.synced_offset
        if tail_offset >= 0:
            return self._tail[tail_offset * UNIT.size : (end - self.synced_offset) * UNIT.size]
        chunk_first, chunk = self._ahead.get(self, _NO_CHUNK)
        start, stop = (first - chunk_first) * UNIT.size, (min(end, self.synced_offset) - chunk_first) * UNIT.size
        if start >= 0 and stop <= len(chunk):
            return chunk[start:stop]
        found = self._stored(first, min(max(end, first + _AHEAD_COUNT), self.synced_offset))
        if not self.log.segments:
            return b""
        if not found or len(found) % UNIT.size or _ABSENT in found:
            raise FileCut(f"{self.log.directory} was cut short from outside; a restart writes it again")
        if len(self._ahead) >= _AHEAD_QUEUES_MAX:
            self._ahead.clear()
        self._ahead[self] = first, found
        return found[: stop - start]

    def stored_entries(self, queue_offset: int, count_max: int) -> Iterator[Entry]:
        """Yield up to `count_max` entries from `queue_offset` on, as the files have them, visible or not."""
        end = min(queue_offset + count_max, self.data_end)
        while queue_offset < end and (found := self._stored(queue_offset, end)):
            yield from UNIT.iter_unpack(found)
            queue_offset += len(found) // UNIT.size

    def min_offset(self, physical_min: int) -> int:
        """Return the queue offset of the first message that is still in the CommitLog and may be shown.

        Found by bisection, and remembered until the CommitLog's start moves: every pull asks.

        Args:
            physical_min: the CommitLog's first byte.
        """
        physical_min = max(physical_min, self._hidden_before)
        if physical_min != self._min_known_at or self._min_offset > self.max_offset:
            first = self.base_offset
            if first < self.max_offset and _is_gone(self.entry(first), physical_min):
                first = self.search(lambda entry: _is_gone(entry, physical_min))
            self._min_offset = first
            self._min_known_at = physical_min if self._min_offset < self.max_offset else -1
        return self._min_offset

    def hide_before(self, physical_offset: int) -> None:
        """Show no message that begins before this place of the CommitLog; 0: show all that there are."""
        self._hidden_before = physical_offset

    def search(self, is_before: Callable[[Entry], bool], first: int | None = None, stop: int | None = None) -> int:
        """Return the first queue offset whose entry is not `is_before`, by bisection; `stop` if all are: `max_offset`, or less."""
        low = self.base_offset if first is None else first
        high = self.max_offset if stop is None else stop
        return _first_without(lambda offset: is_before(self.entry(offset)), low, high)

    def known_end(self) -> int:
        """Return where the entries end by the last file that there is, also where other files are missing."""
        if self.max_offset or not self.log.segments:
            return self.max_offset
        last = self.log.segments[-1]
        count = -(-last.file.data_end(0) // UNIT.size)
        return last.base // UNIT.size + _first_without(lambda n: _is_entry(last, n), 0, count)

    def resume(self, queue_offset: int) -> None:
        """Let a queue without files go on at `queue_offset`, and sync that: what was before it is gone. Raises OSError."""
        if queue_offset:
            self._begin_at(queue_offset)

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

    def forget(self) -> None:
        """Close every file and know none: they are being deleted, and a write under way must not bring them back."""
        self._ahead.pop(self, None)
        self.log.close()
        self.log.segments.clear()
        self._tail.clear()
        self.synced_offset = self.max_offset
        self.data_end = 0

    def discard(self) -> None:
        """Delete every file: the queue is to be rebuilt."""
        self.truncate(-1)
        self.log.remove()

    def _stored(self, first: int, end: int) -> bytes:
        """Return the entries from `first` to `end` as far as one file has them."""
        if self._seen:
            seen_at = first * UNIT.size
            if 0 <= seen_at < len(self._seen):
                return self._seen[seen_at : end * UNIT.size]
        position = first * UNIT.size
        segment = self.log.find(position)
        if segment is None:
            return b""
        return segment.file.read(position - segment.base, min(end * UNIT.size, segment.end) - position)

    def _find_end(self) -> int:
        """Return the first offset without an entry: by doubling, then bisecting, for a hole may be large."""
        if not self.log.segments:
            return 0
        last = self.log.segments[-1]
        first = last.base // UNIT.size
        count = self.data_end - first
        if not count:
            return first
        if self._seen or count <= _LOOK_COUNT:
            sizes = [size for _, size, _ in UNIT.iter_unpack(self._stored(first, self.data_end))]
            return first + (sizes.index(0) if 0 in sizes else count)
        low = high = 0
        while high < count and _is_entry(last, high):
            low, high = high, 2 * high + 1
        return first + _first_without(lambda number: _is_entry(last, number), low, min(high, count))

    def _begin_at(self, queue_offset: int) -> None:
        """Begin later than at 0: blanks stand before the first entry, in a file of their own if need be.

        Where neither they do nor messages that were cleaned away, the first files are missing.
        """
        base_offset = queue_offset - 1 - (queue_offset - 1) % self._unit_count
        segment = self.log.extend(base_offset * UNIT.size, is_derived=True)
        self._fill(segment, base_offset, queue_offset, BLANK_UNIT)
        self._go_on_at(queue_offset)

    def _fill_gap(self, queue_offset: int, unit: bytes) -> None:
        """Let the entries up to `queue_offset` lead to the message there: their own are not in the log any more."""
        log.warning(
            "%s, queue %d: messages %d to %d are missing", self.topic, self.queue_id, self.max_offset, queue_offset - 1
        )
        self.sync()
        while self.log.end < queue_offset * UNIT.size:
            self.log.extend(is_derived=True)
        for segment in self.log.between(self.max_offset * UNIT.size, queue_offset * UNIT.size):
            first = max(self.max_offset, segment.base // UNIT.size)
            self._fill(segment, first, min(queue_offset, segment.end // UNIT.size), unit)
        self._go_on_at(queue_offset)

    def _fill(self, segment: Segment, first: int, end: int, unit: bytes) -> None:
        """Write the same entry many times, directly into its file: it may be millions."""
        self._seen = b""
        file = segment.hold()
        try:
            EntryWrite(segment, file, first * UNIT.size - segment.base, unit * (end - first), end).run()
        finally:
            segment.release()

    def _go_on_at(self, queue_offset: int) -> None:
        self.next_offset = self.max_offset = self.synced_offset = queue_offset
        self.data_end = max(self.data_end, queue_offset)


def _is_entry(segment: Segment, number: int) -> bool:
    """Return True if a file's entry of that number has a size."""
    return segment.file.read(number * UNIT.size + 8, 4) != b"\0\0\0\0"


def _is_gone(entry: Entry, physical_min: int) -> bool:
    physical_offset, size, _tag_code = entry
    # Zeros are not an entry: the file was cut from outside, and nothing says that its messages are gone.
    return size == BLANK_SIZE or (size > 0 and physical_offset < physical_min)


@lru_cache(maxsize=64)
def _struct_of(count: int) -> Struct:
    """Return what unpacks so many entries in one call."""
    return Struct(">" + "qiq" * count)


def _first_without(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number in [low, high) for which `holds` ends, `high` if it never does."""
    return low + bisect_left(range(low, high), True, key=lambda number: not holds(number))
