"""The message store: RocketMQ's CommitLog and ConsumeQueue files, byte-compatible with Java's.

Read `log/commit_log.py`, then `queues/consume_queue.py`, then `store.py`, the public face: `reader.py` is the part of it that
reads, `files.py` what it opens and recovers, `availability.py` when it takes messages. `disk.py` is the only way to a file.
Formats: docs/formats/.
"""

from orbitmq.store.store import Store
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

__all__ = [
    "AppendResult",
    "Boundary",
    "Dispatched",
    "Draft",
    "FlushMode",
    "PropertyTest",
    "ReadResult",
    "ReadStatus",
    "Store",
    "StoreConfig",
    "StoreIssue",
    "StoreIssueKind",
]
