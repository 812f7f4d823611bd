"""A store that is written and cleaned until it is killed: prints what is acknowledged. See test_retention.py."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.retention.rules import RetentionRules

RESERVED_MS = 300
QUIET_COUNT = 19
RULES = RetentionRules(
    reserved_ms=RESERVED_MS,
    delete_hours=frozenset(range(24)),
    forcing_ratio=1.0,
    full_ratio=1.0,
    segment_pause_ms=0,
    queue_pause_ms=0,
    round_ms=1,
)


def open_store(path: Path) -> Store:
    config = StoreConfig(path=path, segment_size=8192, consume_queue_units=16)
    return Store.open(config, store_host=Host("127.0.0.1", 1), retention=RULES)


async def write(store: Store) -> None:
    """Append, sync, and say up to where messages are on the disk, and when the last one was stored."""
    cleaning = asyncio.ensure_future(store.retention.run())
    while store.max_offset("quiet", 0) < QUIET_COUNT:
        store.append(Draft("quiet", 0, b"quiet"))
    while not cleaning.done():
        for _ in range(20):
            last = store.append(Draft("orders", 0, b"%d" % store.max_offset("orders", 0) + b" " * 200))
        store.flush()
        print(last.queue_offset, last.stored_at_ms, store.retention.deleted_segments, flush=True)
        await asyncio.sleep(0.001)


if __name__ == "__main__":
    asyncio.run(write(open_store(Path(sys.argv[1]))))
