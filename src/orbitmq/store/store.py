"""The public face of the message store: append, wait until durable, read.

Owned by one event loop. Readers see a message immediately in ASYNC_FLUSH, and after its sync in SYNC_FLUSH; where they wait for
slaves, too, also not before these have it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.errors import FileCut, InvalidArgument, StoreBusy, StoreError, StoreUnavailable, SyncFailed
from orbitmq.model.message import Host
from orbitmq.model.topic import DELETIONS_TOPIC
from orbitmq.process.histogram import Histogram
from orbitmq.store.availability import ENTRIES_BEHIND, Availability, Refusal, StoreState
from orbitmq.store.disk import Disk
from orbitmq.store.dispatch import Dispatch, dispatched_of, is_queued, tag_code_of
from orbitmq.store.files import FoundStore, StoreFiles
from orbitmq.store.index.index import Index
from orbitmq.store.index.index_file import IndexSizes
from orbitmq.store.index.keys import NotedKeys
from orbitmq.store.index.search import Answer, IndexQuery
from orbitmq.store.lmq import NAMES, lmq_forms
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.clock_jumps import is_future
from orbitmq.store.log.commit_log import record_size_max
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.lmq_queues import LmqQueues
from orbitmq.store.reader import StoreReader
from orbitmq.store.retention.retention import Retention
from orbitmq.store.retention.rules import HOUR_MS, JAVA_RULES, RetentionRules
from orbitmq.store.sync.durability import Durability, Waiter
from orbitmq.store.sync.syncing import Syncing
from orbitmq.store.values import AppendResult, Dispatched, Draft, FlushMode, StoreConfig, StoreIssue, StoreIssueKind
from orbitmq.wire.messages.record import Blank, Record

log = logging.getLogger(__name__)

Arrived = Callable[[str, int, int, int], None]
"""Called with topic, queue id, queue offset and tag code of a message that can now be read."""

_EARLY_SHARE = 4
"""ASYNC_FLUSH: at this part of what may be unsynced a sync begins before its time."""
_WAITING_MESSAGE_SIZE = 1024
"""What a message that waits for its sync takes of memory besides its record: its entry, its sender's answer, estimated."""
# A named tuple's own __new__ is a Python function; three of them per append would cost a microsecond.
_new = tuple.__new__


class Store(StoreReader):
    """CommitLog, consume queues and what keeps them on the disk. Made by `Store.open`.

    Args:
        retention: when old files are deleted.
    """

    def __init__(
        self, files: StoreFiles, found: FoundStore, *, clock: Clock, monotonic: Clock, retention: RetentionRules
    ) -> None:
        config = files.config
        durability = Durability(found.recovered.end)
        super().__init__(
            files.commit_log,
            files.queues,
            durability,
            files.jumps,
            clock=clock,
            is_sync=config.flush is FlushMode.SYNC,
            waits_for_slaves=config.waits_for_slaves,
        )
        self._are_held = self._is_sync or config.waits_for_slaves
        self.recovered = found.recovered
        """What opening the store found."""
        self.recovery_report = found.report
        """What was wrong with it."""
        self.open_files = files.open_files
        """The files that are open: how many, and how many were closed to make room."""
        self.on_arrived: list[Arrived] = []
        self.on_deleted: list[Callable[[str], None]] = []
        """Called with a topic that the broker has deleted whose log this one copies."""
        self.on_held: list[Callable[[], None]] = []
        """Called when a message was appended that readers do not see yet."""
        self._config = config
        self._files = files
        self._availability = Availability(is_copy=config.is_copy)
        self._refusal = self._availability.refusal
        self._delay_levels = config.delay_levels
        self._table = files.queues.table
        self._dispatch = Dispatch()
        self.lmq: LmqQueues | None = None
        """The LMQs, where messages may name some."""
        if config.lmq_max:
            self.lmq = LmqQueues(files.queues, files.deletions, self._tell, config.lmq_max)
        self._syncing = Syncing(
            files.commit_log,
            files.queues,
            durability,
            checkpoint=found.checkpoint,
            write_checkpoint=files.write_checkpoint,
            on_durable=self._now_durable,
            on_failure=self._fence,
            on_entries=self._bound_entries,
            first_held=lambda: self._dispatch.first,
        )
        files.commit_log.on_cut.append(self._syncing.fail)
        # What recovery did not read again is what the checkpoint covers, with its entries.
        self._syncing.start(found.recovered.stored_at_ms, found.recovered.start)
        now_ms = clock()
        if is_future(found.recovered.stored_at_ms, now_ms):
            # Noted here, and not with the next message: until then searches have to know it, too.
            self._syncing.start(self._time_after(now_ms), found.recovered.start)
        self.retention = Retention(
            files.commit_log,
            files.queues,
            files.disk,
            config.path,
            retention,
            clock=clock,
            monotonic=monotonic,
            start_offset=files.start_offset,
            jumps=files.jumps,
            settled_end=lambda: min(durability.durable, self._syncing.entries_end),
            on_full=lambda reason: self._change(full=reason),
        )
        """Deletes old files while its `run` runs."""
        self.retention.start(files.jumps.counted_ms(found.recovered.end - 1, found.recovered.stored_at_ms, now_ms))
        self.index = self._open_index(found) if config.has_index else None
        """The index of messages by key."""
        self.note_key: Callable[[NotedKeys], None] = (
            deque(maxlen=0) if self.index is None else self.index.noted
        ).append
        """Called with messages that have one key alone, where the caller knows it; others need not be noted."""

    def _open_index(self, found: FoundStore) -> Index:
        config, files = self._config, self._files
        index = Index(
            files.commit_log,
            files.disk,
            config.path,
            IndexSizes(config.index_slots, config.index_entries),
            clock=self._clock,
            jumps=files.jumps,
            readable_end=lambda: self.readable_end,
            on_full=self._syncing.index_full,
        )
        index.open(is_clean=found.is_clean, full_ms=found.checkpoint.index_ms)
        return index

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        *,
        store_host: Host,
        clock: Clock = now_ms,
        monotonic: Clock = monotonic_ms,
        disk: Disk | None = None,
        retention: RetentionRules = JAVA_RULES,
    ) -> Store:
        """Open a store, make it if need be, and recover what an earlier process left.

        Raises:
            StoreError: another broker holds the directory, its files do not fit the configuration, the log has lost
                what was on the disk, or the disk takes or gives nothing.
        """
        disk = disk or LocalDisk()
        with ExitStack() as undo:
            try:
                lock = disk.lock(config.path / "lock")
                undo.callback(lock.close)
                files = StoreFiles.of(config, disk, lock, store_host)
                undo.callback(files.close)
                store = cls(files, files.recover(), clock=clock, monotonic=monotonic, retention=retention)
            except OSError as error:
                raise StoreError(f"{config.path} cannot be opened: {error}") from error
            undo.pop_all()
        return store

    @property
    def is_writable(self) -> bool:
        """False after a failed sync, while too much waits for the disk, and while shutting down."""
        return self._refusal is None

    @property
    def issues(self) -> list[StoreIssue]:
        """What its operator should know: why it is read-only, what waits for the disk, and what was set aside."""
        syncing, refusal = self._syncing, self._refusal
        kind = None if refusal is None else _ISSUES.get(refusal.state)
        issues = [] if refusal is None or kind is None else [StoreIssue(kind, refusal.reason)]
        said = (
            (StoreIssueKind.DISK_HANGS, syncing.hang),
            (StoreIssueKind.UNSYNCED, syncing.shortage),
            (StoreIssueKind.CHECKPOINT_UNSAVED, syncing.checkpoint_failure),
            (StoreIssueKind.UNDELETED, self.retention.failure),
            (StoreIssueKind.INDEX, None if self.index is None else self.index.failure),
            (StoreIssueKind.QUARANTINE, self._files.quarantine.warning()),
            (StoreIssueKind.REPLACED, self._files.quarantine.replaced()),
            (StoreIssueKind.CLOCK, self._future_warning()),
        )
        return issues + [StoreIssue(kind, reason) for kind, reason in said if reason is not None]

    def _future_warning(self) -> str | None:
        found = self.future_messages
        if found is None:
            return None
        position, ahead_ms = found
        return (
            f"messages before {position} of the commitlog have store times up to {ahead_ms / HOUR_MS:.1f} h in the future: "
            "the clock was ahead. They count as stored when it was set right"
        )

    @property
    def future_messages(self) -> tuple[int, int] | None:
        """The place in the log before which messages of the future are, and how far ahead (ms) the last one is; None: none."""
        now_ms = self._clock()
        jump = self._jumps.furthest(self._commit_log.min_offset, now_ms)
        return None if jump is None else (jump.position, jump.before_ms - now_ms)

    @property
    def warnings(self) -> list[str]:
        """The reasons of all issues."""
        return [issue.reason for issue in self.issues]

    @property
    def sync_s(self) -> Histogram:
        """How long the flusher's syncs took, in seconds."""
        return self._syncing.sync_s

    @property
    def dispatch_behind_size(self) -> int:
        """Bytes of the log that readers cannot see yet: they wait for the disk (SYNC_FLUSH) or for slaves (SYNC_MASTER)."""
        return self.max_physical_offset - self.readable_end

    def last_stored(self) -> tuple[int, int]:
        """Return where the log ends, and when the message before that was stored."""
        return self._commit_log.end, self._syncing.stored_at_ms

    @property
    def entries_size(self) -> int:
        """Bytes of queue entries that wait in memory for their files, as of the last round of syncs."""
        return self._syncing.entries_size

    @property
    def quarantine_size(self) -> int:
        """Bytes that recovery has cut off the log, now or earlier, and that are kept still."""
        return self._files.quarantine.size()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the flusher thread, which reports to `loop`."""
        self._syncing.attach(
            loop,
            commit_every_ms=None if self._is_sync else self._config.flush_interval_ms,
            checkpoint_every_ms=self._config.checkpoint_interval_ms,
            timeout_ms=self._config.sync_timeout_ms,
        )
        if self.index is not None:
            self.index.attach(loop)

    def append(self, draft: Draft) -> AppendResult:
        """Append a message: to the CommitLog, and to its consume queue as soon as it may be read.

        Raises:
            StoreUnavailable: the disk is full, a sync failed, or the store is closed; nothing was appended.
            StoreBusy: too much waits for the disk.
            InvalidArgument: the message does not fit the format.
        """
        if self._refusal is not None:
            self._refuse(self._refusal)
        topic, queue_id, properties, sys_flag = draft.topic, draft.queue_id, draft.properties, draft.sys_flag
        queue = self._table.get((topic, queue_id)) or self._queues.make(topic, queue_id)
        stored_at_ms = self._clock()
        syncing = self._syncing
        if stored_at_ms != syncing.stored_at_ms:
            # Once a millisecond: writing behind the end of a file that was cut would kill the process.
            self._commit_log.check_written()
            if stored_at_ms < syncing.stored_at_ms:
                stored_at_ms = self._time_after(stored_at_ms)
        has_entry = not sys_flag & 0xC or is_queued(sys_flag)
        queue_offset = queue.next_offset if has_entry else 0
        lmqs: Sequence[ConsumeQueue] = ()
        if self.lmq is not None and has_entry and NAMES in properties:
            draft, lmqs = self.lmq.number(draft)
            properties = draft.properties
        commit_log = self._commit_log
        try:
            size = commit_log.append(draft, queue.magic, queue.topic_part, queue_offset, stored_at_ms)
        except SyncFailed as failure:
            self._sync_failed(failure)
        physical_offset = commit_log.end - size
        syncing.stored_at_ms = stored_at_ms
        if has_entry:
            queue.next_offset = queue_offset + 1
            for lmq in lmqs:
                lmq.next_offset += 1
        tag_code = draft.tag_code
        if tag_code is None:
            tag_code = tag_code_of(topic, properties, stored_at_ms, self._delay_levels)
        if self._are_held or lmqs:
            message = _new(
                Dispatched,
                (topic, queue_id, queue_offset, physical_offset, size, tag_code, stored_at_ms, sys_flag, properties),
            )
            if self._are_held:
                self._dispatch.hold(message)
                if self._is_sync:
                    syncing.request()  # also for messages without a waiter: they are to be read, too
                for held in self.on_held:
                    held()
            else:
                self._deliver(message)
        elif has_entry:
            # The same as `_deliver` would do, without a value in between: this is the hot path.
            queue.put(queue_offset, physical_offset, size, tag_code)
            if self.on_arrived:
                self._tell(topic, queue_id, queue_offset, tag_code)
        return _new(AppendResult, (queue_offset, physical_offset, size, stored_at_ms))

    def _time_after(self, now_ms: int) -> int:
        """Return the store time of the next message when the last one's is later than now.

        Times go back where the clock was ahead, and that is noted. They stand still for what a clock is corrected by in
        steps, so that messages of one minute keep their order.
        """
        last_ms = self._syncing.stored_at_ms
        if not is_future(last_ms, now_ms) or not self._jumps.note(self._commit_log.end, last_ms, now_ms):
            return last_ms
        return now_ms

    def append_copy(self, found: Record | Blank, content: bytes) -> None:
        """Append what stands in the log of the broker that this one copies, at the same place, and let it be read.

        Args:
            content: the record's bytes; of a filler, nothing.

        Raises:
            StoreUnavailable: as `append`.
            StoreError: it does not go on where this log ends.
        """
        if self._refusal is not None and self._refusal.state is not StoreState.COPY:
            self._refuse(self._refusal)
        commit_log, syncing = self._commit_log, self._syncing
        try:
            if isinstance(found, Blank):
                commit_log.close_segment(found.size)
                return
            if not commit_log.end:
                self._files.start_offset.note(found.physical_offset)
            if found.topic == DELETIONS_TOPIC:
                # Noted before the log has it: after a crash in between it is copied, and noted, once more.
                self._delete_as_told(found)
            if is_future(syncing.stored_at_ms, found.stored_at_ms):
                self._jumps.note(found.physical_offset, syncing.stored_at_ms, found.stored_at_ms)
                syncing.stored_at_ms = found.stored_at_ms
            # Byte for byte at the master's offset: the logs of a group stay interchangeable.
            commit_log.append_copy(content, found.physical_offset)
        except SyncFailed as failure:
            self._sync_failed(failure)
        syncing.stored_at_ms = max(syncing.stored_at_ms, found.stored_at_ms)
        # Consume queues are not copied: each broker derives them from its own log.
        for form in (found, *lmq_forms(found)):
            self._take_copy(dispatched_of(form, self._delay_levels))
        if self._is_sync:
            syncing.request()
        else:
            self.bound_unsynced(commit_log.end)

    def _delete_as_told(self, found: Record) -> None:
        topic = bytes(found.body).decode(errors="replace")
        if self.queue_ids(topic):
            self._delete_topic(topic, found.physical_offset + found.size)
        for deleted in self.on_deleted:
            deleted(topic)

    def _take_copy(self, message: Dispatched) -> None:
        """Make a copied message visible. One that fits into no queue is in the log all the same."""
        try:
            if not self._queues.replay(message):
                log.warning("a copied message of %s fits into no queue: %d", message.topic, message.queue_offset)
                return
        except InvalidArgument as error:
            log.warning("a copied message fits into no queue: %s", error)
            return
        if is_queued(message.sys_flag):
            self._tell(message.topic, message.queue_id, message.queue_offset, message.tag_code)

    def append_batch(self, drafts: Sequence[Draft]) -> list[AppendResult]:
        """Append messages one after another, all or none of them.

        Raises: as `append`.
        """
        if self._refusal is not None:
            self._refuse(self._refusal)
        try:
            self._commit_log.make_room_for(drafts)
        except SyncFailed as failure:
            self._sync_failed(failure)
        return [self.append(draft) for draft in drafts]

    def make_room(self, topic: str, count: int, size: int) -> None:
        """Make sure that the disk has room for many messages of a topic that will be appended in parts.

        What others append meanwhile takes of that room; where no segment can hold all of it, none is made.

        Args:
            size: bytes of all bodies and properties.

        Raises: as `append`.
        """
        if self._refusal is not None:
            self._refuse(self._refusal)
        try:
            self._commit_log.make_room_together(count * record_size_max(topic, 0) + size)
        except SyncFailed as failure:
            self._sync_failed(failure)

    def check_properties(self, properties: bytes) -> None:
        """Raise InvalidArgument for properties that no record can hold."""
        self._commit_log.check_properties(properties)

    def wait_durable(self, position: int, waiter: Waiter) -> bool:
        """Ask for an answer when the log is durable up to `position` (bytes, an `AppendResult.end`).

        Returns:
            True: there is nothing to wait for, because it is durable or because ASYNC_FLUSH promises nothing.
            False: `waiter(is_durable)` is called on the loop; False tells that the sync failed, None that it has not
            ended within the time-out.
        """
        if not self._is_sync:
            self.bound_unsynced(position)
            return True
        if position <= self._durability.durable:
            return True
        if self._durability.is_fenced:
            waiter(False)
            return False
        self._durability.wait(position, waiter)
        # Here, not in `append`: once per request, and never between the messages of a batch.
        waiting = position - self._durability.durable + len(self._dispatch) * _WAITING_MESSAGE_SIZE
        if waiting > self._config.waiting_size_max:
            self._change(is_log_behind=True)
        if not self._syncing.is_attached:
            self.flush()
        return False

    def bound_unsynced(self, end: int) -> None:
        """ASYNC_FLUSH: refuse messages from now on while the disk is too far behind the log's end.

        After appends the caller calls this or `wait_durable`, once for many messages.
        """
        unsynced, unsynced_max = end - self._durability.durable, self._config.waiting_size_max
        if unsynced > unsynced_max // _EARLY_SHARE:
            self._syncing.request()
            if unsynced > unsynced_max:
                self._change(is_log_behind=True)
            if not self._syncing.is_attached:
                self.flush()

    def replicated_to(self, end: int) -> None:
        """Let readers see the log up to `end` (bytes), as far as the flush mode does: slaves have it, or are waited for no more."""
        self._replicated = end
        self._show_readable()

    def note_uncopied(self, reason: str | None) -> None:
        """Refuse messages from now on, for they would have too few copies; None: they have enough again."""
        self._change(uncopied=reason)

    def flush(self) -> None:
        """Sync everything on the caller's thread; a failed sync fences the store."""
        self._syncing.sync_now()

    def query(self, question: IndexQuery, answer: Answer) -> None:
        """Search for the messages of a key; `answer` gets what was found, or a StoreError, immediately or later on the loop."""
        if self.index is None:
            answer(StoreUnavailable("messages are not indexed here (messageIndexEnable)"))
        else:
            self.index.query(question, answer)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's consume queues; the records stay in the CommitLog until it is cleaned.

        With SYNC_MASTER the log says so: brokers that copy it delete them at the same place, for the topic may be made again.

        Raises:
            StoreUnavailable: the disk does not take the note of it, or the store takes nothing; nothing was deleted.
        """
        if not self.queue_ids(topic):
            return
        if self._config.waits_for_slaves:
            self.append(Draft(DELETIONS_TOPIC, 0, topic.encode()))
        self._delete_topic(topic, self._commit_log.end)

    def _delete_topic(self, topic: str, log_end: int) -> None:
        try:
            self._files.note_deletion(topic, log_end)
        except OSError as error:
            raise StoreUnavailable(f"the deletion of {topic} cannot be noted: {error.strerror}") from error
        self._dispatch.forget(topic, (lambda _message: ()) if self.lmq is None else self.lmq.without_own)
        try:
            self._queues.remove_topic(topic)
        except OSError as error:
            log.warning("the queues of %s stay on the disk until the next start removes them: %s", topic, error)

    def close(self) -> None:
        """Sync everything, leave a checkpoint, and mark the stop as orderly unless any of that failed."""
        if self._availability.is_closed:
            return
        self._syncing.stop()
        if self._replicated is not None:
            # No reader is left, and the next start reads no more of an orderly store than its queues tell.
            self._replicated = self._commit_log.end
            for message in self._dispatch.take_readable(self.readable_end):
                self._put(message)
        is_synced = self._syncing.sync_now()
        if self.index is not None:
            # Once more for the checkpoint, which covers full index files.
            is_synced = self.index.close(is_synced=is_synced) and self._syncing.sync_now()
        self._change(is_closed=True)
        if is_synced:
            self._files.mark_orderly_stop()
        self._close_files()

    def _sync_failed(self, failure: SyncFailed) -> NoReturn:
        """Fence the store as after any failed sync, also one on the loop's own thread, and refuse the message."""
        self._syncing.fail(failure.error)
        raise StoreUnavailable(self._refusal.reason if self._refusal else str(failure)) from failure

    def _refuse(self, refusal: Refusal) -> NoReturn:
        raise (StoreBusy if refusal.state is StoreState.BEHIND else StoreUnavailable)(refusal.reason)

    def _change(self, **conditions: Any) -> None:
        """Let conditions of the availability come or go; see `Availability`."""
        self._availability = self._availability._replace(**conditions)
        self._refusal = self._availability.refusal

    def _now_durable(self, position: int) -> None:
        if self._availability.is_log_behind:
            self._change(is_log_behind=False)
        self._show_readable()

    def _show_readable(self) -> None:
        if self._are_held:
            for message in self._dispatch.take_readable(self.readable_end):
                self._deliver(message)

    def _put(self, message: Dispatched) -> None:
        self._queues.put(message)
        if self.lmq is not None:
            self.lmq.deliver(message)

    def _deliver(self, message: Dispatched) -> None:
        """Make a message visible: its consume queues first, then the waiters."""
        self._put(message)
        if is_queued(message.sys_flag):
            self._tell(message.topic, message.queue_id, message.queue_offset, message.tag_code)

    def _tell(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> None:
        try:
            for arrived in self.on_arrived:
                arrived(topic, queue_id, queue_offset, tag_code)
        except Exception:  # the message is stored: a listener must not turn that into a refusal
            log.exception("a listener for arriving messages failed")

    def _fence(self, error: Exception) -> None:
        if isinstance(error, FileCut):
            fault = f"the store is read-only: {error}; what was in it is gone unless you bring it back before a restart"
        else:
            fault = f"the store is read-only since a sync failed ({error}); restart the broker on a healthy disk"
        self._change(fault=fault)
        log.error("%s", fault)

    def _bound_entries(self, size: int) -> None:
        """Refuse messages while too many queue entries wait in memory for a disk that does not take them."""
        are_behind = size > self._config.entries_size_max
        if are_behind is not self._availability.are_entries_behind:
            self._change(are_entries_behind=are_behind)
            if are_behind:
                log.warning("%s (%d bytes)", ENTRIES_BEHIND, size)

    def _close_files(self) -> None:
        if self.index is not None:
            self.index.release()
        self._files.close()


_ISSUES = {
    StoreState.CLOSED: StoreIssueKind.CLOSED,
    StoreState.FENCED: StoreIssueKind.FENCED,
    StoreState.FULL: StoreIssueKind.DISK_FULL,
    StoreState.UNCOPIED: StoreIssueKind.UNCOPIED,
    StoreState.BEHIND: StoreIssueKind.BUSY,
}
"""What an operator is told of; that a slave takes no messages is not an issue."""
