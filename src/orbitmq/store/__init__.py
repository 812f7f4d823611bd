"""The message store: RocketMQ's CommitLog and ConsumeQueue files, byte-compatible with Java's.

Read `commit_log.py`, then `consume_queue.py`, then `store.py`, the public face. Formats: docs/formats/.
"""

from orbitmq.store.store import Store
from orbitmq.store.values import (
    AppendResult,
    Boundary,
    Dispatched,
    Draft,
    FlushMode,
    ReadResult,
    ReadStatus,
    StoreConfig,
)

__all__ = [
    "AppendResult",
    "Boundary",
    "Dispatched",
    "Draft",
    "FlushMode",
    "ReadResult",
    "ReadStatus",
    "Store",
    "StoreConfig",
]
