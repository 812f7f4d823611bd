"""The values that go into the store and come out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import ConfigError
from orbitmq.model.delay_levels import DELAY_LEVELS, DelayLevels
from orbitmq.model.message import Host

NO_HOST = Host("0.0.0.0", 0)


class FlushMode(Enum):
    """When an append counts as done (Java: FlushDiskType)."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


class StoreIssueKind(StrEnum):
    """What may be wrong with a store; metrics show each kind by this name."""

    FENCED = "fenced"
    """Read-only since a sync failed."""
    BUSY = "busy"
    """Refuses messages until the disk has caught up."""
    DISK_FULL = "disk full"
    """Refuses messages until the disk has room again."""
    UNCOPIED = "uncopied"
    """Refuses messages until more brokers of the group have copies (minInSyncReplicas)."""
    CLOSED = "closed"
    DISK_HANGS = "disk hangs"
    UNSYNCED = "unsynced"
    """Files that cannot even be opened to be synced; it is tried again."""
    CHECKPOINT_UNSAVED = "checkpoint unsaved"
    UNDELETED = "undeleted"
    """Old files stay that the disk does not let go."""
    INDEX = "index"
    """Messages are not indexed by key for now."""
    QUARANTINE = "quarantine"
    """Recovery has cut something off the log, now or earlier, and it is kept still."""
    REPLACED = "replaced"
    """Another master's records have replaced some that were never acknowledged, within a day."""
    CLOCK = "clock"
    """Messages have store times in the future: the clock was ahead when they were stored."""


class StoreIssue(NamedTuple):
    """Something that is wrong with a store, and the text that says why."""

    kind: StoreIssueKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How a store is laid out and when it syncs. Sizes are bytes.

    The sizes must be those that the directory was written with; the defaults are Java's.

    Args:
        path: the root, as Java's storePathRootDir: holds commitlog/, consumequeue/, checkpoint, abort, lock.
        segment_size: mappedFileSizeCommitLog.
        consume_queue_units: entries in one consume-queue file (mappedFileSizeConsumeQueue / 20).
        flush: flushDiskType.
        flush_interval_ms: ASYNC: how often the CommitLog is synced (flushIntervalCommitLog).
        checkpoint_interval_ms: how often consume queues and checkpoint follow; recovery reads that much again.
        sync_timeout_ms: a waiter for a sync gets `None`, unknown, after this time (syncFlushTimeout).
        waiting_size_max: bytes that may wait for the disk before appends are refused; SYNC: answers and all.
        entries_size_max: bytes of queue entries that may wait in memory for a disk that does not take their files, before
            appends are refused; checked once in each `checkpoint_interval_ms`.
        record_crc: append a checksum of the whole record to its properties (enabledAppendPropCRC).
        open_files_max: descriptors that the store's files may take at a time; 0: a quarter of what the process may have.
        has_index: messages are indexed by key (messageIndexEnable).
        index_slots: of each index file (maxHashSlotNum).
        index_entries: of each index file (maxIndexNum).
        delay_levels: how long delayed messages wait (messageDelayLevel).
        lmq_max: LMQs that messages may name (maxLmqConsumeQueueNum); 0: what they name is kept in
            their properties and nothing more.
        is_copy: the log is a copy of another broker's: only what that has is appended (`Store.append_copy`).
        waits_for_slaves: readers see a message when `Store.replicated_to` says that it is replicated (SYNC_MASTER).
        accept_log_end: where the CommitLog may end (bytes) although more of it was on the disk once (acceptLogEnd);
            None: a store that has lost something does not open.
        cut_at: where the CommitLog ends (bytes) although it goes on: what is behind, another master has not; it is moved
            aside. None: nothing is cut that is whole.
    """

    path: Path
    segment_size: int = 1 << 30
    consume_queue_units: int = 300_000
    flush: FlushMode = FlushMode.ASYNC
    flush_interval_ms: int = 500
    checkpoint_interval_ms: int = 2000
    sync_timeout_ms: int = 5000
    waiting_size_max: int = 64 * 1024 * 1024
    entries_size_max: int = 64 * 1024 * 1024
    record_crc: bool = False
    open_files_max: int = 0
    has_index: bool = False
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    delay_levels: DelayLevels = DELAY_LEVELS
    lmq_max: int = 0
    is_copy: bool = False
    waits_for_slaves: bool = False
    accept_log_end: int | None = None
    cut_at: int | None = None

    def __post_init__(self) -> None:
        for name, minimum in (
            ("segment_size", 1024),
            ("consume_queue_units", 1),
            ("flush_interval_ms", 1),
            ("checkpoint_interval_ms", 1),
            ("sync_timeout_ms", 1),
            ("waiting_size_max", 1),
            ("entries_size_max", 1),
            ("open_files_max", 0),
            ("index_slots", 1),
            ("index_entries", 2),
            ("lmq_max", 0),
        ):
            if getattr(self, name) < minimum:
                raise ConfigError(name, getattr(self, name), f"at least {minimum}")


class Draft(NamedTuple):
    """A message to append. The store adds both offsets, the time and its own host.

    `tag_code` None: taken from the TAGS property.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_at_ms: int = 0
    born_host: Host = NO_HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tag_code: int | None = None


class AppendResult(NamedTuple):
    """Where a message went: `queue_offset` counts messages, the next two count bytes."""

    queue_offset: int
    physical_offset: int
    size: int
    stored_at_ms: int

    @property
    def end(self) -> int:
        """The position to hand to `Store.wait_durable`."""
        return self.physical_offset + self.size


class Dispatched(NamedTuple):
    """What the CommitLog tells everything that is derived from it: one readable message."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tag_code: int
    stored_at_ms: int
    sys_flag: int
    properties: bytes


class PropertyTest(NamedTuple):
    """What a read asks of each message's encoded properties.

    Args:
        matches: says whether the message is wanted.
        cost: how often it looks at the properties.
        tag_codes: only messages with one of these codes are asked; None: all.
        passing: from the properties of many messages to the indexes of those that are to be asked; None: all.
    """

    matches: Callable[[bytes], bool]
    cost: int = 1
    tag_codes: frozenset[int] | None = None
    passing: Callable[[Sequence[bytes]], Sequence[int]] | None = None


class ReadStatus(IntEnum):
    """What a read found (Java: GetMessageStatus)."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    """Entries were passed over, by the filter or because their segment is gone: read on at next_offset."""
    NO_MATCHED_QUEUE = 2
    NO_MESSAGE_IN_QUEUE = 3
    OFFSET_TOO_SMALL = 4
    OFFSET_OVERFLOW_ONE = 5
    """The offset is the end: nothing new."""
    OFFSET_OVERFLOW_BADLY = 6


class ReadResult(NamedTuple):
    """What a read found. `body` holds `message_count` whole records, one after another.

    `next_offset` is where the reader goes on; `min_offset` and `max_offset` bound what can be read now.
    """

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    message_count: int = 0


class Boundary(Enum):
    """Which of the messages around a time is meant (Java: BoundaryType)."""

    LOWER = "lower"
    """The first message stored at that time or later."""
    UPPER = "upper"
    """The last message stored at that time or earlier."""
