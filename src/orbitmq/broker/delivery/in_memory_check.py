"""The in-memory check: queues whose very first message is still there and recent. New groups begin at it, and miss nothing."""

from __future__ import annotations

import os

from orbitmq.store import Store

IN_MEMORY_SIZE = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.4)
"""Bytes of log behind the first message up to which a queue counts as in memory: 40 % of the memory, as Java has it
(accessMessageInMemoryMaxRatio)."""


def is_in_memory(store: Store, topic: str, queue_id: int) -> bool:
    """Return True if the queue's very first message is there and not yet history."""
    if store.min_offset(topic, queue_id) > 0:
        return False
    first = store.message_at(topic, queue_id, 0)
    return first is None or store.max_physical_offset - first.physical_offset <= IN_MEMORY_SIZE
