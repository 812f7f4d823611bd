"""The public face of the message store: append, wait until durable, read.

Owned by one event loop. Readers see a message immediately in ASYNC_FLUSH, and after its sync in SYNC_FLUSH.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NoReturn

from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.errors import FileCut, InvalidArgument, StoreBusy, StoreError, StoreUnavailable, SyncFailed
from orbitmq.model.message import Host
from orbitmq.process.histogram import Histogram
from orbitmq.store.disk import Disk, LocalDisk, Lock, write_whole
from orbitmq.store.dispatch import Dispatch, DispatchConsumer, dispatched_of, is_queued, tag_code_of
from orbitmq.store.index.index import Answer, Index
from orbitmq.store.index.keys import NotedKeys
from orbitmq.store.index.layout import IndexSizes
from orbitmq.store.index.search import IndexQuery
from orbitmq.store.lmq import NAMES, lmq_forms
from orbitmq.store.log.commit_log import CommitLog, record_size_max
from orbitmq.store.log.open_files import OpenFiles, affordable_files, allowed_descriptors, allowed_maps
from orbitmq.store.log.start_offset import LogStartOffset
from orbitmq.store.quarantine import Quarantine
from orbitmq.store.queues.consume_queue import ConsumeQueue, Entry
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.queues.lmq_queues import LmqQueues
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.queues.reading import offset_at, read_matching, read_message, read_messages
from orbitmq.store.queues.rebuild import RebuildMark
from orbitmq.store.recovery import Recovered, Recovery, RecoveryReport
from orbitmq.store.retention.retention import Retention
from orbitmq.store.retention.rules import JAVA_RULES, RetentionRules
from orbitmq.store.sync.checkpoint import format_checkpoint, parse_checkpoint
from orbitmq.store.sync.durability import Durability, Waiter
from orbitmq.store.sync.syncing import Syncing
from orbitmq.store.values import (
    AppendResult,
    Boundary,
    Dispatched,
    Draft,
    FlushMode,
    PropertyTest,
    ReadResult,
    ReadStatus,
    StoreConfig,
    StoreIssue,
    StoreIssueKind,
)
from orbitmq.wire.messages.record import Blank, Record

log = logging.getLogger(__name__)

Arrived = Callable[[str, int, int, int], None]
"""Called with topic, queue id, queue offset and tag code of a message that can now be read."""

_EARLY_SHARE = 4
"""ASYNC_FLUSH: at this part of what may be unsynced a sync begins before its time."""
_COUNT_MAX = 32
_SIZE_MAX = 256 * 1024
_WAITING_MESSAGE_SIZE = 1024
"""What a message that waits for its sync takes of memory besides its record: its entry, its sender's answer, estimated."""
# A named tuple's own __new__ is a Python function; three of them per append would cost a microsecond.
_new = tuple.__new__


class Store:
    """CommitLog, consume queues and what keeps them on the disk. Made by `Store.open`.

    Args:
        retention: when old files are deleted.
    """

    def __init__(
        self,
        config: StoreConfig,
        lock: Lock,
        disk: Disk,
        *,
        store_host: Host,
        clock: Clock,
        monotonic: Clock,
        retention: RetentionRules,
    ) -> None:
        self.on_arrived: list[Arrived] = []
        self._config = config
        self._clock = clock
        self._disk = disk
        self._lock = lock
        self._is_sync = config.flush is FlushMode.SYNC
        self._refusal: str | None = _COPY if config.is_copy else None
        self._full: str | None = None
        path = config.path
        self.open_files = OpenFiles(affordable_files(config.open_files_max, allowed_descriptors(), allowed_maps()))
        """The files that are open: how many, and how many were closed to make room."""
        self._commit_log = CommitLog(
            self._disk,
            path / "commitlog",
            config.segment_size,
            store_host=store_host,
            record_crc=config.record_crc,
            on_cut=lambda error: self._syncing.fail(error),
            open_files=self.open_files,
        )
        self._queues = ConsumeQueues(
            self._disk,
            path / "consumequeue",
            config.consume_queue_units,
            open_files=self.open_files,
            delay_levels=config.delay_levels,
        )
        self._delay_levels = config.delay_levels
        self._table = self._queues.table
        self._deletions = Deletions(self._disk, path / "deleted")
        self._start_offset = LogStartOffset(self._disk, path / "begin")
        self._quarantine = Quarantine(self._disk, path / "quarantine", "commitlog")
        self._dispatch = Dispatch()
        self.lmq: LmqQueues | None = None
        """The LMQs, where messages may name some."""
        if config.lmq_max:
            self.lmq = LmqQueues(self._queues, self._deletions, self._tell, config.lmq_max)
        self._durability = Durability()
        self._syncing = Syncing(
            self._commit_log,
            self._queues,
            self._durability,
            checkpoint=parse_checkpoint(self._disk.read(path / "checkpoint")),
            write_checkpoint=lambda content: self._disk.write(path / "checkpoint", content),
            on_durable=self._now_durable,
            on_failure=self._fence,
            on_entries=self._bound_entries,
        )
        self.retention = Retention(
            self._commit_log,
            self._queues,
            self._disk,
            path,
            retention,
            clock=clock,
            monotonic=monotonic,
            start_offset=self._start_offset,
            settled_end=lambda: min(self._durability.durable, self._syncing.entries_end),
            on_full=self._take_or_refuse,
        )
        """Deletes old files while its `run` runs."""
        self.index = self._make_index() if config.has_index else None
        """The index of messages by key."""
        self.note_key: Callable[[NotedKeys], None] = (
            deque(maxlen=0) if self.index is None else self.index.noted
        ).append
        """Called with messages that have one key alone, where the caller knows it; others need not be noted."""

    def _make_index(self) -> Index:
        return Index(
            self._commit_log,
            self._disk,
            self._config.path,
            IndexSizes(self._config.index_slots, self._config.index_entries),
            clock=self._clock,
            readable_end=lambda: self._durability.durable if self._is_sync else self._commit_log.end,
            durable_end=lambda: self._durability.durable,
            on_full=self._syncing.index_full,
        )

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
        with ExitStack() as undo, _without_collector():
            try:
                lock = disk.lock(config.path / "lock")
                undo.callback(lock.close)
                store = cls(
                    config, lock, disk, store_host=store_host, clock=clock, monotonic=monotonic, retention=retention
                )
                undo.callback(store._close_files)
                store.recovered = store._recover()
            except OSError as error:
                raise StoreError(f"{config.path} cannot be opened: {error}") from error
            undo.pop_all()
        return store

    recovered: Recovered
    """What opening the store found."""
    recovery_report: RecoveryReport
    """What was wrong with it."""

    @property
    def dispatch_consumers(self) -> list[DispatchConsumer]:
        """What is derived from the CommitLog: each is told every readable message once, in order."""
        return self._dispatch.consumers

    @property
    def is_writable(self) -> bool:
        """False after a failed sync, while too much waits for the disk, and while shutting down."""
        return self._refusal is None

    @property
    def issues(self) -> list[StoreIssue]:
        """What its operator should know: why it is read-only, what waits for the disk, and what was set aside."""
        syncing = self._syncing
        reason = None if self._refusal is _COPY else self._refusal
        refusing = StoreIssueKind.BUSY if self._refusal in _PASSING else StoreIssueKind.CLOSED
        if self._refusal is not None and self._refusal == self._full:
            refusing = StoreIssueKind.DISK_FULL
        said = (
            (StoreIssueKind.FENCED if self._durability.is_fenced else refusing, reason),
            (StoreIssueKind.DISK_HANGS, syncing.hang),
            (StoreIssueKind.UNSYNCED, syncing.shortage),
            (StoreIssueKind.CHECKPOINT_UNSAVED, syncing.checkpoint_failure),
            (StoreIssueKind.UNDELETED, self.retention.failure),
            (StoreIssueKind.INDEX, None if self.index is None else self.index.warning),
            (StoreIssueKind.QUARANTINE, self._quarantine.warning()),
        )
        return [StoreIssue(kind, reason) for kind, reason in said if reason is not None]

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
        """Bytes of the log that readers cannot see yet: with SYNC_FLUSH a message is shown when its sync is done."""
        return self.max_physical_offset - self.durable_offset if self._is_sync else 0

    @property
    def entries_size(self) -> int:
        """Bytes of queue entries that wait in memory for their files, as of the last round of syncs."""
        return self._syncing.entries_size

    @property
    def quarantine_size(self) -> int:
        """Bytes that recovery has cut off the log, now or earlier, and that are kept still."""
        return self._quarantine.size()

    @property
    def min_physical_offset(self) -> int:
        """The CommitLog's first byte."""
        return self._commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Where the next record goes."""
        return self._commit_log.end

    @property
    def durable_offset(self) -> int:
        """Up to where the CommitLog is known to be on the disk."""
        return self._durability.durable

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
            self._refuse()
        topic, queue_id, properties, sys_flag = draft.topic, draft.queue_id, draft.properties, draft.sys_flag
        queue = self._table.get((topic, queue_id)) or self._queues.make(topic, queue_id)
        stored_at_ms = self._clock()
        syncing = self._syncing
        if stored_at_ms != syncing.stored_at_ms:
            # Once a millisecond: writing behind the end of a file that was cut would kill the process.
            self._commit_log.check_written()
            if stored_at_ms < syncing.stored_at_ms:
                # Searching by time and recovery rely on times that never go back.
                stored_at_ms = syncing.stored_at_ms
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
        if self._is_sync or self._dispatch.consumers or lmqs:
            message = _new(
                Dispatched,
                (topic, queue_id, queue_offset, physical_offset, size, tag_code, stored_at_ms, sys_flag, properties),
            )
            if self._is_sync:
                self._dispatch.hold(message)
                syncing.request()  # also for messages without a waiter: they are to be read, too
            else:
                self._deliver(message)
        elif has_entry:
            # The same as `_deliver` would do, without a value in between: this is the hot path.
            queue.put(queue_offset, physical_offset, size, tag_code)
            if self.on_arrived:
                self._tell(topic, queue_id, queue_offset, tag_code)
        return _new(AppendResult, (queue_offset, physical_offset, size, stored_at_ms))

    def append_copy(self, found: Record | Blank, content: bytes) -> None:
        """Append what stands in the log of the broker that this one copies, at the same place, and let it be read.

        Args:
            content: the record's bytes; of a filler, nothing.

        Raises:
            StoreUnavailable: as `append`.
            StoreError: it does not go on where this log ends.
        """
        if self._refusal is not None and self._refusal is not _COPY:
            self._refuse()
        commit_log, syncing = self._commit_log, self._syncing
        try:
            if isinstance(found, Blank):
                commit_log.close_segment(found.size)
                return
            if not commit_log.end:
                self._start_offset.note(found.physical_offset)
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

    def _take_copy(self, message: Dispatched) -> None:
        """Make a copied message visible. One that fits into no queue is in the log all the same."""
        try:
            if not self._queues.replay(message):
                log.warning("a copied message of %s fits into no queue: %d", message.topic, message.queue_offset)
                return
        except InvalidArgument as error:
            log.warning("a copied message fits into no queue: %s", error)
            return
        self._dispatch.deliver(message)
        if is_queued(message.sys_flag):
            self._tell(message.topic, message.queue_id, message.queue_offset, message.tag_code)

    def append_batch(self, drafts: Sequence[Draft]) -> list[AppendResult]:
        """Append messages one after another, all or none of them.

        Raises: as `append`.
        """
        if self._refusal is not None:
            self._refuse()
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
            self._refuse()
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
        if waiting > self._config.waiting_size_max and self._refusal is None:
            self._refusal = _BUSY
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
            if unsynced > unsynced_max and self._refusal is None:
                self._refusal = _BUSY
            if not self._syncing.is_attached:
                self.flush()

    def flush(self) -> None:
        """Sync everything on the caller's thread; a failed sync fences the store."""
        self._syncing.sync_now()

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        count_max: int = _COUNT_MAX,
        size_max: int = _SIZE_MAX,
        tag_codes: frozenset[int] | None = None,
    ) -> ReadResult:
        """Read messages of one queue from `queue_offset` on (see `reading.read_messages`)."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_QUEUE, 0, 0, 0)
        return read_messages(self._commit_log, queue, queue_offset, count_max, size_max, tag_codes)

    def read_matching(
        self, topic: str, queue_id: int, queue_offset: int, count_max: int, size_max: int, test: PropertyTest
    ) -> tuple[ReadResult, int]:
        """Read those messages of one queue whose properties pass a test (see `reading.read_matching`)."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_QUEUE, 0, 0, 0), 0
        return read_matching(self._commit_log, queue, queue_offset, count_max, size_max, test)

    def queue_entries(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[Entry] | None:
        """Return entries of one queue as they are; None without such a queue."""
        queue = self._queues.get(topic, queue_id)
        return None if queue is None else list(queue.entries(queue_offset, count_max))

    def message_at(self, topic: str, queue_id: int, queue_offset: int) -> Record | None:
        """Return the message at a queue offset, None when it is not there."""
        queue = self._queues.get(topic, queue_id)
        return None if queue is None else read_message(self._commit_log, queue, queue_offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last message that can be read, 0 for a queue that never had one."""
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue else 0

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the first message that can be read, 0 for a queue that never had one."""
        queue = self._queues.get(topic, queue_id)
        return queue.min_offset(self._commit_log.min_offset) if queue else 0

    def earliest_stored_at_ms(self, topic: str, queue_id: int) -> int:
        """Return when the first message that can be read was stored, -1 without one."""
        queue = self._queues.get(topic, queue_id)
        first = queue.min_offset(self._commit_log.min_offset) if queue else 0
        if queue is None or first >= queue.max_offset:
            return -1
        return self._commit_log.stored_at_ms(queue.entry(first)[0])

    def stored_at_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return when the message at a queue offset was stored, -1 when it is not there; its content is not looked at."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset(self._commit_log.min_offset) <= queue_offset < queue.max_offset:
            return -1
        return self._commit_log.stored_at_ms(queue.entry(queue_offset)[0]) or -1

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Return the queue offset that belongs to a store time (see `reading.offset_at`), 0 without a queue."""
        queue = self._queues.get(topic, queue_id)
        return offset_at(self._commit_log, queue, timestamp_ms, boundary) if queue else 0

    def record_at(self, physical_offset: int, size: int | None = None) -> bytes | None:
        """Return the whole record that starts at `physical_offset`, None when no readable one does.

        Args:
            size: what it must measure, in bytes; None: any.
        """
        record = self._commit_log.record_at(physical_offset)
        return record if record is not None and self._may_show(physical_offset, len(record), size) else None

    def parsed_at(self, physical_offset: int, size: int | None = None) -> Record | None:
        """Return the record that `record_at` does, parsed."""
        record = self._commit_log.parsed_at(physical_offset, check_crc=True)
        return record if record is not None and self._may_show(physical_offset, record.size, size) else None

    def _may_show(self, physical_offset: int, size: int, expected: int | None) -> bool:
        if expected is not None and size != expected:
            return False
        return not self._is_sync or physical_offset + size <= self._durability.durable

    def read_raw(self, physical_offset: int, size: int) -> bytes:
        """Return bytes of the log, records or parts of them: fewer where a segment or the log ends or has been deleted.

        Raises:
            StoreUnavailable: the file was cut from outside.
        """
        return self._commit_log.read(physical_offset, min(size, self._commit_log.end - physical_offset))

    def committed_from(self, physical_offset: int) -> Iterator[Record]:
        """Yield the records of committed transactions from there to the log's end: for starts, it takes a while."""
        return self._commit_log.committed_records(physical_offset, self._commit_log.end)

    def query(self, question: IndexQuery, answer: Answer) -> None:
        """Search for the messages of a key; `answer` gets what was found, or a StoreError, immediately or later on the loop."""
        if self.index is None:
            answer(StoreUnavailable("messages are not indexed here (messageIndexEnable)"))
        else:
            self.index.query(question, answer)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that ever had a message, sorted."""
        return sorted(queue.queue_id for queue in self._queues.of_topic(topic))

    def topics(self) -> list[str]:
        """Return the topics that have consume queues, sorted."""
        return self._queues.topics()

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's consume queues; the records stay in the CommitLog until it is cleaned.

        Raises:
            StoreUnavailable: the disk does not take the note of it; nothing was deleted.
        """
        if not self.queue_ids(topic):
            return
        try:
            # It may name the topic's queues, which must not be missed at the next start.
            self._disk.remove(self._config.path / "ends")
            # Without a note on the disk, a start after a crash would bring back what it reads again.
            self._deletions.note(topic, self._commit_log.end)
        except OSError as error:
            raise StoreUnavailable(f"the deletion of {topic} cannot be noted: {error.strerror}") from error
        self._dispatch.forget(topic, (lambda _message: ()) if self.lmq is None else self.lmq.without_own)
        try:
            self._queues.remove_topic(topic)
        except OSError as error:
            log.warning("the queues of %s stay on the disk until the next start removes them: %s", topic, error)

    def close(self) -> None:
        """Sync everything, leave a checkpoint, and mark the stop as orderly unless any of that failed."""
        if self._refusal == _CLOSED:
            return
        self._syncing.stop()
        is_synced = self._syncing.sync_now()
        if self.index is not None:
            # Once more for the checkpoint, which covers full index files.
            is_synced = self.index.close(is_synced=is_synced) and self._syncing.sync_now()
        self._refusal = _CLOSED
        if is_synced:
            self._mark_orderly_stop()
        self._close_files()

    def _mark_orderly_stop(self) -> None:
        path = self._config.path
        try:
            ends = QueueEnds.of(self._queues, self.min_physical_offset)
            write_whole(self._disk, path / "ends", ends.format())
            self._disk.remove(path / "abort")
        except OSError as error:  # everything is on the disk: the next start only looks at more of it
            log.warning("the stop cannot be marked as orderly: %s", error)

    def _recover(self) -> Recovered:
        path = self._config.path
        is_clean = not self._disk.exists(path / "abort")
        checkpoint = parse_checkpoint(self._disk.read(path / "checkpoint"))
        self._disk.write(path / "abort", str(os.getpid()).encode())
        self._commit_log.log.load()
        damaged = self._queues.load()

        def lower_checkpoint(time_ms: int, durable: int | None) -> None:
            lowered = checkpoint.without_entries_since(time_ms)
            if durable is not None:
                lowered = lowered._replace(flushed_offset=durable, confirmed_offset=durable)
            self._disk.write(path / "checkpoint", format_checkpoint(lowered))

        recovery_ms = None if is_clean else checkpoint.recovery_ms
        recovery = Recovery(
            self._commit_log,
            self._queues,
            quarantine=self._quarantine,
            mark=RebuildMark(self._disk, path / "rebuild"),
            deletions=self._deletions,
            start_offset=self._start_offset,
            ends=QueueEnds.parse(self._disk.read(path / "ends")),
            accepted_end=self._config.accept_log_end,
            lower_checkpoint=lower_checkpoint,
        )
        self.recovery_report = recovery.recovery_report
        recovered = recovery.run(recovery_ms, checkpoint.durable_offset, damaged)
        self._durability.durable = recovered.end
        # What recovery did not read again is what the checkpoint covers, with its entries.
        self._syncing.start(recovered.stored_at_ms, recovered.start)
        self.retention.start(recovered.stored_at_ms)
        if self.index is not None:
            self.index.open(is_clean=is_clean, full_ms=checkpoint.index_ms)
        if not is_clean:
            log.info(
                "the last stop was not orderly: read %d records again, the CommitLog ends at %d",
                recovered.record_count,
                recovered.end,
            )
        return recovered

    def _sync_failed(self, failure: SyncFailed) -> NoReturn:
        """Fence the store as after any failed sync, also one on the loop's own thread, and refuse the message."""
        self._syncing.fail(failure.error)
        raise StoreUnavailable(self._refusal or str(failure)) from failure

    def _refuse(self) -> NoReturn:
        assert self._refusal is not None
        raise (StoreBusy if self._refusal in _PASSING else StoreUnavailable)(self._refusal)

    def _now_durable(self, position: int) -> None:
        if self._refusal is _BUSY:
            self._refusal = None
        if self._is_sync:
            for message in self._dispatch.take_readable(position):
                self._deliver(message)

    def _deliver(self, message: Dispatched) -> None:
        """Make a message visible: its consume queue first, then whatever else follows the log, then the waiters."""
        self._queues.put(message)
        if self.lmq is not None:
            self.lmq.deliver(message)
        self._dispatch.deliver(message)
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
            self._refusal = (
                f"the store is read-only: {error}; what was in it is gone unless you bring it back before a restart"
            )
        else:
            self._refusal = (
                f"the store is read-only since a sync failed ({error}); restart the broker on a healthy disk"
            )
        log.error("%s", self._refusal)

    def _bound_entries(self, size: int) -> None:
        """Refuse messages while too many queue entries wait in memory for a disk that does not take them."""
        if size > self._config.entries_size_max and self._refusal is None:
            self._refusal = _ENTRIES_WAIT
            log.warning("%s (%d bytes)", _ENTRIES_WAIT, size)
        elif size <= self._config.entries_size_max and self._refusal is _ENTRIES_WAIT:
            self._refusal = None

    def _take_or_refuse(self, full: str | None) -> None:
        """Refuse messages for want of room, for this reason, or take them again; other reasons to refuse them last."""
        if self._refusal in (None, *_PASSING, self._full):
            self._refusal = full
        self._full = full

    def _close_files(self) -> None:
        if self.index is not None:
            self.index.release()
        self._commit_log.close()
        self._queues.close()
        self._lock.close()


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


_CLOSED = "the store is closed"
_ENTRIES_WAIT = "the broker is busy: the disk does not take the entries of its consume queues (see queueEntriesMax)"
_BUSY = "the broker is busy: the disk does not keep up with what waits for it"
_COPY = "this broker is a slave: it takes messages from its master alone"
_PASSING = (_BUSY, _ENTRIES_WAIT)
"""Refusals that end by themselves when the disk has caught up."""
