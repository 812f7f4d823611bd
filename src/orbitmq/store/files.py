"""The files of a store's directory: opened, recovered, marked as orderly closed."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.model.message import Host
from orbitmq.store.disk import Disk, Lock, write_whole
from orbitmq.store.log.clock_jumps import ClockJumps
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.open_files import OpenFiles, affordable_files, allowed_descriptors, allowed_maps
from orbitmq.store.log.start_offset import LogStartOffset
from orbitmq.store.quarantine import Quarantine
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.queues.rebuild import RebuildMark
from orbitmq.store.recovery import Recovered, Recovery, RecoveryReport
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint, parse_checkpoint
from orbitmq.store.values import StoreConfig

log = logging.getLogger(__name__)


class FoundStore(NamedTuple):
    """What opening the files found."""

    recovered: Recovered
    report: RecoveryReport
    checkpoint: StoreCheckpoint
    is_clean: bool
    """The last stop was orderly."""


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector: thousands of queues are made, none is garbage, and each round looks at all of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files, all but the index's; `lock` keeps other processes out."""

    config: StoreConfig
    disk: Disk
    lock: Lock
    open_files: OpenFiles
    commit_log: CommitLog
    queues: ConsumeQueues
    deletions: Deletions
    start_offset: LogStartOffset
    jumps: ClockJumps
    quarantine: Quarantine

    @classmethod
    def of(cls, config: StoreConfig, disk: Disk, lock: Lock, store_host: Host) -> StoreFiles:
        """Return the files of a directory, none of which is open yet."""
        path = config.path
        open_files = OpenFiles(affordable_files(config.open_files_max, allowed_descriptors(), allowed_maps()))
        return cls(
            config,
            disk,
            lock,
            open_files,
            CommitLog(
                disk,
                path / "commitlog",
                config.segment_size,
                store_host=store_host,
                record_crc=config.record_crc,
                open_files=open_files,
            ),
            ConsumeQueues(
                disk,
                path / "consumequeue",
                config.consume_queue_units,
                open_files=open_files,
                delay_levels=config.delay_levels,
            ),
            Deletions(disk, path / "deleted"),
            LogStartOffset(disk, path / "begin"),
            ClockJumps(disk, path / "jumps"),
            Quarantine(disk, path / "quarantine", "commitlog"),
        )

    @_without_collector()
    def recover(self) -> FoundStore:
        """Load the files and bring them in line with one another.

        Raises:
            StoreError: as `Recovery.run`.
            OSError: the disk takes or gives nothing.
        """
        disk, path = self.disk, self.config.path
        is_clean = not disk.exists(path / "abort")
        checkpoint = parse_checkpoint(disk.read(path / "checkpoint"))
        disk.write(path / "abort", str(os.getpid()).encode())
        self.commit_log.log.load()
        damaged = self.queues.load()

        def lower_checkpoint(start: int, stored_at_ms: int, durable: int | None) -> None:
            lowered = checkpoint.without_entries_from(start, stored_at_ms)
            if durable is not None:
                lowered = lowered._replace(flushed_offset=durable, confirmed_offset=durable)
            disk.write(path / "checkpoint", format_checkpoint(lowered))

        recovery = Recovery(
            self.commit_log,
            self.queues,
            quarantine=self.quarantine,
            mark=RebuildMark(disk, path / "rebuild"),
            deletions=self.deletions,
            start_offset=self.start_offset,
            ends=QueueEnds.parse(disk.read(path / "ends")),
            accepted_end=self.config.accept_log_end,
            cut_at=self.config.cut_at,
            lower_checkpoint=lower_checkpoint,
        )
        recovered = recovery.run(None if is_clean else checkpoint, checkpoint.durable_offset, damaged)
        if not is_clean:
            log.info(
                "the last stop was not orderly: read %d records again, the CommitLog ends at %d",
                recovered.record_count,
                recovered.end,
            )
        self.jumps.fit(self.commit_log.min_offset, recovered.end)
        return FoundStore(recovered, recovery.recovery_report, checkpoint, is_clean)

    def note_deletion(self, topic: str, log_end: int) -> None:
        """Write down that a topic is deleted, so that a start after a crash does not bring back what it reads again.

        Args:
            log_end: where the log ends at the deletion, in bytes.

        Raises:
            OSError: the disk does not take it.
        """
        # The file may name the topic's queues, which must not be missed at the next start.
        self.disk.remove(self.config.path / "ends")
        self.deletions.note(topic, log_end)

    def write_checkpoint(self, content: bytes) -> None:
        """Write the checkpoint, and sync it. Raises OSError."""
        self.disk.write(self.config.path / "checkpoint", content)

    def mark_orderly_stop(self) -> None:
        """Let the next start know that everything is on the disk."""
        path = self.config.path
        try:
            write_whole(self.disk, path / "ends", QueueEnds.of(self.queues, self.commit_log.min_offset).format())
            self.disk.remove(path / "abort")
        except OSError as error:  # everything is on the disk: the next start only looks at more of it
            log.warning("the stop cannot be marked as orderly: %s", error)

    def close(self) -> None:
        """Close every file, and let other processes in."""
        self.commit_log.close()
        self.queues.close()
        self.lock.close()
