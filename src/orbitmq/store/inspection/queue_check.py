"""The comparison of the consume queues with the log: every record has its entry, every entry leads to its record.

First the records come, in the log's order, and each is looked for in its queue; then the queues are read, and only the
entries that no record has claimed are judged one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store.dispatch import is_queued, tag_code_of
from orbitmq.store.inspection.issues import REBUILD, RESTORE, Issue, note
from orbitmq.store.inspection.layout import SizedFile, log_files, queue_directories
from orbitmq.store.inspection.reading import ReadOnlyFile
from orbitmq.store.log.segment import segment_name
from orbitmq.store.queues.consume_queue import BLANK_SIZE, UNIT, Entry
from orbitmq.store.queues.consume_queues import QueueKey
from orbitmq.wire.messages.record import Record

NO_ENTRY: Entry = (0, 0, 0)
_PAGE_ENTRIES = 200
_PAGES_MAX = 4096
_PIECE_ENTRIES = 50_000
_OFFSET_END = 1 << 48


class QueueFiles:
    """The entries of all queues, by queue offset: pages are read as they are asked for, and few are kept."""

    def __init__(self, directory: Path, file_size: int) -> None:
        self.file_size = file_size
        self._directory = directory
        self._pages: OrderedDict[tuple[QueueKey, int], bytes] = OrderedDict()
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
        position = queue_offset * UNIT.size % self.file_size
        page = queue_offset * UNIT.size - position % self._page_size
        if fresh:
            self._pages.pop((key, page), None)
        content = self._pages.get((key, page))
        if content is None:
            content = self._load(self.path(key, queue_offset), position - position % self._page_size)
            self._pages[(key, page)] = content
            if len(self._pages) > _PAGES_MAX:
                self._pages.popitem(last=False)
        at = position % self._page_size
        found: Entry = UNIT.unpack_from(content, at) if at + UNIT.size <= len(content) else NO_ENTRY
        return found

    def _load(self, path: Path, at: int) -> bytes:
        try:
            with ReadOnlyFile(path) as file:
                return file.read(at, self._page_size)
        except OSError:
            return b""


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

    def end_of(self, number: int) -> int | None:
        """Return the end of the range that holds a number, None when none does."""
        place = bisect_right(self.starts, number) - 1
        return self.ends[place] if place >= 0 and number < self.ends[place] else None

    @property
    def end(self) -> int:
        """Return where the last range ends, 0 without one."""
        return self.ends[-1] if self.ends else 0


@dataclass(slots=True)
class _Queue:
    """What has been seen of one queue."""

    claimed: Ranges = field(default_factory=Ranges)
    """Queue offsets whose records were found."""
    expected: int | None = None
    """The queue offset after the last record's."""
    missing: Ranges = field(default_factory=Ranges)
    """Queue offsets whose records have no right entry."""
    awaited: Ranges = field(default_factory=Ranges)
    """Queue offsets whose entries are still to be written: they may be there when the queue is read."""
    missing_in: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """By file: how many entries are not right, and the first one's queue offset."""
    unplaced_at: int | None = None
    """Where the first record lies that is out of step."""
    unplaced_count: int = 0

    def begin_again(self) -> None:
        """The topic was made again: what came before belongs to the deleted one."""
        self.claimed, self.missing, self.awaited, self.missing_in = Ranges(), Ranges(), Ranges(), {}


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
        self.told: set[QueueKey] = set()
        """Queues that something is wrong with."""
        self.behind: list[Issue] = []
        """Entries that lead behind the log's end: either they are wrong, or the log has lost something."""
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
        key = (record.topic, record.queue_id)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        queue_offset = record.queue_offset
        if not 0 <= queue_offset < _OFFSET_END or record.queue_id < 0:
            self._unplaced(queue, record)
            return
        entry = self._files.entry(key, queue_offset)
        if not self._is_of(entry, record):
            entry = self._files.entry(key, queue_offset, fresh=True)
        if self._is_of(entry, record):
            if queue_offset == 0 and queue.expected:
                queue.begin_again()
            queue.claimed.add(queue_offset, queue_offset + 1)
        elif self._late_from is not None and record.physical_offset >= self._late_from and entry == NO_ENTRY:
            queue.awaited.add(queue_offset, queue_offset + 1)  # the broker that runs, or the next one, writes it
        elif queue.expected in (None, queue_offset):
            queue.missing.add(queue_offset, queue_offset + 1)
            path = self._files.path(key, queue_offset)
            count, first = queue.missing_in.get(path, (0, queue_offset))
            queue.missing_in[path] = (count + 1, first)
        else:
            self._unplaced(queue, record)
            return
        queue.expected = queue_offset + 1

    def issues(self, damages: Ranges, log_start: int, log_end: int) -> Iterator[Issue]:
        """Judge what the records have left over.

        Args:
            damages: bytes of the log that are no records: entries may lead there.
            log_end: entries may lead further when a broker runs meanwhile.
        """
        on_disk = dict(queue_directories(self._root / "consumequeue"))
        for key in sorted({*on_disk, *self._queues}):
            queue = self._queues.get(key) or _Queue()
            if queue.unplaced_at is not None:
                yield note(
                    "commitlog",
                    f"{queue.unplaced_count} records of {key[0]}, queue {key[1]}, have queue offsets out of step: "
                    "no entry leads to them, the first is here",
                    offset=queue.unplaced_at,
                )
            yield from self._missing(key, queue)
            if queue.missing_in:
                self.told.add(key)
            if key in on_disk:
                reading = _QueueReading(self._files, key, queue, damages, log_start, log_end, self._is_live)
                yield from (self._placed(found) for found in reading.issues(log_files(on_disk[key])))
                self.behind += map(self._placed, reading.behind())
                self.entries_end = max(self.entries_end, reading.entries_end)
                self.ends[key] = (reading.first, reading.end)
                if reading.is_unverified:
                    self.told.add(key)

    def _missing(self, key: QueueKey, queue: _Queue) -> Iterator[Issue]:
        directory = self._root / "consumequeue" / key[0]
        if queue.missing_in and self._topics is not None and key[0] not in self._topics and not directory.exists():
            count = sum(count for count, _ in queue.missing_in.values())
            yield note(
                "commitlog", f"{count} records are of queue {key[1]} of {key[0]}, a topic that is not there any more"
            )
            return
        for path, (count, first) in queue.missing_in.items():
            state = "" if path.exists() else "the file is missing: "
            what = f"{state}{count} records of the log have no right entry, the first is number {first}"
            yield Issue(self._name(path), first * UNIT.size % self._files.file_size, what, REBUILD)

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

    def _placed(self, issue: Issue) -> Issue:
        return issue._replace(path=self._name(Path(issue.path)))

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root))


class _QueueReading:
    """The reading of one queue's files, for entries that no record has claimed."""

    def __init__(
        self,
        files: QueueFiles,
        key: QueueKey,
        queue: _Queue,
        damages: Ranges,
        log_start: int,
        log_end: int,
        is_live: bool,
    ) -> None:
        self.first = self.end = 0
        self.entries_end = 0
        self.is_unverified = False
        self._files = files
        self._key = key
        self._queue = queue
        self._damages = damages
        self._log_start = log_start
        self._log_end = log_end
        self._is_live = is_live
        self._strays: dict[Path, tuple[int, int, str]] = {}
        """By file: how many entries lead nowhere, the first one's place, and what is wrong with it."""
        self._behind: dict[Path, tuple[int, int, str]] = {}
        """The same of entries that lead behind the log's end."""

    def issues(self, found: list[SizedFile]) -> Iterator[Issue]:
        """Read the files and judge them."""
        self.first = found[0].base // UNIT.size if found else 0
        for issue in self._check_files(found):
            self.is_unverified = True
            yield issue

    def _check_files(self, found: list[SizedFile]) -> Iterator[Issue]:
        for number, file in enumerate(found):
            path = str(file.path)
            if file.base % self._files.file_size:
                yield Issue(path, None, f"its name is no multiple of {self._files.file_size}", REBUILD)
                continue
            if file.size > self._files.file_size:
                what = f"has {file.size} bytes, others have {self._files.file_size}"
                yield Issue(path, None, what, REBUILD)
            elif file.size < self._files.file_size and number < len(found) - 1 and not self._is_told(file.path):
                what = f"was cut short: has {file.size} bytes of {self._files.file_size}"
                yield Issue(path, file.size, what, REBUILD)
            try:
                self._read(file)
            except OSError as error:
                if self._is_live and isinstance(error, FileNotFoundError):
                    continue  # deleted as too old
                yield Issue(path, None, f"cannot be read: {error.strerror}", RESTORE)
        yield from _stray_issues(self._strays)
        yield from self._gaps(found)

    def behind(self) -> Iterator[Issue]:
        """Yield what leads behind the log's end."""
        self.is_unverified = self.is_unverified or bool(self._behind)
        return _stray_issues(self._behind)

    def _is_told(self, path: Path) -> bool:
        """Say whether records without an entry tell of this file already."""
        return path in self._queue.missing_in

    def _gaps(self, found: list[SizedFile]) -> Iterator[Issue]:
        """Yield files that are missing between others: a start could not even load the queue."""
        for before, after in pairwise(found):
            expected = before.base + self._files.file_size
            path = before.path.with_name(segment_name(expected))
            if expected < after.base and not self._is_told(path):
                yield Issue(str(path), None, "the file is missing", REBUILD)

    def _read(self, file: SizedFile) -> None:
        base = file.base // UNIT.size
        with ReadOnlyFile(file.path) as content:
            for start, stop in content.data_ranges(0, self._files.file_size):
                first, last = base + start // UNIT.size, base + -(-stop // UNIT.size)
                for piece in range(first, last, _PIECE_ENTRIES):
                    count = min(_PIECE_ENTRIES, last - piece)
                    entries = content.read((piece - base) * UNIT.size, count * UNIT.size)
                    self._check(piece, entries[: len(entries) // UNIT.size * UNIT.size], file.path)

    def _check(self, queue_offset: int, entries: bytes, path: Path) -> None:
        end = queue_offset + len(entries) // UNIT.size
        start = queue_offset
        while queue_offset < end:
            claimed = self._queue.claimed.end_of(queue_offset)
            if claimed is not None:
                stop = min(claimed, end)
                at, size, _tag_code = UNIT.unpack_from(entries, (stop - 1 - start) * UNIT.size)
                self.entries_end, self.end = max(self.entries_end, at + size), stop
                queue_offset = stop
                continue
            entry: Entry = UNIT.unpack_from(entries, (queue_offset - start) * UNIT.size)
            self._check_one(queue_offset, entry, path)
            queue_offset += 1

    def _check_one(self, queue_offset: int, entry: Entry, path: Path) -> None:
        """Judge an entry that no record has claimed."""
        physical_offset, size, _tag_code = entry
        if entry == NO_ENTRY:
            return  # where a record should have one, that is told already
        self.end = queue_offset + 1
        if size == BLANK_SIZE and not physical_offset:
            return  # the queue begins behind it
        end = physical_offset + size
        if self._queue.missing.end_of(queue_offset) is not None or self._queue.awaited.end_of(queue_offset) is not None:
            return
        if 0 <= physical_offset < self._log_start and size > 0:
            return  # its record was cleaned away
        if size > 0 and self._damages.end_of(physical_offset) is not None:
            return  # told with the log
        if size > 0 and physical_offset >= self._log_end:
            self.entries_end = max(self.entries_end, end)
            if not self._is_live:
                self._add(self._behind, path, queue_offset, f"leads to {physical_offset}, behind the log's end")
            return
        if queue_offset < self._queue.claimed.end and self._is_filler(queue_offset, entry):
            return
        reason = f"leads to {physical_offset} and {size} bytes, where no message of it is"
        self._add(self._strays, path, queue_offset, reason)

    def _is_filler(self, queue_offset: int, entry: Entry) -> bool:
        """Say whether an entry stands for a message that is missing: it leads to the next one there is."""
        place = bisect_right(self._queue.claimed.starts, queue_offset)
        starts = self._queue.claimed.starts
        return place < len(starts) and self._files.entry(self._key, starts[place]) == entry

    def _add(self, strays: dict[Path, tuple[int, int, str]], path: Path, queue_offset: int, reason: str) -> None:
        count, place, first = strays.get(path, (0, queue_offset * UNIT.size % self._files.file_size, reason))
        strays[path] = (count + 1, place, first)


def _stray_issues(strays: dict[Path, tuple[int, int, str]]) -> Iterator[Issue]:
    for path, (count, place, reason) in strays.items():
        more = f", and {count - 1} more entries" if count > 1 else ""
        yield Issue(str(path), place, f"the entry {reason}{more}", REBUILD)
