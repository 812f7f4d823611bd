"""The rebuilding of what is derived from the log: all consume queues, or some topics', and the checkpoint.

The queues are written by the same code that recovery uses. The file `rebuild` names them until they are on the disk: what
is interrupted begins again, here or at the broker's next start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import StoreError
from orbitmq.model.delay_levels import DELAY_LEVELS, DelayLevels
from orbitmq.model.message import Host
from orbitmq.store.disk import Disk
from orbitmq.store.dispatch import is_queued
from orbitmq.store.inspection.check import Sizes
from orbitmq.store.inspection.layout import check_is_store, commit_log_files, log_files, queue_directories
from orbitmq.store.inspection.log_walk import Damage, LogWalk
from orbitmq.store.lmq import lmq_forms
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queue import UNIT, ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues, QueueKey, is_directory_name
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.queues.rebuild import Rebuild, RebuildMark
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint, parse_checkpoint
from orbitmq.store.sync.entry_sync import sync_entries
from orbitmq.store.values import Dispatched

log = logging.getLogger(__name__)

_NO_HOST = Host("0.0.0.0", 0)


class Rebuilt(NamedTuple):
    """What was done."""

    queue_count: int
    record_count: int
    """Records of the log, those of other topics included."""
    unplaced_count: int
    """Records that no queue leads to: their queue offsets are out of step."""
    damage_count: int
    """Damaged places of the log that were passed over."""
    has_checkpoint: bool
    """The checkpoint was written as well."""


def rebuild_store(
    root: Path,
    sizes: Sizes,
    *,
    topics: Collection[str] | None = None,
    delay_levels: DelayLevels = DELAY_LEVELS,
    disk: Disk | None = None,
    on_size: Callable[[int], None] = lambda size: None,
    on_read: Callable[[int], None] = lambda size: None,
) -> Rebuilt:
    """Rebuild consume queues from the log; the checkpoint, too, when they are all queues.

    Args:
        topics: whose queues; None: all.
        delay_levels: how long delayed messages wait, which the entries of their queues say.
        on_size: told once how many bytes will be read.
        on_read: told how many of them have been, now and then.

    Raises:
        InvalidArgument: the directory is not a store.
        StoreError: a broker has it open, or the log's files do not fit together.
        OSError: the disk does not take it. Begin again when it does.
    """
    check_is_store(root)
    disk = disk or LocalDisk()
    with closing(disk.lock(root / "lock")):
        rebuild = _QueueRebuild(root, sizes, delay_levels, disk, on_size, on_read)
        with closing(rebuild.commit_log.log), closing(rebuild.queues):
            return rebuild.run(topics)


class _QueueRebuild:
    def __init__(
        self,
        root: Path,
        sizes: Sizes,
        delay_levels: DelayLevels,
        disk: Disk,
        on_size: Callable[[int], None],
        on_read: Callable[[int], None],
    ) -> None:
        self._root = root
        self._disk = disk
        self._on_read = on_read
        found = log_files(root / "commitlog")
        segment_size = sizes.of_log(found)
        self._log_files = commit_log_files(found, segment_size)
        self.commit_log = CommitLog(disk, root / "commitlog", segment_size, store_host=_NO_HOST)
        self.queues = ConsumeQueues(
            disk, root / "consumequeue", sizes.of_queues(root) // UNIT.size, delay_levels=delay_levels
        )
        self._mark = RebuildMark(disk, root / "rebuild")
        self._deletions = Deletions(disk, root / "deleted")
        self._unplaced_count = self._record_count = self._damage_count = 0
        self._keys: set[QueueKey] = set()
        self._stored_at_ms = self._end = 0
        on_size(2 * sum(file.size for file in found))

    def run(self, topics: Collection[str] | None) -> Rebuilt:
        commit_log = self.commit_log
        commit_log.log.load()
        commit_log.end = commit_log.log.written_end()
        self._walk()
        marked = self._mark.read()
        on_disk = {key for key, _directory in queue_directories(self._root / "consumequeue")}
        keys = {key for key in self._keys | on_disk if topics is None or key[0] in topics}
        # What an earlier rebuilding has left unfinished belongs to this one.
        keys |= marked.keys()
        ends = {key: self._end_without_messages(key, marked) for key in sorted(keys)}
        self._mark.write(ends)
        rebuild = Rebuild(self.queues, ends, self._count_unplaced, sync_entries)
        rebuild.run(commit_log, self._deletions, self._on_read)
        if topics is None:
            self._write_checkpoint()
            # The next start writes both again. It judges the timer log itself: one that is read again may deliver messages
            # twice that have waited in several turns.
            self._disk.remove(self._root / "index")
            self._disk.remove(self._root / "timerwheel")
        self._mark.remove()
        return Rebuilt(len(ends), self._record_count, self._unplaced_count, self._damage_count, topics is None)

    def _walk(self) -> None:
        """Find out which queues there have to be: all of them are named before the first is touched."""
        walk = LogWalk(self._log_files, on_read=self._on_read)
        for found in walk.run():
            if isinstance(found, Damage):
                self._damage_count += 1
                log.warning("passed over damage from %d to %d: %s", found.start, found.end, found.reason)
                continue
            self._record_count += 1
            self._stored_at_ms = max(self._stored_at_ms, found.stored_at_ms)
            for form in (found, *lmq_forms(found)):
                is_deleted = self._deletions.covers(form.topic, form.physical_offset)
                has_queue = is_directory_name(form.topic) and form.queue_id >= 0
                if has_queue and not is_deleted and is_queued(form.sys_flag):
                    self._keys.add((form.topic, form.queue_id))
        self._end = walk.end

    def _end_without_messages(self, key: QueueKey, marked: dict[QueueKey, int]) -> int:
        """Return where a queue goes on if all of its messages were deleted with the log's first files."""
        if not self.commit_log.min_offset:
            return 0
        queue: ConsumeQueue = self.queues.make(*key)
        try:
            queue.load()
        except StoreError as error:
            log.warning("a consume queue is damaged: %s", error)
        ends = QueueEnds.parse(self._disk.read(self._root / "ends"))
        return max(ends.end_of(key), marked.get(key, 0), queue.known_end())

    def _write_checkpoint(self) -> None:
        """Write a checkpoint for the log and the queues: both are on the disk then."""
        path = self._root / "checkpoint"
        old = parse_checkpoint(self._disk.read(path))
        durable = old.durable_offset if old.durable_offset <= self._end else 0
        if self._disk.exists(self._root / "abort"):
            # The process that wrote these bytes did not see them on the disk: a sync may have failed unseen.
            self.commit_log.rewrite(durable, self._end)
        self.commit_log.log.sync(self.commit_log.min_offset, self._end)
        index_ms = old.index_ms if 0 <= old.index_ms <= self._stored_at_ms else 0
        fresh = StoreCheckpoint(self._stored_at_ms, self._stored_at_ms, index_ms, self._end, self._end, self._end)
        self._disk.write(path, format_checkpoint(fresh))

    def _count_unplaced(self, message: Dispatched) -> None:
        self._unplaced_count += 1
