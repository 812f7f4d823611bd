"""The order of syncs: group commits first, then consume queues, then the checkpoint that covers both.

At most one task is under way on the flusher's thread, so that all appends meanwhile share the next sync
(group commit), and a group commit never waits for a whole round of consume queues.

Only a sync that the disk was asked for and refused fences the store. Where a file cannot even be opened, what was written
stays unsynced and is tried again; a checkpoint is derived from the rest, and the old one does as long as there is no new.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter

from orbitmq.errors import DescriptorShortage, NotWritten
from orbitmq.process.histogram import Histogram
from orbitmq.store.disk import DiskFile
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segment import Segment
from orbitmq.store.queues.consume_queue import ConsumeQueue, EntryWrite
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint
from orbitmq.store.sync.durability import Durability, Waiter
from orbitmq.store.sync.entry_sync import sync_entries
from orbitmq.store.sync.flusher import Flusher
from orbitmq.store.values import Dispatched

log = logging.getLogger(__name__)

_QUEUES_PER_TASK = 4
_SYNC_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RETRY_MS = 100
"""After so long a group commit is tried again that found no descriptor; consume queues wait for the next round."""
_RETRY_KEY = -1
_LOOKS_PER_TIMEOUT = 10
"""So often, within the time-out of a sync, waiters are checked: no send pays for reading a clock."""


class Syncing:
    """Brings a store's files to the disk.

    Args:
        checkpoint: as it was found.
        write_checkpoint: writes the file and syncs it; runs on the flusher's thread.
        on_durable: called on the loop when the CommitLog was synced further, before any waiter is answered.
        on_failure: called on the loop, once, when a sync failed.
        on_entries: told, with each round, how many bytes of queue entries wait in memory for their files.
        first_held: returns the first message that has no queue entry yet, for readers may not see it.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        durability: Durability,
        *,
        checkpoint: StoreCheckpoint,
        write_checkpoint: Callable[[bytes], None],
        on_durable: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_entries: Callable[[int], None] = lambda size: None,
        first_held: Callable[[], Dispatched | None] = lambda: None,
    ) -> None:
        self.stored_at_ms = 0
        """Store time of the last message appended."""
        self.entries_end = 0
        """The entries of all messages before this place in the log (bytes) are on the disk."""
        self.entries_size = 0
        """Bytes of entries that waited in memory for their files when the last round began."""
        self.shortage: str | None = None
        """Why files stay unsynced that would be synced otherwise."""
        self.hang: str | None = None
        """That the disk does not answer."""
        self.sync_s = Histogram(_SYNC_BOUNDS_S)
        """Seconds from handing a task to the flusher until its outcome is seen: the latency of a sync."""
        self.checkpoint_failure: str | None = None
        """Why the checkpoint on the disk is an old one."""
        self._commit_log = commit_log
        self._queues = queues
        self._durability = durability
        self._checkpoint = checkpoint
        self._index_ms = checkpoint.index_ms
        self._write_checkpoint = write_checkpoint
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._on_entries = on_entries
        self._first_held = first_held
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flusher: Flusher | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._is_busy = False
        self._is_scheduled = False
        self._is_commit_wanted = False
        self._synced_ms = 0
        self._round: deque[ConsumeQueue] = deque()
        self._round_ms: int | None = None
        self._round_end = 0
        self._is_round_paused = False
        self._task_count = 0
        self._looks: deque[tuple[int, int]] = deque(maxlen=_LOOKS_PER_TIMEOUT + 1)

    @property
    def is_attached(self) -> bool:
        """Return True if a flusher is at work."""
        return self._flusher is not None

    def start(self, stored_at_ms: int, entries_end: int = 0) -> None:
        """Go on where recovery ended: the CommitLog is synced up to the message that was stored then."""
        self.stored_at_ms = self._synced_ms = stored_at_ms
        self.entries_end = entries_end

    def attach(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        commit_every_ms: int | None,
        checkpoint_every_ms: int,
        timeout_ms: int | None = None,
    ) -> None:
        """Start the flusher.

        Args:
            commit_every_ms: None: the CommitLog is synced only on request.
            timeout_ms: a waiter for a sync gets `None`, unknown, after this time and up to a tenth; None: never.
        """
        self._loop = loop
        self._flusher = Flusher(loop)
        if commit_every_ms is not None:
            self._repeat(commit_every_ms, self.request)
        self._repeat(checkpoint_every_ms, self._start_round)
        if timeout_ms is not None:
            self._repeat(max(timeout_ms // _LOOKS_PER_TIMEOUT, 1), partial(self._look_for_hang, timeout_ms))

    def index_full(self, end_ms: int) -> None:
        """Let checkpoints say that full index files are on the disk up to this time."""
        self._index_ms = end_ms

    def request(self) -> None:
        """Sync the CommitLog soon: at the end of this turn of the loop, or after the task under way."""
        self._is_commit_wanted = True
        self._schedule()

    def sync_now(self) -> bool:
        """Sync everything and write the checkpoint on the caller's thread. A failed sync fences the store.

        Returns:
            True when all of it is on the disk. Otherwise the waiters were told so.
        """
        if self._durability.is_fenced:
            return False
        # Read before the sync: what is appended meanwhile is not covered by it.
        end, stored_at_ms = self._commit_log.end, self.stored_at_ms
        try:
            segments = self._hold_segments(end)
            try:
                for segment in segments:
                    segment.file.sync()
            finally:
                _release(segments)
            self._commit_log_synced(end, stored_at_ms, None)
            # The log is on the disk by now: an entry must never lead behind its end.
            sync_entries(self._queues)
            self.entries_end = self._dispatched_end(end)
        except (DescriptorShortage, NotWritten) as error:
            self._note_shortage(error)
            _answer(self._durability.abandon(), False)
            return False
        except OSError as error:
            self.fail(error)
            return False
        return self._write_checkpoint_now()

    def stop(self) -> None:
        """End the flusher; what it had under way is reported before this returns."""
        for timer in self._timers.values():
            timer.cancel()
        if self._flusher is not None:
            flusher, self._flusher = self._flusher, None
            flusher.stop()

    def fail(self, error: Exception) -> None:
        """Take note that a sync failed, on whatever thread: nothing becomes durable any more, and waiters are told."""
        if self._durability.is_fenced:
            return
        lost = self._durability.fail()
        self._on_failure(error)
        _answer(lost, False)

    def _repeat(self, interval_ms: int, act: Callable[[], None]) -> None:
        assert self._loop is not None
        key = len(self._timers)

        def again() -> None:
            assert self._loop is not None
            self._timers[key] = self._loop.call_later(interval_ms / 1000, again)
            act()

        self._timers[key] = self._loop.call_later(interval_ms / 1000, again)

    def _schedule(self) -> None:
        if not self._is_busy and not self._is_scheduled and self._loop is not None:
            self._is_scheduled = True
            self._loop.call_soon(self._submit_next)

    def _submit_next(self) -> None:
        """Give the thread the most urgent task there is."""
        self._is_scheduled = False
        if self._is_busy or self._flusher is None or self._durability.is_fenced:
            return
        if self._is_commit_wanted and self._commit_log.end > self._durability.durable:
            self._is_commit_wanted = False
            # Group commit: whatever is in the log by now shares this sync.
            end = self._commit_log.end
            try:
                segments = self._hold_segments(end)
            except DescriptorShortage as error:
                self._commit_log_synced(end, self.stored_at_ms, error)
                return
            task = partial(_sync_files, [segment.file for segment in segments])
            self._submit(task, partial(self._commit_log_task_done, end, self.stored_at_ms, segments))
        elif self._is_round_paused:
            return
        elif self._round:
            self._submit_queues()
        elif self._round_ms is not None:
            self.entries_end = self._round_end
            checkpoint = self._next_checkpoint(self._round_ms)
            self._round_ms = None
            task = partial(self._write_checkpoint, format_checkpoint(checkpoint))
            self._submit(task, partial(self._checkpoint_written, checkpoint))

    def _submit_queues(self) -> None:
        """Give the thread a few queues' entries: a waiter for a commit waits for four files at most."""
        batch: list[tuple[ConsumeQueue, EntryWrite]] = []
        while self._round and len(batch) < _QUEUES_PER_TASK:
            queue = self._round[0]
            try:
                write = queue.begin_write()
            except NotWritten as error:
                if not batch:
                    self._pause_round(error)
                    return
                break
            self._round.popleft()
            if write is not None:
                batch.append((queue, write))
        writes = [write for _, write in batch]
        self._submit(partial(_run_writes, writes), partial(self._queues_synced, batch))

    def _submit(self, task: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        assert self._flusher is not None
        self._is_busy = True
        self._task_count += 1
        began = perf_counter()

        def report(error: Exception | None) -> None:
            self.sync_s.observe(perf_counter() - began)
            self._is_busy = False
            self.hang = None
            done(error)
            if self._flusher is not None:
                self._submit_next()

        self._flusher.submit(task, report)

    def _look_for_hang(self, timeout_ms: int) -> None:
        """Complete the waiters since the check one time-out ago, and notice a task that is the same as then."""
        arrived, task = self._durability.arrived_count, self._task_count if self._is_busy else 0
        self._looks.append((arrived, task))
        if len(self._looks) <= _LOOKS_PER_TIMEOUT:
            return
        arrived_before, task_before = self._looks[0]
        if task and task == task_before and self.hang is None:
            self.hang = f"the disk hangs: a sync has not ended within {timeout_ms} ms"
            log.error("%s", self.hang)
        _answer(self._durability.expire(arrived_before), None)

    def _start_round(self) -> None:
        """Begin to sync what the consume queues got since the last round, and then to write the checkpoint."""
        self._is_round_paused = False
        self._note_entries()
        self.request()
        if self._round or self._round_ms is not None:
            return
        self._round.extend(self._queues.take_unsynced())
        # Every message before the first that is held was dispatched before: the entries of all of them are either synced
        # or in this round.
        self._round_end, dispatched_ms = self._dispatched_end(self._durability.durable), self._dispatched_ms()
        if self._round or self._round_end > (self._checkpoint.entries_end or 0):
            self._round_ms = dispatched_ms
        else:
            self.entries_end = self._round_end

    def _note_entries(self) -> None:
        self.entries_size = self._queues.unsynced_size(self._round)
        self._on_entries(self.entries_size)

    def _commit_log_task_done(
        self, end: int, stored_at_ms: int, segments: list[Segment], error: Exception | None
    ) -> None:
        _release(segments)
        self._commit_log_synced(end, stored_at_ms, error)

    def _commit_log_synced(self, end: int, stored_at_ms: int, error: Exception | None) -> None:
        if isinstance(error, DescriptorShortage):
            self._note_shortage(error)
            if self._loop is not None:
                self._timers[_RETRY_KEY] = self._loop.call_later(_RETRY_MS / 1000, self.request)
        elif error is not None:
            self.fail(error)
        elif not self._durability.is_fenced and end > self._durability.durable:
            self._synced_ms = stored_at_ms
            if not self._round:
                self.shortage = None
            ready = self._durability.advance(end)
            self._on_durable(end)
            _answer(ready, True)

    def _queues_synced(self, batch: list[tuple[ConsumeQueue, EntryWrite]], error: Exception | None) -> None:
        for queue, write in batch:
            queue.end_write(write, is_synced=error is None)
        if isinstance(error, (DescriptorShortage, NotWritten)):
            self._round.extendleft(queue for queue, _ in reversed(batch))
            self._pause_round(error)
        elif error is not None:
            self.fail(error)
        else:
            self.shortage = None
            # A queue whose entries go on in the next file belongs to this round still.
            self._round.extendleft(queue for queue, write in batch if write.is_part)

    def _pause_round(self, error: OSError) -> None:
        """Go on with the next round: the entries are in memory, and the checkpoint does not cover them."""
        self._note_shortage(error)
        self._is_round_paused = True

    def _checkpoint_written(self, checkpoint: StoreCheckpoint, error: Exception | None) -> None:
        """Take note of the checkpoint that is on the disk; the next round writes one that is not."""
        if error is None:
            self._checkpoint = checkpoint
            self.checkpoint_failure = None
            return
        if self.checkpoint_failure is None:
            log.warning("the checkpoint cannot be written, the old one stays and it is tried again: %s", error)
        self.checkpoint_failure = f"the checkpoint cannot be written: {error}"

    def _write_checkpoint_now(self) -> bool:
        checkpoint = self._next_checkpoint(self._dispatched_ms())
        failure = None
        try:
            self._write_checkpoint(format_checkpoint(checkpoint))
        except OSError as error:
            failure = error
        self._checkpoint_written(checkpoint, failure)
        return failure is None

    def _note_shortage(self, error: OSError) -> None:
        if self.shortage is None:
            log.warning("files cannot be written or synced, it is tried again: %s", error)
        self.shortage = f"files cannot be written or synced: {error}"

    def _next_checkpoint(self, consume_queue_ms: int) -> StoreCheckpoint:
        durable = self._durability.durable
        return StoreCheckpoint(
            commit_log_ms=self._synced_ms,
            consume_queue_ms=consume_queue_ms,
            index_ms=self._index_ms,
            flushed_offset=durable,
            confirmed_offset=self._dispatched_end(durable),
            entries_end=self.entries_end,
        )

    def _dispatched_end(self, end: int) -> int:
        """Return up to where, `end` at most, all messages have their queue entries."""
        held = self._first_held()
        return end if held is None else min(end, held.physical_offset)

    def _dispatched_ms(self) -> int:
        """Return up to which store time all messages that are on the disk have their queue entries."""
        held = self._first_held()
        return self._synced_ms if held is None else min(self._synced_ms, held.stored_at_ms - 1)

    def _hold_segments(self, end: int) -> list[Segment]:
        """Keep open what a group commit syncs. Raises DescriptorShortage."""
        held: list[Segment] = []
        try:
            for segment in self._commit_log.log.between(self._durability.durable, end):
                segment.hold()
                held.append(segment)
        except OSError as error:
            _release(held)
            raise DescriptorShortage(error.errno, error.strerror) from error
        return held


def _release(segments: Iterable[Segment]) -> None:
    for segment in segments:
        segment.release()


def _sync_files(files: Iterable[DiskFile]) -> None:
    for file in files:
        file.sync()


def _run_writes(writes: Iterable[EntryWrite]) -> None:
    for write in writes:
        write.run()


def _answer(waiters: list[Waiter], is_durable: bool | None) -> None:
    for waiter in waiters:
        try:
            waiter(is_durable)
        except Exception:
            log.exception("a waiter for durability failed")
