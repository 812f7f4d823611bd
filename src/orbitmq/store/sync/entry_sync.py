"""The sync of the entries of many consume queues together, after they were rebuilt, or before a store is closed.

Hundreds of them share one sync of their file system. Where it has none that can be relied upon, four threads sync files
that come together: they share writes of the file system's journal, and are five times as fast as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice

from orbitmq.errors import NotWritten
from orbitmq.store.disk import BulkSync
from orbitmq.store.queues.consume_queue import ConsumeQueue, EntryWrite
from orbitmq.store.queues.consume_queues import ConsumeQueues

_THREADS = 4
_BATCH_SIZE = 16
_FEW = 16
_MANY = 500
"""Fewer are synced one by one: a file system's sync waits for what all other programs have written to it, too."""
_HELD_MAX = 250
"""So many files are open at a time, and share one sync."""


def sync_entries(table: ConsumeQueues, queues: Iterable[ConsumeQueue] | None = None) -> None:
    """Return when all entries of these queues are on the disk; None: of all. Raises as `ConsumeQueue.sync`."""
    unsynced = [queue for queue in (table if queues is None else queues) if not queue.is_synced]
    bulk = table.bulk_sync() if len(unsynced) >= _MANY else None
    if bulk is not None:
        with closing(bulk):
            _sync_in_bulk(unsynced, bulk)
    elif len(unsynced) > _FEW:
        with ThreadPoolExecutor(_THREADS, "orbitmq-sync") as threads:
            rest = iter(unsynced)
            while batch := list(islice(rest, _BATCH_SIZE)):
                _sync_first_files(batch, threads)
    for queue in unsynced:  # what goes on in a second file
        queue.sync()


def _sync_in_bulk(queues: list[ConsumeQueue], bulk: BulkSync) -> None:
    waiting = deque(queues)
    while waiting:
        batch: list[tuple[ConsumeQueue, EntryWrite]] = []
        is_synced = False
        try:
            _write_some(waiting, batch)
            bulk.run([write.file for _, write in batch])
            is_synced = True
        finally:
            for queue, write in batch:
                queue.end_write(write, is_synced=is_synced)


def _write_some(waiting: deque[ConsumeQueue], batch: list[tuple[ConsumeQueue, EntryWrite]]) -> None:
    """Write the first entries of queues that wait, until enough files are open, or no more can be."""
    while waiting and len(batch) < _HELD_MAX:
        try:
            write = waiting[0].begin_write()
        except NotWritten:
            if not batch:
                raise
            return
        if write is not None:
            batch.append((waiting[0], write))
            write.file.write(write.start, write.data)
        waiting.popleft()


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
