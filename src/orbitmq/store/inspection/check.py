"""The check of a whole store: every record, every small file, and of what is derived whether it agrees with the log.

What is wrong is judged elsewhere; here files are walked, and findings are brought in order: one cause, one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store.index.index_file import IndexSizes
from orbitmq.store.inspection.derived_check import check_index, check_timers
from orbitmq.store.inspection.issues import (
    RESTORE,
    START_CUTS,
    Issue,
    LogFacts,
    check_checkpoint,
    check_log_end,
    note,
)
from orbitmq.store.inspection.layout import (
    NOT_CHECKED,
    QUEUE_FILE_SIZE,
    SEGMENT_SIZE,
    SizedFile,
    check_is_store,
    commit_log_files,
    list_names,
    log_files,
    queue_directories,
    usual_size,
)
from orbitmq.store.inspection.log_walk import Damage, LogWalk
from orbitmq.store.inspection.queue_check import QueueCheck, QueueFiles
from orbitmq.store.inspection.reading import ReadOnlyFile, is_running, read_small
from orbitmq.store.inspection.small_files import SMALL_SIZE_MAX, check_small_files
from orbitmq.store.lmq import lmq_forms
from orbitmq.store.log.commit_log import RECORD_HEAD_SIZE, stored_at_in
from orbitmq.store.log.segment import segment_name
from orbitmq.store.queues.consume_queue import UNIT
from orbitmq.store.queues.deletions import parse_deletions
from orbitmq.store.sync.checkpoint import parse_checkpoint

_EVERYTHING = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the files of a store are made, in bytes; None: as most of them are."""

    segment_size: int | None = None
    queue_file_size: int | None = None
    index: IndexSizes | None = None
    timer_log_file_size: int | None = None

    def of_log(self, found: Collection[SizedFile]) -> int:
        """Return the size of the CommitLog's files."""
        return self.segment_size or usual_size((file.size for file in found), SEGMENT_SIZE)

    def of_queues(self, root: Path) -> int:
        """Return the size of the consume queues' files."""
        if self.queue_file_size:
            return self.queue_file_size
        directories = (directory for _key, directory in queue_directories(root / "consumequeue"))
        sizes = (file.size for directory in directories for file in log_files(directory))
        return usual_size((size for size in sizes if size % UNIT.size == 0), QUEUE_FILE_SIZE)


class StoreCheck:
    """One check of one store.

    Args:
        root: the store's directory.
        check_record_crc: compare the checksums that `enabledAppendPropCRC` adds.
        topics: the topics that there are; None: unknown.
        on_size: told once how many bytes the log's files have.
        on_read: told how many of them have been passed, now and then.

    Raises:
        InvalidArgument: the directory is not a store.
    """

    def __init__(
        self,
        root: Path,
        sizes: Sizes = Sizes(),
        *,
        check_record_crc: bool = False,
        topics: Collection[str] | None = None,
        on_size: Callable[[int], None] = lambda size: None,
        on_read: Callable[[int], None] = lambda size: None,
    ) -> None:
        check_is_store(root)
        self.record_count = 0
        self.is_live = is_running(root)
        self._root = root
        self._log_files = log_files(root / "commitlog")
        self._segment_size = sizes.of_log(self._log_files)
        self._checkpoint = _read(root / "checkpoint")
        self._deletions = parse_deletions(_read(root / "deleted") or b"")
        # Entries of what was stored later may be in memory alone; after a stop that was not orderly a start writes them.
        is_orderly = not self.is_live and not (root / "abort").exists()
        checkpoint = parse_checkpoint(self._checkpoint or b"")
        late_from = None if is_orderly else checkpoint.covered_end(_first_times_ms(self._log_files))
        self.queues = QueueCheck(
            root,
            QueueFiles(root / "consumequeue", sizes.of_queues(root)),
            has_other_tag_codes="consumequeue_ext" in list_names(root),
            late_from=late_from,
            topics=topics,
        )
        self._sizes = sizes
        files = commit_log_files(self._log_files, self._segment_size)
        self._walk = LogWalk(files, check_record_crc=check_record_crc, on_read=on_read)
        self._start = files[0].base if files else 0
        self._damages: list[tuple[int, int]] = []
        self._stored_at_ms = 0
        self._is_orderly = is_orderly
        self._is_damaged_at_end = False
        on_size(sum(file.size for file in self._log_files))

    def run(self) -> Iterator[Issue]:
        """Yield what is found, file after file."""
        yield from self._check_log()
        if self.is_live:
            self._damages.append((self._walk.end, _EVERYTHING))
        self.queues.read_behind(self._damages, self._start, self._walk.end)
        facts = LogFacts(
            self._start, self._walk.end, self._stored_at_ms, self._is_damaged_at_end, self.queues.entries_end
        )
        lost = None if self.is_live else check_log_end(self._checkpoint, facts, self._file_at(facts.end))
        wrong = None if self.is_live or lost is not None else check_checkpoint(self._checkpoint, facts)
        yield from (issue for issue in (lost, wrong) if issue is not None)
        yield from self.queues.issues(is_log_cut=lost is not None)
        log_end = _EVERYTHING if self.is_live else self._walk.end
        yield from check_index(self._root, self._sizes.index, log_end, is_settled=self._is_orderly)
        yield from check_timers(
            self._root,
            self._sizes.timer_log_file_size,
            self.queues.ends.get((TIMER_TOPIC, 0), (0, None))[1],
            is_live=self.is_live,
            is_settled=self._is_orderly,
        )
        yield from check_small_files(self._root, self._start, is_live=self.is_live)
        names = list_names(self._root)
        yield from (note(name, what) for name, what in NOT_CHECKED.items() if name in names)

    def _check_log(self) -> Iterator[Issue]:
        yield from self._check_sizes()
        for found in self._walk.run():
            if isinstance(found, Damage):
                self._damages.append((found.start, found.end))
                self._is_damaged_at_end = found.is_tail
                if not (self.is_live and (found.is_tail or self._is_cleaned(found))):
                    yield self._damage(found)
                continue
            self.record_count += 1
            self._stored_at_ms = max(self._stored_at_ms, found.stored_at_ms)
            for form in (found, *lmq_forms(found)):
                if form.physical_offset >= self._deletions.get(form.topic, 0):
                    self.queues.take(form)

    def _is_cleaned(self, damage: Damage) -> bool:
        """Return True if the running broker has deleted a file as too old since the check began."""
        found = log_files(self._root / "commitlog")
        return bool(found) and damage.start < found[0].base

    def _check_sizes(self) -> Iterator[Issue]:
        for file in self._log_files:
            if file.size > self._segment_size or file.base % self._segment_size:
                what = f"has {file.size} bytes and begins at {file.base}: others have {self._segment_size} bytes"
                yield Issue(self._file_at(file.base), None, what, RESTORE)

    def _damage(self, damage: Damage) -> Issue:
        size = damage.end - damage.start
        if damage.is_tail:
            what = f"the log ends here: {size} bytes follow that are not records ({damage.reason})"
            return Issue(self._file_at(damage.start), damage.start, what, START_CUTS)
        what = f"{size} bytes are not records ({damage.reason})"
        return Issue(self._file_at(damage.start), damage.start, what, RESTORE)

    def _file_at(self, offset: int) -> str:
        """Return the file that holds a byte of the log, or should."""
        holding = [file.base for file in self._log_files if file.base <= offset < file.base + self._segment_size]
        base = holding[0] if holding else offset - offset % self._segment_size
        return f"commitlog/{segment_name(base)}"


def _read(path: Path) -> bytes | None:
    try:
        return read_small(path, SMALL_SIZE_MAX)
    except OSError:
        return b""


def _first_times_ms(files: Sequence[SizedFile]) -> Iterator[tuple[int, int]]:
    """Yield where each file of the log begins and when its first message was stored, the last file first."""
    for file in reversed(files):
        with suppress(OSError), ReadOnlyFile(file.path) as content:
            yield file.base, stored_at_in(content.read(0, RECORD_HEAD_SIZE))
