"""Queries by key that are not answered yet: those that wait for the index, and searches under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from orbitmq.errors import IndexDamaged, StoreError, StoreUnavailable
from orbitmq.store.index.index_file import IndexFile
from orbitmq.store.index.search import CountedMs, IndexQuery, IndexQueryResult, Search
from orbitmq.wire.messages.record import Record

Answer = Callable[[IndexQueryResult | StoreError], None]
"""Called on the loop with what a query found, or why that is unknown."""
ReadAt = Callable[[int], tuple[Record, bytes] | None]
_ENTRIES_PER_STEP = 1000


class Query(NamedTuple):
    """A question, whom to answer, and until when on the loop's clock."""

    question: IndexQuery
    answer: Answer
    until_s: float


class Queries:
    """The queries of one index.

    Args:
        files: the index's files, oldest first.
        read: reads the message at a place of the log.
        damaged: told of a file that a search found damaged; returns what is answered.
        counted_ms: returns what a search needs where store times go back (see `Search`).
    """

    def __init__(
        self,
        files: Callable[[], list[IndexFile]],
        read: ReadAt,
        damaged: Callable[[IndexFile | None, IndexDamaged], StoreError],
        counted_ms: Callable[[], CountedMs | None] = lambda: None,
    ) -> None:
        self._files = files
        self._read = read
        self._damaged = damaged
        self._counted_ms = counted_ms
        self._waiting: deque[tuple[int, Query]] = deque()
        """Queries that wait until everything before a place of the log has its entries."""
        self._searches: deque[tuple[Search, Query]] = deque()

    def __len__(self) -> int:
        """Count the queries that are not answered."""
        return len(self._waiting) + len(self._searches)

    @property
    def are_waiting(self) -> bool:
        """Return True if some wait for the index to catch up."""
        return bool(self._waiting)

    @property
    def are_searching(self) -> bool:
        """Return True if searches are under way."""
        return bool(self._searches)

    def wait(self, position: int, query: Query) -> None:
        """Let a query wait until everything before a place of the log has its entries."""
        self._waiting.append((position, query))

    def search_waiting(self, now_s: float, has: Callable[[int], bool], busy: Callable[[], StoreError]) -> None:
        """Begin the searches for which the index has caught up, and refuse those whose time is over."""
        while self._waiting:
            position, query = self._waiting[0]
            if has(position):
                self._waiting.popleft()
                self.search(query)
            elif now_s >= query.until_s:
                self._waiting.popleft()
                query.answer(busy())
            else:
                return

    def search(self, query: Query) -> None:
        """Do the first step of a search."""
        search = Search(query.question, self._files(), self._read, self._counted_ms())
        if not self._step(search, query):
            self._searches.append((search, query))

    def step(self) -> None:
        """Do one step of the search whose turn it is."""
        if self._searches:
            search, query = self._searches.popleft()
            if not self._step(search, query):
                self._searches.append((search, query))

    def refuse(self, error: StoreError) -> None:
        """Answer all with this error."""
        while self._waiting:
            self._waiting.popleft()[1].answer(error)
        self.refuse_searches(error)

    def refuse_searches(self, error: StoreError) -> None:
        """Answer those that have begun with this error."""
        while self._searches:
            self._searches.popleft()[1].answer(error)

    def _step(self, search: Search, query: Query) -> bool:
        """Go on with a search; True: it was answered."""
        try:
            if not search.step(_ENTRIES_PER_STEP):
                return False
            found: IndexQueryResult | StoreError = search.result()
        except OSError as error:
            found = StoreUnavailable(f"the index cannot be read: {error}")
        except IndexDamaged as error:
            found = self._damaged(search.file, error)
        except StoreUnavailable as error:
            found = error
        query.answer(found)
        return True
