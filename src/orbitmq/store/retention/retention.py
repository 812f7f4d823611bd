"""The deletion of files that have had their time, round after round.

The CommitLog loses its oldest files, by age and by how full the disk is; consume queues follow. A file of the CommitLog
goes only when it, and the consume-queue entries of all messages before its end, are on the disk: a power cut leaves what
follows it whole. Removing a gigabyte takes a disk its time, so the loop lets go of a file and a thread removes it.

Source: Java DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService; docs/explain/durability.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from orbitmq.clock import Clock
from orbitmq.store.disk import Disk
from orbitmq.store.disk_usage import ask_aside
from orbitmq.store.log.clock_jumps import ClockJumps, is_future
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.start_offset import LogStartOffset
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.retention.clock import RetentionClock
from orbitmq.store.retention.rules import (
    HOUR_MS,
    HourOf,
    RetentionRules,
    Usage,
    check_usage,
    is_refusing,
    is_time_to_delete,
    may_delete,
)

log = logging.getLogger(__name__)

_ASKED_ROUNDS = 20
"""So many rounds delete after an administrator has asked for it (Java: MAX_MANUAL_DELETE_FILE_TIMES)."""
_QUEUES_PER_TURN = 512
"""Consume queues that are looked at before others have the loop."""

_T = TypeVar("_T")


def local_hour(now_ms: int) -> int:
    """Return the hour of the day where this machine stands."""
    return time.localtime(now_ms / 1000).tm_hour


class Retention:
    """Deletes old files of one store.

    Args:
        path: the store's root.
        jumps: where store times of the log go back.
        start_offset: is told where the log is about to begin.
        settled_end: tells up to where the log, and all entries that lead into it, are on the disk (bytes).
        on_full: called with the reason when nothing may be stored for want of room, with None when it may again.
        hour_of: tells the hour of the day.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        disk: Disk,
        path: Path,
        rules: RetentionRules,
        *,
        clock: Clock,
        monotonic: Clock,
        start_offset: LogStartOffset,
        jumps: ClockJumps,
        settled_end: Callable[[], int],
        on_full: Callable[[str | None], None],
        hour_of: HourOf = local_hour,
    ) -> None:
        self.used_ratio: float | None = None
        """How much of the disk was used when it was last looked, 0 to 1."""
        self.deleted_segments = 0
        """Files of the CommitLog that were deleted since the start; the next two count what went with them."""
        self.deleted_bytes = 0
        self.deleted_queue_files = 0
        self.failure: str | None = None
        """Why the oldest file is still there although its time has come."""
        self._commit_log = commit_log
        self._queues = queues
        self._disk = disk
        self._path = path
        self._rules = rules
        self._clock = clock
        self._monotonic = monotonic
        self._retention_clock = RetentionClock(clock(), monotonic())
        self._start_offset = start_offset
        self._jumps = jumps
        self._settled_end = settled_end
        self._on_full = on_full
        self._hour_of = hour_of
        self._is_refusing = False
        self._is_stuck = False
        self._asked_rounds = 0
        self._cleaned_min = 0
        self._are_queues_wanted = False
        self._are_starts_forgotten = False
        self._wake = asyncio.Event()

    def start(self, newest_ms: int) -> None:
        """Begin with the log as recovery found it.

        Args:
            newest_ms: when its newest message was stored, 0 without one.
        """
        before_ms = self._retention_clock.found(newest_ms)
        if before_ms >= self._rules.reserved_ms:
            log.warning(
                "the newest message was stored %.1f h ago by the wall clock; that time does not make messages expire",
                before_ms / HOUR_MS,
            )

    def use(self, rules: RetentionRules) -> None:
        """Delete by these rules from now on."""
        self._rules = rules
        self._wake.set()

    async def run(self) -> None:
        """Delete what has had its time, round after round. Ends when it is cancelled."""
        while True:
            self._wake.clear()
            try:
                await self.do_round()
            except Exception:
                log.exception("old files could not be deleted, it is tried again")
            try:
                async with asyncio.timeout(self._rules.round_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def do_round(self) -> None:
        """Look how full the disk is, and delete what has had its time."""
        self._look_at_clocks()
        usage = await self._look()
        is_asked = self._asked_rounds > 0
        if is_time_to_delete(usage, self._hour_of(self._clock()), is_asked=is_asked, rules=self._rules):
            self._asked_rounds -= is_asked
            await self._delete_segments(usage)
        else:
            self._is_stuck = False
        if self._are_queues_wanted or self._commit_log.min_offset > self._cleaned_min:
            await self._delete_queue_files()

    def delete_soon(self) -> None:
        """Delete what has expired now, whatever the hour, as an administrator wants it."""
        self._asked_rounds = _ASKED_ROUNDS
        self._wake.set()

    def clean_queues_soon(self) -> None:
        """Look through the consume queues now for files that nothing leads from any more."""
        self._are_queues_wanted = True
        self._wake.set()

    def _look_at_clocks(self) -> None:
        jumped_ms = self._retention_clock.look(self._clock(), self._monotonic())
        if abs(jumped_ms) >= HOUR_MS:
            way = "ahead" if jumped_ms > 0 else "back"
            log.warning(
                "the wall clock was set %s by %.1f h; no message expires by that", way, abs(jumped_ms) / HOUR_MS
            )

    async def _look(self) -> Usage:
        """Ask how full the disk is, and refuse messages or take them again."""
        try:
            self.used_ratio = await ask_aside(lambda: self._disk.used_ratio(self._path))
        except OSError as error:
            log.warning("the file system of %s does not say how full it is: %s", self._path, error)
            self.used_ratio = None
        usage = check_usage(self.used_ratio, self._rules)
        was_refusing, self._is_refusing = self._is_refusing, is_refusing(usage, self._is_refusing)
        if self._is_refusing:
            # Also when it was told before: a busy disk may have had its word in between.
            self._on_full(self._sentence())
        elif was_refusing:
            log.warning("%.1f %% of the disk are used: messages are stored again", (self.used_ratio or 0) * 100)
            self._on_full(None)
        if self._is_refusing and not was_refusing:
            log.error("%s", self._sentence())
        return usage

    def _sentence(self) -> str:
        rules = self._rules
        return (
            f"the broker's disk is full: more than {rules.full_ratio:.0%} of {self._path} are used. Nothing is stored until "
            f"no more than {rules.forcing_ratio:.0%} are; make room, or keep messages for a shorter time (fileReservedTime)"
        )

    async def _delete_segments(self, usage: Usage) -> None:
        """Delete the CommitLog's oldest files that may go, not more than one round's."""
        deleted = 0
        while deleted < self._rules.batch_max and self._may_delete_first(usage):
            if deleted:
                await asyncio.sleep(self._rules.segment_pause_ms / 1000)
                usage = await self._look()
                if not self._may_delete_first(usage):
                    break
            if not await self._delete_first_segment(usage):
                return
            deleted += 1
        was_stuck, self._is_stuck = self._is_stuck, not deleted and usage in (Usage.FORCING, Usage.FULL)
        if self._is_stuck and not was_stuck:
            log.warning("the disk is nearly full, and no file of the CommitLog may be deleted")

    def _may_delete_first(self, usage: Usage) -> bool:
        """Return True if the CommitLog's first file may go now. The last one stays in any case."""
        commit_log = self._commit_log
        segments = commit_log.log.segments
        if len(segments) < 2 or segments[1].base >= min(self._settled_end(), commit_log.end):
            return False
        newest_ms = self._newest_ms(segments)
        age_ms = self._retention_clock.age_ms(newest_ms) if newest_ms > 0 else None
        return may_delete(age_ms, usage, self._rules)

    def _newest_ms(self, segments: Sequence[Segment]) -> int:
        """Return when the newest message of the first file was stored at the latest, 0 when that is unknown.

        Where store times do not go back that is when the next file's first one was.
        """
        now_ms, place = self._clock(), segments[1].base
        following = self._commit_log.parsed_at(place)
        if following is None:
            return 0
        stored_at_ms = following.stored_at_ms
        if is_future(stored_at_ms, now_ms):
            known_ms = self._jumps.set_right_ms(place, now_ms)
            # What a broker of Java's has left has no note of it: a later file's first message is not of the future.
            later = (
                (self._commit_log.stored_at_ms(segment.base) for segment in segments[2:]) if known_ms is None else ()
            )
            right_ms = (time_ms for time_ms in later if time_ms > 0 and not is_future(time_ms, now_ms))
            stored_at_ms = known_ms or next(right_ms, now_ms)
        return max(stored_at_ms, self._jumps.newest_before_ms(place, now_ms))

    async def _delete_first_segment(self, usage: Usage) -> bool:
        """Delete the CommitLog's first file; False: the disk does not let it go."""
        segment = self._commit_log.log.detach_first()
        file = segment.take_file()

        def remove() -> None:
            if file is not None:
                file.close()
            # A disk without a single block left does not take the note, but must be helped.
            with contextlib.suppress(OSError):
                self._start_offset.note(segment.end)
            self._disk.remove(segment.path)
            with contextlib.suppress(OSError):
                self._start_offset.note(segment.end)

        try:
            await _in_thread(remove)
        except OSError as error:
            self._note_failure(segment, error)
            return False
        self.failure = None
        self.deleted_segments += 1
        self.deleted_bytes += segment.size
        why = "it has expired" if usage in (Usage.FINE, Usage.HIGH) else "the disk is nearly full"
        log.info("deleted %s: %s; the CommitLog begins at %d now", segment.path, why, self._commit_log.min_offset)
        return True

    def _note_failure(self, segment: Segment, error: OSError) -> None:
        """Take a file back that cannot be removed. One whose directory alone could not be synced is gone."""
        if self._disk.exists(segment.path):
            self._commit_log.log.attach_first(segment)
        if self.failure is None:
            log.warning("%s cannot be deleted, it is tried again: %s", segment.path, error)
        self.failure = f"{segment.path} cannot be deleted: {error}"

    async def _delete_queue_files(self) -> None:
        """Delete the consume queues' files before the CommitLog's start."""
        self._are_queues_wanted = False
        physical_min = self._commit_log.min_offset
        self._forget_starts()
        for number, queue in enumerate(list(self._queues), start=1):
            deleted = 0
            while (segment := queue.detach_expired(physical_min)) is not None:
                # On the loop, and without a sync: the topic cannot be deleted and made again in between, and a file that
                # a power cut brings back is passed over or rebuilt by the next start.
                self._disk.unlink(segment.path)
                segment.close()
                deleted += 1
            if deleted:
                self.deleted_queue_files += deleted
                await asyncio.sleep(self._rules.queue_pause_ms / 1000)
            elif number % _QUEUES_PER_TURN == 0:
                await asyncio.sleep(0)
        self._cleaned_min = physical_min

    def _forget_starts(self) -> None:
        """Keep the next start from missing the files that go now: the last orderly stop knew of them."""
        if self._are_starts_forgotten:
            return
        path = self._path / "ends"
        ends = QueueEnds.parse(self._disk.read(path))
        if ends.log_min >= 0 and ends.ends:
            self._disk.write(path, ends.without_starts().format())
        self._are_starts_forgotten = True


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Run `work` on another thread; it ends before a cancelled caller goes on."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
