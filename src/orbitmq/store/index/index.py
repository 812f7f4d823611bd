"""The index of a store: built behind the log, asked by key; full files are brought to the disk, the last one by a stop.

Owned by the event loop, which gives it turns; one thread of its own syncs and deletes. Queries wait until everything that
could be read when they came has its entries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orbitmq.clock import Clock
from orbitmq.errors import IndexDamaged, StoreBusy, StoreError, StoreUnavailable
from orbitmq.store.disk import Disk
from orbitmq.store.index.builder import SLICE_SIZE, IndexBuilder
from orbitmq.store.index.index_file import IndexFile, IndexSizes, IndexWriter
from orbitmq.store.index.index_files import IndexFiles
from orbitmq.store.index.keys import NotedKeys
from orbitmq.store.index.search import Answer, IndexQuery, Queries, Query
from orbitmq.store.log.clock_jumps import ClockJumps
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.sync.flusher import Flusher
from orbitmq.wire.messages.record import Record

log = logging.getLogger(__name__)

_TICK_S = 0.1
_REST_S = 0.003
"""Between two slices of a log that was not indexed when the broker started: others need the loop more."""
_STEPS_PER_QUERY = 4
_QUERIES_MAX = 1000
_QUERY_TIMEOUT_S = 2.0
"""A query waits so long for the index to catch up: its client stops waiting after three seconds."""
_CLOSING_SIZE = 256 * 1024 * 1024
"""A stop waits for the index if no more of the log than this is left."""


class Index:
    """The index.

    Args:
        root: the store's directory.
        readable_end: tells how far the log may be read, in bytes.
        on_full: called on the loop with the end time of each full file, when it is on the disk.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        disk: Disk,
        root: Path,
        sizes: IndexSizes,
        *,
        clock: Clock,
        jumps: ClockJumps,
        readable_end: Callable[[], int],
        on_full: Callable[[int], None],
    ) -> None:
        self.failure: str | None = None
        """Why the index does not go on."""
        self._commit_log = commit_log
        self._disk = disk
        self._readable_end = readable_end
        self._on_full = on_full
        self._files = IndexFiles(disk, root / "index", sizes, clock, lambda place: self._record_at(place)[1])
        self._builder = IndexBuilder(commit_log, self._files, readable_end)
        self._queries = Queries(
            lambda: self._files.files,
            self._read,
            self._rebuild_from,
            lambda: (lambda place, stored_at_ms: jumps.counted_ms(place, stored_at_ms, clock())) if jumps else None,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._thread: Flusher | None = None
        self._is_writing = False
        """The thread is at work."""
        self._is_new = True
        self._damaged: tuple[str, str] | None = None
        """The name of the oldest file that was found damaged, and how; nothing is added until it is removed."""
        self._unreadable: set[int] = set()
        """Places of the log to which an entry of a damaged file has led."""
        self._is_closed = False

    @property
    def behind(self) -> int:
        """Bytes of the log that wait for their entries."""
        return self._builder.behind

    @property
    def noted(self) -> deque[NotedKeys]:
        """Takes the only key of a message when it is stored, so that it is not read from the log again (see `KeyReader`)."""
        return self._builder.noted

    @property
    def file_count(self) -> int:
        """How many files there are."""
        return len(self._files.files)

    def open(self, *, is_clean: bool, full_ms: int) -> None:
        """Find the files; the log has been recovered. See `IndexFiles.load`."""
        commit_log = self._commit_log
        position = self._files.load(
            is_clean=is_clean, full_ms=full_ms, log_min=commit_log.min_offset, log_end=commit_log.end
        )
        self._builder.begin_again(position)
        if behind := self.behind:
            log.info("%d bytes of the CommitLog are not indexed yet: it is done in the background", behind)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Build from now on, in turns of this loop."""
        self._loop = loop
        self._timer = loop.call_later(_TICK_S, self._tick)

    def query(self, question: IndexQuery, answer: Answer) -> None:
        """Search, immediately where nothing has to be waited for."""
        target = self._readable_end()
        query = Query(question, answer, 0.0 if self._loop is None else self._loop.time() + _QUERY_TIMEOUT_S)
        for _ in range(_STEPS_PER_QUERY):
            if self._has(target) or not self._build_slice():
                break
        if self._loop is None:
            self._catch_up()
        if self._has(target):
            self._search(query)
        elif self._loop is None:
            answer(self._busy())
        elif len(self._queries) >= _QUERIES_MAX:
            answer(StoreBusy(f"{_QUERIES_MAX} queries by key wait already"))
        else:
            self._queries.wait(target, query)
            self._take_turn()

    def close(self, *, is_synced: bool) -> bool:
        """Finish, and leave everything on the disk; False: it is not there.

        Args:
            is_synced: the log is on the disk to its end.
        """
        self._is_closed = True
        for handle in (self._timer, self._turn):
            if handle is not None:
                handle.cancel()
        self._queries.refuse(StoreUnavailable("the store is closed"))
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._loop = None
        if not is_synced:
            return False
        try:
            if self._damaged is not None:
                return False
            if self.behind <= _CLOSING_SIZE:
                self._catch_up()
            self._finish_last()
        except (OSError, StoreUnavailable) as error:
            log.warning("the index is not on the disk to its end, the next start goes on with it: %s", error)
            return False
        return True

    def release(self) -> None:
        """Close the files as they are."""
        self._is_closed = True
        self._files.close()

    def _tick(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(_TICK_S, self._tick)
        if self._turn is None:
            self._take_turn()
        self._begin_write()

    def _take_turn(self) -> None:
        """Do a slice of what there is to do, and go on in the loop's next turn."""
        assert self._loop is not None
        self._turn = None
        goes_on = self._build_slice()
        self._queries.search_waiting(self._loop.time(), self._has, self._busy)
        self._queries.step()
        if self._is_closed:
            return
        # Less than a slice waits for the tick, or a busy broker would take a turn for every few messages.
        goes_on = goes_on and (self._queries.are_waiting or self.behind >= SLICE_SIZE)
        if self._queries.are_searching or (goes_on and (self._queries.are_waiting or not self._is_new)):
            self._turn = self._loop.call_soon(self._take_turn)
        elif goes_on:
            self._turn = self._loop.call_later(_REST_S, self._take_turn)

    def _build_slice(self) -> bool:
        if self._damaged is not None:
            return False
        try:
            goes_on = self._builder.step()
        except (OSError, StoreUnavailable) as error:
            self._note_failure(error)
            return False
        if self.failure is not None and not self._builder.unsealed:
            self.failure = None
        if self.behind < SLICE_SIZE:
            self._is_new = False
        return goes_on

    def _has(self, target: int) -> bool:
        is_there = self._builder.position >= target and not self._builder.is_writing
        return is_there and self._damaged is None

    def _busy(self) -> StoreError:
        if self.failure is not None:
            return StoreUnavailable(self.failure)
        return StoreBusy(f"the index is being built: {self.behind} bytes of the log are left; ask again later")

    def _search(self, query: Query) -> None:
        queries = self._queries
        queries.search(query)
        if self._loop is None:
            while queries.are_searching:
                queries.step()
        elif queries.are_searching and self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _rebuild_from(self, file: IndexFile | None, error: IndexDamaged) -> StoreError:
        """Have a damaged file and those after it removed, and rebuilt; return what is answered meanwhile."""
        assert file is not None
        if self._damaged is None or file.path.name < self._damaged[0]:
            self._damaged = file.path.name, str(error)
        again = StoreBusy(f"{error}; it is rebuilt from the log: ask again later")
        self._queries.refuse_searches(again)
        if self._loop is None:
            self._files.remove_from(*self._damaged)
            self._begin_again(None)
        else:
            self._begin_write()
        return again

    def _begin_again(self, error: Exception | None) -> None:
        """Rebuild what was in files that are removed."""
        try:
            if error is not None:
                raise error
            position = self._files.behind_last(self._commit_log.min_offset)
        except (OSError, StoreError) as failure:
            self._note_failure(failure)
            return
        self._builder.begin_again(position)
        self._damaged, self._is_new = None, True

    def _read(self, place: int) -> tuple[Record, bytes] | None:
        found, record_end = self._record_at(place)
        end = self._readable_end()
        if found is None and self._commit_log.min_offset <= place < end and place not in self._unreadable:
            self._unreadable.add(place)  # where the log itself is damaged, a rebuilt file may lead there again
            raise IndexDamaged(f"an index file is damaged: an entry leads to {place}, where no message begins")
        return found if record_end <= end else None

    def _record_at(self, place: int) -> tuple[tuple[Record, bytes] | None, int]:
        """Return the record that starts at a place of the log, parsed and as it is, and where it ends; None and 0 without."""
        encoded, record = self._commit_log.whole_at(place)
        if encoded is None or record is None:
            return None, 0
        return (record, encoded), place + record.size

    def _deleted(self, file: IndexFile, error: Exception | None) -> None:
        log.info("deleted %s, whose messages are gone: %s", file.path, error or "done")

    def _begin_write(self) -> None:
        """Give the thread what is to be deleted, or a full file that is to be written."""
        if self._is_writing or self._is_closed:
            return
        if self._damaged is not None:
            self._submit(partial(self._files.remove_from, *self._damaged), self._begin_again)
        elif self._builder.unsealed:
            writer = self._builder.unsealed[0]
            self._submit(writer.finish, partial(self._sealed, writer))
        elif (expired := self._files.expired(self._commit_log.min_offset)) is not None:
            # As the CommitLog's files go; without a sync: what a power cut brings back is deleted again.
            expired.close()
            self._submit(partial(self._disk.unlink, expired.path), partial(self._deleted, expired))

    def _submit(self, task: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run a task on the thread; `done` is called on the loop."""
        assert self._loop is not None
        if self._thread is None:
            self._thread = Flusher(self._loop, name="orbitmq-index")
        self._is_writing = True

        def report(error: Exception | None) -> None:
            self._is_writing = False
            done(error)

        self._thread.submit(task, report)

    def _sealed(self, writer: IndexWriter, error: Exception | None) -> None:
        if error is not None:
            self._note_failure(error)
            return
        self.failure = None
        self._builder.unsealed.popleft()
        self._files.seal(writer)
        self._on_full(writer.header.end_ms)
        if self._loop is not None and not self._is_closed:
            self._begin_write()
            if self._turn is None:
                self._take_turn()

    def _catch_up(self) -> None:
        """Build to the readable end, on the caller's thread."""
        while self._builder.step() or self._builder.unsealed:
            self._seal_now()

    def _seal_now(self) -> None:
        while self._builder.unsealed:
            writer = self._builder.unsealed[0]
            writer.finish()
            self._sealed(writer, None)

    def _finish_last(self) -> None:
        """Write the file that is being filled as well: the index is being closed."""
        self._seal_now()
        if isinstance(self._files.last, IndexWriter):
            self._files.last.finish()

    def _note_failure(self, error: Exception) -> None:
        reason = f"the index of messages by key does not go on: {error}"
        if self.failure is None:
            log.warning("%s; it is tried again", reason)
        self.failure = reason
