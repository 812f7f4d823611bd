"""Syncing the entries of many consume queues at once, before a store is closed.

A file system lets syncs that come together share one write of its journal: four threads are five times as fast as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from orbitmq.store.queues.consume_queue import ConsumeQueue, EntryWrite

_THREADS = 4
_AT_ONCE = 16
_FEW = 16


def sync_entries(queues: Iterable[ConsumeQueue]) -> None:
    """Return when all entries are on the disk. Raises as `ConsumeQueue.sync`."""
    unsynced = [queue for queue in queues if not queue.is_synced]
    if len(unsynced) > _FEW:
        with ThreadPoolExecutor(_THREADS, "orbitmq-sync") as threads:
            rest = iter(unsynced)
            while batch := list(islice(rest, _AT_ONCE)):
                _sync_first_files(batch, threads)
    for queue in unsynced:  # what goes on in a second file
        queue.sync()


def _sync_first_files(queues: list[ConsumeQueue], threads: ThreadPoolExecutor) -> None:
    under_way: list[tuple[ConsumeQueue, EntryWrite, Future[None]]] = []
    try:
        for queue in queues:
            write = queue.begin_write()
            if write is not None:
                under_way.append((queue, write, threads.submit(write.run)))
    finally:
        for queue, write, future in under_way:
            queue.end_write(write, is_synced=future.exception() is None)
    for _, _, future in under_way:
        future.result()
