"""The message store: RocketMQ's CommitLog and ConsumeQueue files, byte-compatible with Java's.

Read `log/commit_log.py`, then `queues/consume_queue.py`, then `store.py`, the public face. `disk.py` is the only way to a
file. Formats: docs/formats/.

Where more goes: index files are derived from the log as consume queues are, a package `index` told by `dispatch`.
Quarantine decides about whole segments: a module at the top, next to `recovery`. What keeps few maps and
descriptors open belongs into `log`, around `segment`.
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
