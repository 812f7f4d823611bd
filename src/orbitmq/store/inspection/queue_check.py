"""The comparison of the consume queues with the log: every record has its entry, and no entry leads into it from behind them.

Queues are derived: one finding for a queue that differs. First the records come, in the log's order, and each is looked for
in its queue; then the entries behind the last record's are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
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

    def entry(self, key: QueueKey, queue_offset: int) -> Entry:
        """Return one entry, NO_ENTRY where there is none."""
        path, place = self.path(key, queue_offset), queue_offset * UNIT.size % self.file_size
        at = place % self._page_size
        content = self._pages.get((path, place - at))
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


@dataclass(slots=True)
class _Queue:
    """What has been seen of one queue."""

    end: int = 0
    """The queue offset after the last record that has its entry, or gets it by the next start."""
    expected: int | None = None
    """The queue offset after the last record's."""
    differing: Path | None = None
    """The first file in which a record has no right entry, or an entry leads to none."""
    behind: Path | None = None
    """The first file with an entry that leads behind the log's end: it is wrong, or the log has lost something."""


class QueueCheck:
    """One comparison.

    Args:
        has_other_tag_codes: what third fields of entries mean is not known here (Java's extended consume queues).
        late_from: entries of messages from this place of the log on (bytes) are not compared: the broker that runs, or the
            next one, writes them; None: all are there.
        topics: those that there are; None: unknown. Records of others may be of deleted topics.
    """

    def __init__(
        self,
        root: Path,
        files: QueueFiles,
        *,
        has_other_tag_codes: bool = False,
        late_from: int | None = None,
        topics: Collection[str] | None = None,
    ) -> None:
        self.entries_end = 0
        """Where the furthest record ends that an entry behind the log's end leads to."""
        self.ends: dict[QueueKey, tuple[int, int]] = {}
        """Where each queue begins and ends, by what could be read."""
        self._root = root
        self._files = files
        self._has_other_tag_codes = has_other_tag_codes
        self._late_from = late_from
        self._topics = topics
        self._queues: dict[QueueKey, _Queue] = {}
        self._unplaced: list[int] = []
        """Where records lie that are out of step with their queue."""

    def take(self, record: Record) -> None:
        """Look for the entry of a record."""
        if not is_queued(record.sys_flag):
            return
        key, queue_offset = (record.topic, record.queue_id), record.queue_offset
        if not 0 <= queue_offset < _OFFSET_END or record.queue_id < 0:
            self._unplaced.append(record.physical_offset)
            return
        queue = self._queues.setdefault(key, _Queue())
        if self._late_from is None or record.physical_offset < self._late_from:
            if self._is_of(self._files.entry(key, queue_offset), record):
                if queue_offset == 0 and queue.expected:
                    # The topic was made again: what came before belongs to the deleted one.
                    queue.differing, queue.end = None, 0
            elif queue.expected not in (None, queue_offset):
                self._unplaced.append(record.physical_offset)
                return
            else:
                queue.differing = queue.differing or self._files.path(key, queue_offset)
        queue.expected = queue_offset + 1
        queue.end = max(queue.end, queue.expected)

    def read_behind(self, damages: Collection[tuple[int, int]], log_start: int, log_end: int) -> None:
        """Read the entries behind the last records'.

        Args:
            damages: bytes of the log that are not records, from where to where: entries may lead there.
        """
        for key, directory in queue_directories(self._root / "consumequeue"):
            queue = self._queues.setdefault(key, _Queue())
            found, end = log_files(directory), queue.end
            for file in found:
                is_cut = file.size < self._files.file_size and file is not found[-1]
                if is_cut or file.size > self._files.file_size or file.base % self._files.file_size:
                    queue.differing = queue.differing or file.path
                for number, (physical_offset, size, _tag_code) in self._entries_behind(file, queue):
                    end = max(end, number + 1)
                    if size == BLANK_SIZE and not physical_offset:
                        continue  # the queue begins behind it
                    is_gone = 0 <= physical_offset < log_start
                    if size > 0 and (is_gone or any(start <= physical_offset < stop for start, stop in damages)):
                        continue
                    if size > 0 and physical_offset >= log_end:
                        queue.behind = queue.behind or file.path
                        self.entries_end = max(self.entries_end, physical_offset + size)
                    else:
                        queue.differing = queue.differing or file.path
            self.ends[key] = (found[0].base // UNIT.size if found else 0, end)

    def issues(self, *, is_log_cut: bool) -> Iterator[Issue]:
        """Yield the first file of each queue that differs from the log.

        Args:
            is_log_cut: the log has lost its end, and entries that lead behind it are not to blame.
        """
        for key, queue in sorted(self._queues.items()):
            path = queue.differing or (None if is_log_cut else queue.behind)
            is_deleted = self._topics is not None and key[0] not in self._topics and key not in self.ends
            if path is not None and not is_deleted:
                yield Issue(str(path.relative_to(self._root)), None, DIFFERS, REBUILD)
        if self._unplaced:
            what = (
                f"{len(self._unplaced)} records are in no queue: their queue offsets are out of step, the first is here"
            )
            yield note("commitlog", what, offset=self._unplaced[0])

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
        except FileNotFoundError:
            return  # the running broker has deleted it as too old
        except OSError:
            queue.differing = queue.differing or file.path

    def _is_of(self, entry: Entry, record: Record) -> bool:
        if entry[:2] != (record.physical_offset, record.size):
            return False
        return (
            self._has_other_tag_codes
            or record.topic == SCHEDULE_TOPIC  # the time of delivery, by levels that can be configured
            or entry[2] == tag_code_of(record.topic, record.properties, record.stored_at_ms)
        )
