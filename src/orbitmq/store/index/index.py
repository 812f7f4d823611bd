"""The index of a store: built behind the log, asked by key, and brought to the disk now and then.

Owned by the event loop, which gives it turns; one thread of its own writes and syncs. Queries wait until everything that
could be read when they came has its entries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from orbitmq.clock import Clock
from orbitmq.errors import IndexDamaged, StoreBusy, StoreError, StoreUnavailable
from orbitmq.store.disk import Disk
from orbitmq.store.index.builder import SLICE_SIZE, IndexBuilder, Mark
from orbitmq.store.index.index_file import IndexFile, IndexWriter
from orbitmq.store.index.index_files import IndexFiles
from orbitmq.store.index.keys import KeyReader, NotedKeys
from orbitmq.store.index.layout import IndexHeader, IndexNote, IndexSizes, format_note, parse_note
from orbitmq.store.index.search import REPAIR, IndexQuery, IndexQueryResult, Search
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.sync.flusher import Flusher
from orbitmq.wire.messages.record import Record

log = logging.getLogger(__name__)

Answer = Callable[[IndexQueryResult | StoreError], None]
"""Called on the loop with what a query found, or why that is unknown."""

_TICK_S = 0.1
_REST_S = 0.003
"""Between two slices of a log that was not indexed when the broker started: others need the loop more."""
_COMMIT_S = 10.0
_COMMIT_SIZE = 256 * 1024 * 1024
_STEPS_PER_QUERY = 4
_ENTRIES_PER_TURN = 1000
_QUERIES_MAX = 1000
_COUNTED_SIZE = 32 * 1024 * 1024
"""Bytes of slots that are counted in one pass, one file's at least."""
_QUERY_TIMEOUT_S = 2.0
"""A query waits so long, for the index to catch up or for slots to be counted: its client stops waiting after three seconds."""
_CLOSING_SIZE = 256 * 1024 * 1024
"""A stop waits for the index if no more of the log than this is left."""


class _Query(NamedTuple):
    question: IndexQuery
    answer: Answer
    until_s: float


class Index:
    """The index.

    Args:
        root: the store's directory.
        readable_end: tells how far the log may be read, in bytes.
        durable_end: tells how far it is on the disk.
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
        readable_end: Callable[[], int],
        durable_end: Callable[[], int],
        on_full: Callable[[int], None],
    ) -> None:
        self.failure: str | None = None
        """Why the index does not go on."""
        self._commit_log = commit_log
        self._disk = disk
        self._note_path = root / "indexed"
        self._note: IndexNote | None = None
        """What is written before the first entry of this run: the file is not trusted after a crash then."""
        self._readable_end = readable_end
        self._durable_end = durable_end
        self._on_full = on_full
        self._files = IndexFiles(
            disk,
            root / "index",
            sizes,
            quarantine=root / "quarantine",
            clock=clock,
            keys_at=self._keys_at,
        )
        self._builder = IndexBuilder(commit_log, self._files, readable_end)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Flusher | None = None
        self._is_writing = False
        self._committed_position = 0
        self._committed_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._is_new = True
        self._waiting: deque[tuple[int, _Query]] = deque()
        """Queries that wait until everything before a place of the log has its entries."""
        self._searches: deque[tuple[Search, _Query]] = deque()
        self._blocked: list[tuple[Search, _Query]] = []
        """Searches that wait until the slots of a file are counted."""
        self._deletable: tuple[str, str] | None = None
        """The name of the oldest file that a search found damaged, and how; nothing is added until it is away."""
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

    @property
    def set_aside(self) -> list[Path]:
        """Files that were not trusted, and moved away."""
        return self._files.set_aside

    def open(self, *, is_clean: bool, full_ms: int) -> None:
        """Find the files; the log has been recovered. See `IndexFiles.load`."""
        note = parse_note(self._disk.read(self._note_path))
        end = self._commit_log.end
        position = self._builder.position = self._files.load(
            note, is_clean=is_clean, full_ms=full_ms, log_min=self._commit_log.min_offset, log_end=end
        )
        self._committed_position = position
        self._note = self._note_of(position, self._files.last, is_whole=False)
        behind = self.behind
        if behind:
            log.info("%d bytes of the CommitLog are not indexed yet: it is done in the background", behind)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Build from now on, in turns of this loop."""
        self._loop = loop
        self._committed_s = loop.time()
        self._timer = loop.call_later(_TICK_S, self._tick)

    def query(self, question: IndexQuery, answer: Answer) -> None:
        """Search, immediately where nothing has to be waited for."""
        target = self._readable_end()
        query = _Query(question, answer, 0.0 if self._loop is None else self._loop.time() + _QUERY_TIMEOUT_S)
        try:
            self._builder.verify()
            for _ in range(_STEPS_PER_QUERY):
                if self._deletable or self._builder.position >= target or not self._builder.step():
                    break
        except (OSError, StoreUnavailable) as error:
            self._note_failure(error)
        if self._loop is None:
            self._catch_up()
        if self._has(target):
            self._search(query)
        elif self._loop is None:
            answer(self._busy())
        elif len(self._waiting) + len(self._searches) + len(self._blocked) >= _QUERIES_MAX:
            answer(StoreBusy(f"{_QUERIES_MAX} queries by key wait already"))
        else:
            self._waiting.append((target, query))
            self._take_turn()

    @property
    def warning(self) -> str | None:
        """What its operator should know."""
        if self.failure is None and self.set_aside:
            return f"index files were not trusted: {', '.join(str(path) for path in self.set_aside)} may be deleted"
        return self.failure

    def close(self, *, is_synced: bool) -> bool:
        """Finish, and leave everything on the disk; False: it is not there.

        Args:
            is_synced: the log is on the disk to its end.
        """
        self._is_closed = True
        for handle in (self._timer, self._turn):
            if handle is not None:
                handle.cancel()
        self._refuse_waiting()
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._loop = None
        if not is_synced:
            return False
        try:
            self._builder.verify()
            if self.behind <= _CLOSING_SIZE:
                self._catch_up()
            if self._deletable is not None:
                return False
            self._commit_now()
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
        self._answer_waiting()
        self._search_slice()
        if self._is_closed:
            return
        # Less than a slice waits for the tick, or a busy broker would take a turn for every few messages.
        goes_on = goes_on and (len(self._waiting) > 0 or self.behind >= SLICE_SIZE)
        if self._searches or (goes_on and (self._waiting or not self._is_new)):
            self._turn = self._loop.call_soon(self._take_turn)
        elif goes_on:
            self._turn = self._loop.call_later(_REST_S, self._take_turn)

    def _build_slice(self) -> bool:
        if self._deletable is not None:
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
        return is_there and self._deletable is None and not self._files.is_unverified

    def _answer_waiting(self) -> None:
        assert self._loop is not None
        now_s = self._loop.time()
        self._refuse_blocked(now_s)
        while self._waiting:
            target, query = self._waiting[0]
            if self._has(target):
                self._waiting.popleft()
                self._search(query)
            elif now_s >= query.until_s:
                self._waiting.popleft()
                query.answer(self._busy())
            else:
                return

    def _refuse_blocked(self, now_s: float) -> None:
        """Answer searches whose slots are not counted in time: the thread may wait for the disk."""
        late = [query for _search, query in self._blocked if now_s >= query.until_s]
        if late:
            self._blocked = [blocked for blocked in self._blocked if now_s < blocked[1].until_s]
        for query in late:
            query.answer(StoreBusy("the slots of an index file are being counted; ask again later"))

    def _busy(self) -> StoreError:
        if self.failure is not None:
            return StoreUnavailable(self.failure)
        return StoreBusy(f"the index is being built: {self.behind} bytes of the log are left; ask again later")

    def _refuse_waiting(self) -> None:
        closed = StoreUnavailable("the store is closed")
        while self._waiting:
            self._waiting.popleft()[1].answer(closed)
        self._refuse_searches(closed)

    def _refuse_searches(self, error: StoreError) -> None:
        refused = [*self._searches, *self._blocked]
        self._searches.clear()
        self._blocked.clear()
        for _search, query in refused:
            query.answer(error)

    def _search(self, query: _Query) -> None:
        search = Search(query.question, self._files.files, self._read)
        if self._step(search, query):
            return
        if self._loop is None:
            while not self._step(search, query):
                pass
        else:
            self._searches.append((search, query))
            if self._turn is None:
                self._turn = self._loop.call_soon(self._take_turn)

    def _search_slice(self) -> None:
        if self._searches:
            search, query = self._searches.popleft()
            if not self._step(search, query):
                self._searches.append((search, query))

    def _step(self, search: Search, query: _Query) -> bool:
        """Go on with a search; True: it was answered, or waits for slots to be counted."""
        try:
            if not search.step(_ENTRIES_PER_TURN):
                if search.is_waiting:
                    self._block(search, query)
                return search.is_waiting
            found: IndexQueryResult | StoreError = search.result()
        except OSError as error:
            found = StoreUnavailable(f"the index cannot be read: {error}")
        except IndexDamaged as error:
            found = self._mark_for_deletion(search.file, error)
        except StoreUnavailable as error:
            found = error
        query.answer(found)
        return True

    def _block(self, search: Search, query: _Query) -> None:
        """Let a search wait until the slots of its file are counted: 20 MB are read, once for a file and run."""
        self._blocked.append((search, query))
        if self._loop is not None:
            self._begin_write()
            return
        assert search.file is not None
        error: Exception | None = None
        try:
            search.file.slots_check()()
        except (OSError, IndexDamaged) as caught:
            error = caught
        self._counted(search.file, [], error)

    def _count_slots(self, file: IndexFile) -> None:
        """Have the slots of a file counted, and of small ones before it: hundreds would take a turn of the thread each."""
        check = file.slots_check()
        earlier = [(one, one.slots_check()) for one in self._files.uncounted_before(file, _COUNTED_SIZE)]
        counted: list[IndexFile] = []

        def count() -> None:
            check()
            # What is wrong with the others is said when a search comes to them.
            with suppress(OSError, IndexDamaged):
                for one, check_one in earlier:
                    check_one()
                    counted.append(one)

        self._submit(count, partial(self._counted, file, counted))

    def _counted(self, file: IndexFile, earlier: list[IndexFile], error: Exception | None) -> None:
        for one in earlier:
            one.are_slots_counted = True
        # One that was deleted meanwhile has nothing to find: the search sees that itself.
        is_valid = file.are_slots_counted = error is None or isinstance(error, FileNotFoundError)
        concerned = [file, *earlier]
        ready = [blocked for blocked in self._blocked if blocked[0].file in concerned]
        self._blocked = [blocked for blocked in self._blocked if blocked[0].file not in concerned]
        refusal: StoreError | None = None
        if isinstance(error, IndexDamaged):
            refusal = self._mark_for_deletion(file, error)
        elif not is_valid:
            refusal = StoreUnavailable(f"the slots of {file.path} cannot be counted: {error}")
        for _search, query in ready:
            if refusal is None:
                # From the start: the file may have been opened for writing meanwhile.
                self._search(query)
            else:
                query.answer(refusal)
        if self._loop is not None:
            self._begin_write()

    def _mark_for_deletion(self, file: IndexFile | None, error: IndexDamaged) -> StoreError:
        """Have a damaged file set aside and rebuilt; return what is answered meanwhile.

        One that this run has begun stays: what damages it would damage the next one, too, and fill the disk.
        """
        if file is None or file.is_ours:
            return StoreUnavailable(f"{error}: {REPAIR}")
        if self._deletable is None or file.path.name < self._deletable[0]:
            self._deletable = file.path.name, str(error)
        again = StoreBusy(f"{error}; it is set aside, and rebuilt from the log: ask again later")
        self._refuse_searches(again)
        if self._loop is None:
            self._files.move_away(*self._deletable)
            self._begin_again(None)
        else:
            self._begin_write()
        return again

    def _begin_again(self, error: Exception | None) -> None:
        """Rebuild what was in files that are away."""
        try:
            if error is not None:
                raise error
            position = self._files.behind_last(self._commit_log.min_offset)
        except (OSError, StoreError) as failure:
            self._note_failure(failure)
            return
        self._builder.begin_again(position)
        self._note = self._note_of(position, self._files.last, is_whole=False)
        self._committed_position = position
        self._deletable, self._is_new = None, True

    def _read(self, place: int) -> tuple[Record, bytes] | None:
        record = self._commit_log.parsed_at(place)
        end = self._readable_end()
        if record is None and self._commit_log.min_offset <= place < end:
            raise IndexDamaged(f"an index file is damaged: an entry leads to {place}, where no message begins")
        if record is None or place + record.size > end:
            return None
        return record, self._commit_log.read(place, record.size)

    @staticmethod
    def _note_of(position: int, last: IndexFile | None, *, is_whole: bool) -> IndexNote:
        if last is None:
            return IndexNote("", IndexHeader(), position, is_whole)
        return IndexNote(last.path.name, last.header, position, is_whole)

    def _keys_at(self, place: int) -> tuple[int, int]:
        """Return where a record of the log ends, and how many keys it has; 0 and 0 without one."""
        record = self._commit_log.parsed_at(place)
        if record is None:
            return 0, 0
        reader = KeyReader()
        reader.read(self._commit_log.read(place, record.size), place, 1)
        return place + record.size, len(reader.keys)

    def _deleted(self, file: IndexFile, error: Exception | None) -> None:
        if error is None:
            log.info("deleted %s: its messages are gone", file.path)
        else:
            log.warning("%s cannot be deleted, the next start tries it again: %s", file.path, error)

    def _begin_write(self) -> None:
        """Give the thread what is to be written or deleted: full files first, then the one that is filled."""
        assert self._loop is not None
        if self._is_writing or self._is_closed:
            return
        if self._deletable is not None:
            self._submit(partial(self._files.move_away, *self._deletable), self._begin_again)
        elif self._blocked and (file := self._blocked[0][0].file) is not None:
            self._count_slots(file)
        elif self._builder.unsealed:
            writer = self._builder.unsealed[0]
            self._submit(partial(self._seal, writer), partial(self._sealed, writer))
        elif (expired := self._files.expired(self._commit_log.min_offset)) is not None:
            # As the CommitLog's files go; without a sync: what a power cut brings back is deleted again.
            expired.close()
            self._submit(partial(self._disk.unlink, expired.path), partial(self._deleted, expired))
        elif self._is_commit_due():
            mark = self._builder.newest_mark(self._durable_end())
            if mark is not None and mark[1] is self._writer():
                self._begin_commit(mark)

    def _writer(self) -> IndexWriter | None:
        last = self._files.last
        return last if isinstance(last, IndexWriter) else None

    def _is_commit_due(self) -> bool:
        assert self._loop is not None
        size = self._builder.position - self._committed_position
        # Thousands of keys change every page of the slots, 20 MB: to write them more often costs sends more than a start.
        return size >= _COMMIT_SIZE or (size > 0 and self._loop.time() - self._committed_s >= _COMMIT_S)

    def _begin_commit(self, mark: Mark) -> None:
        assert self._loop is not None
        position, writer, _header = mark
        self._committed_s = self._loop.time()
        pages = [] if writer is None else writer.take_changes()

        def committed(error: Exception | None) -> None:
            if error is None:
                self._committed_position = position
                return
            if writer is not None:
                writer.give_back(pages)
            self._note_failure(error)

        self._submit(partial(self._commit, mark, pages), committed)

    def _seal(self, writer: IndexWriter) -> None:
        """Write a full file; what of its last message's keys is in the next one is not covered. Runs on the thread."""
        self._commit((writer.header.end_offset, writer, writer.header), None)

    def _commit(self, mark: Mark, pages: list[int] | None, *, is_whole: bool = False) -> None:
        """Write the file that is filled, then the note that covers it. Runs on the thread."""
        position, writer, header = mark
        if self._note is not None:
            self._disk.write(self._note_path, format_note(self._note))
            self._note = None
        if writer is not None:
            writer.commit(pages, header)
        name = "" if writer is None else writer.path.name
        self._disk.write(self._note_path, format_note(IndexNote(name, header, position, is_whole)))

    def _submit(self, task: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
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
            while self._builder.unsealed:
                writer = self._builder.unsealed[0]
                self._seal(writer)
                self._sealed(writer, None)

    def _commit_now(self) -> None:
        builder = self._builder
        if not self._files.is_prepared or builder.is_writing:
            return
        while builder.unsealed:
            writer = builder.unsealed[0]
            self._seal(writer)
            self._sealed(writer, None)
        last = self._files.last
        if isinstance(last, IndexWriter):
            self._commit((builder.position, last, last.header), last.take_changes(), is_whole=True)
        else:
            self._disk.write(self._note_path, format_note(self._note_of(builder.position, last, is_whole=True)))

    def _note_failure(self, error: Exception) -> None:
        reason = f"the index of messages by key does not go on: {error}"
        if self.failure is None:
            log.warning("%s; it is tried again", reason)
        self.failure = reason
