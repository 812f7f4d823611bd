"""The comparison of the consume queues with the log: every record has its entry, and no entry leads into it from behind them.

Queues are derived: one finding for a file that differs. First the records come, in the log's order, and each is looked for
in its queue; then the entries behind the last record's are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store.dispatch import is_queued, tag_code_of
from orbitmq.store.inspection.issues import DIFFERS, REBUILD, Issue, note
from orbitmq.store.inspection.layout import SizedFile, log_files, queue_directories
from orbitmq.store.inspection.reading import ReadOnlyFile
from orbitmq.store.log.segment import segment_name
from orbitmq.store.queues.consume_queue import BLANK_SIZE, UNIT, Entry
from orbitmq.store.queues.consume_queues import QueueKey
from orbitmq.wire.messages.record import Record

NO_ENTRY: Entry = (0, 0, 0)
_PAGE_ENTRIES = 200
_PAGES_MAX = 4096
_OFFSET_END = 1 << 48


class QueueFiles:
    """The entries of all queues, by queue offset: pages are read as they are asked for, and few are kept."""

    def __init__(self, directory: Path, file_size: int) -> None:
        self.file_size = file_size
        self._directory = directory
        self._pages: dict[tuple[Path, int], bytes] = {}
        self._page_size = min(_PAGE_ENTRIES * UNIT.size, file_size)

    def path(self, key: QueueKey, queue_offset: int) -> Path:
        """Return the file that holds an entry, or should."""
        position = queue_offset * UNIT.size
        return self._directory / key[0] / str(key[1]) / segment_name(position - position % self.file_size)

    def entry(self, key: QueueKey, queue_offset: int, *, fresh: bool = False) -> Entry:
        """Return one entry, NO_ENTRY where there is none.

        Args:
            fresh: read it again: it may just have been written.
        """
        path, place = self.path(key, queue_offset), queue_offset * UNIT.size % self.file_size
        at = place % self._page_size
        content = None if fresh else self._pages.get((path, place - at))
        if content is None:
            if len(self._pages) >= _PAGES_MAX:
                self._pages.clear()
            try:
                with ReadOnlyFile(path) as file:
                    content = file.read(place - at, self._page_size)
            except OSError:
                content = b""
            self._pages[path, place - at] = content
        found: Entry = UNIT.unpack_from(content, at) if at + UNIT.size <= len(content) else NO_ENTRY
        return found


class Ranges:
    """Numbers in rising ranges (start, end)."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add a range behind all others; one that begins before the last end joins it."""
        if self.ends and start <= self.ends[-1]:
            self.ends[-1] = max(self.ends[-1], end)
        else:
            self.starts.append(start)
            self.ends.append(end)

    def holds(self, number: int) -> bool:
        """Return True if one of the ranges has a number."""
        place = bisect_right(self.starts, number) - 1
        return place >= 0 and number < self.ends[place]


@dataclass(slots=True)
class _Queue:
    """What has been seen of one queue."""

    end: int = 0
    """The queue offset after the last record that has its entry, or gets it by the next start."""
    expected: int | None = None
    """The queue offset after the last record's."""
    differing: set[Path] = field(default_factory=set)
    """Files in which a record has no right entry."""
    missing_count: int = 0
    unplaced_at: int | None = None
    """Where the first record lies that is out of step."""
    unplaced_count: int = 0


class QueueCheck:
    """One comparison.

    Args:
        has_other_tag_codes: what third fields of entries mean is not known here (Java's extended consume queues).
        late_from: messages from this place of the log on (bytes) may not have their entries yet; None: all have.
        is_live: a broker runs, and the log grows.
        topics: those that there are; None: unknown. Records of others may be of deleted topics.
    """

    def __init__(
        self,
        root: Path,
        files: QueueFiles,
        *,
        has_other_tag_codes: bool = False,
        late_from: int | None = None,
        is_live: bool = False,
        topics: Collection[str] | None = None,
    ) -> None:
        self.entries_end = 0
        """Where the furthest record ends that an entry leads to."""
        self.behind: list[Issue] = []
        """Files with entries that lead behind the log's end: either they are wrong, or the log has lost something."""
        self.ends: dict[QueueKey, tuple[int, int]] = {}
        """Where each queue begins and ends, by what could be read."""
        self._root = root
        self._files = files
        self._has_other_tag_codes = has_other_tag_codes
        self._late_from = late_from
        self._is_live = is_live
        self._topics = topics
        self._queues: dict[QueueKey, _Queue] = {}

    def take(self, record: Record) -> None:
        """Look for the entry of a record."""
        if not is_queued(record.sys_flag):
            return
        key, queue_offset = (record.topic, record.queue_id), record.queue_offset
        queue = self._queues.setdefault(key, _Queue())
        if not 0 <= queue_offset < _OFFSET_END or record.queue_id < 0:
            self._unplaced(queue, record)
            return
        entry = self._files.entry(key, queue_offset)
        if not self._is_of(entry, record):
            entry = self._files.entry(key, queue_offset, fresh=True)
        is_right = self._is_of(entry, record)
        if is_right and queue_offset == 0 and queue.expected:
            # The topic was made again: what came before belongs to the deleted one.
            queue.differing, queue.missing_count, queue.end = set(), 0, 0
        # The broker that runs, or the next one, writes what is missing at the end.
        is_late = self._late_from is not None and record.physical_offset >= self._late_from and entry == NO_ENTRY
        if is_right:
            self.entries_end = max(self.entries_end, record.physical_offset + record.size)
        elif not is_late:
            if queue.expected not in (None, queue_offset):
                self._unplaced(queue, record)
                return
            queue.differing.add(self._files.path(key, queue_offset))
            queue.missing_count += 1
        queue.expected = queue_offset + 1
        queue.end = max(queue.end, queue.expected)

    def issues(self, damages: Ranges, log_start: int, log_end: int) -> Iterator[Issue]:
        """Judge what the records have left over.

        Args:
            damages: bytes of the log that are not records: entries may lead there.
            log_end: entries may lead further when a broker runs meanwhile.
        """
        on_disk = dict(queue_directories(self._root / "consumequeue"))
        for key in sorted({*on_disk, *self._queues}):
            queue = self._queues.get(key) or _Queue()
            if queue.unplaced_at is not None:
                what = f"{queue.unplaced_count} records of {key[0]}, queue {key[1]}, have queue offsets out of step"
                yield note("commitlog", f"{what}: no entry leads to them, the first is here", offset=queue.unplaced_at)
            is_gone = self._topics is not None and key[0] not in self._topics
            if queue.differing and is_gone and not (self._root / "consumequeue" / key[0]).exists():
                what = f"{queue.missing_count} records are of queue {key[1]} of {key[0]}"
                yield note("commitlog", f"{what}, a topic that is not there any more")
                continue
            behind: set[Path] = set()
            if key in on_disk:
                found, end = log_files(on_disk[key]), queue.end
                for file in found:
                    is_cut = file.size < self._files.file_size and file is not found[-1]
                    if is_cut or file.size > self._files.file_size or file.base % self._files.file_size:
                        queue.differing.add(file.path)
                    for number, entry in self._entries_behind(file, queue):
                        end = max(end, number + 1)
                        if self._is_possible(entry, damages, log_start):
                            continue
                        if entry[1] > 0 and entry[0] >= log_end:
                            behind.add(file.path)
                            self.entries_end = max(self.entries_end, entry[0] + entry[1])
                        else:
                            queue.differing.add(file.path)
                self.ends[key] = (found[0].base // UNIT.size if found else 0, end)
            self.behind += self._issues(behind - queue.differing)
            yield from self._issues(queue.differing)

    def _entries_behind(self, file: SizedFile, queue: _Queue) -> Iterator[tuple[int, Entry]]:
        """Yield what stands behind the last record's entry, with its queue offset."""
        try:
            with ReadOnlyFile(file.path) as content:
                start = max(queue.end * UNIT.size - file.base, 0)
                for first, stop in content.data_ranges(start, self._files.file_size):
                    first -= first % UNIT.size
                    entries = content.read(first, -(-(stop - first) // UNIT.size) * UNIT.size)
                    numbered = enumerate(UNIT.iter_unpack(entries[: len(entries) // UNIT.size * UNIT.size]))
                    number = (file.base + first) // UNIT.size
                    yield from ((number + place, entry) for place, entry in numbered if entry != NO_ENTRY)
        except OSError as error:
            if not (self._is_live and isinstance(error, FileNotFoundError)):  # deleted as too old
                queue.differing.add(file.path)

    def _is_possible(self, entry: Entry, damages: Ranges, log_start: int) -> bool:
        """Return True if no record need have claimed an entry: it is a blank, its record was deleted, or is damaged."""
        physical_offset, size, _tag_code = entry
        if size == BLANK_SIZE and not physical_offset:
            return True  # the queue begins behind it
        return size > 0 and (0 <= physical_offset < log_start or damages.holds(physical_offset))

    def _issues(self, paths: Collection[Path]) -> Iterator[Issue]:
        for path in sorted(paths):
            yield Issue(str(path.relative_to(self._root)), None, DIFFERS, REBUILD)

    def _is_of(self, entry: Entry, record: Record) -> bool:
        if entry[:2] != (record.physical_offset, record.size):
            return False
        return (
            self._has_other_tag_codes
            or record.topic == SCHEDULE_TOPIC  # the time of delivery, by levels that can be configured
            or entry[2] == tag_code_of(record.topic, record.properties, record.stored_at_ms)
        )

    def _unplaced(self, queue: _Queue, record: Record) -> None:
        queue.unplaced_count += 1
        if queue.unplaced_at is None:
            queue.unplaced_at = record.physical_offset
