"""Queries by key: searches for the messages of one key, newest first, and queries that wait until the index has caught up.

A search goes on in time slices: no request waits for a chain of a million entries.

Entries of a slot lead to one another by falling numbers; one that cannot be of its slot ends the search with an error. An
entry's hash and time only say which messages are looked at; the message itself says whether it is meant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from orbitmq.errors import IndexDamaged, StoreError, StoreUnavailable
from orbitmq.store.index.hashes import key_hash
from orbitmq.store.index.index_file import IndexFile
from orbitmq.store.index.keys import KEYS, UNIQUE_KEY
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

ANSWER_SIZE_MAX = 12 * 1024 * 1024
"""Bytes of messages that an answer holds at most, and one message in any case: frames have a limit."""
_SECOND_MS = 1000
_ENTRIES_PER_STEP = 1000
CountedMs = Callable[[int, int], int]
ReadAt = Callable[[int], tuple[Record, bytes] | None]


class IndexQuery(NamedTuple):
    """Messages of a key: at most `count_max`, the newest, stored from `begin_ms` to `end_ms`, both included."""

    topic: str
    key: str
    count_max: int
    begin_ms: int
    end_ms: int


class IndexQueryResult(NamedTuple):
    """What was found: whole records in the order of the log, one after another.

    `index_end_ms` and `index_end_offset` are store time and place of the newest message in the index; 0 without a find.
    """

    body: bytes = b""
    message_count: int = 0
    index_end_ms: int = 0
    index_end_offset: int = 0


class Search:
    """One search.

    Args:
        files: oldest first.
        counted_ms: from a message's place and store time to the time that it counts as stored; None: to its store time, and
            those never go back.
        read: returns the record at a place of the log, parsed and as it is, None when it is gone or not to be read yet.
            Raises IndexDamaged: there was none.
    """

    def __init__(
        self,
        question: IndexQuery,
        files: Sequence[IndexFile],
        read: ReadAt,
        counted_ms: CountedMs | None = None,
    ) -> None:
        self.question = question
        self._hash = key_hash(question.topic, question.key)
        self._key = question.key.encode("utf-8", "surrogatepass")
        self._last = files[-1].header if files else None
        self._read = read
        self._counted_ms = counted_ms
        self._found: dict[int, bytes] = {}
        self._size = 0
        self.file: IndexFile | None = None
        """Where it is."""
        self._places = self._candidates(list(reversed(files)))

    def step(self, entries_max: int) -> bool:
        """Look at so many entries more; True: the search is over. Raises IndexDamaged."""
        question = self.question
        for _ in range(entries_max):
            if len(self._found) >= question.count_max or self._size >= ANSWER_SIZE_MAX:
                return True
            place = next(self._places, None)
            if place is None:
                return True
            if place >= 0:
                self._look(place)
        return False

    def result(self) -> IndexQueryResult:
        """Return what was found."""
        if not self._found or self._last is None:
            return IndexQueryResult()
        body = b"".join([record for _place, record in sorted(self._found.items())])
        return IndexQueryResult(body, len(self._found), self._last.end_ms, self._last.end_offset)

    def _candidates(self, files: Sequence[IndexFile]) -> Iterator[int]:
        """Yield for each entry that is passed the place of a message to look at, or -1 when it is of another key."""
        question, is_sorted = self.question, self._counted_ms is None
        for file in files:
            header = file.header
            may_match = header.begin_ms <= question.end_ms and header.end_ms >= question.begin_ms
            if header.next_number > 1 and (may_match or not is_sorted):
                try:
                    self.file = file
                    yield from self._of_file(file)
                except FileNotFoundError:
                    return  # deleted with its messages, and so are those before it
                finally:
                    file.rest()
            if is_sorted and header.begin_ms < question.begin_ms:
                return

    def _of_file(self, file: IndexFile) -> Iterator[int]:
        question, begin_ms, is_sorted = self.question, file.header.begin_ms, self._counted_ms is None
        if not file.has_size:
            raise IndexDamaged(f"{file.path} was cut short from outside")
        slot, header = self._hash % file.sizes.slots, file.header
        number = file.head(slot)
        while number > 0:
            entry = file.entry(number)
            if (
                entry.key_hash < 0
                or entry.key_hash % file.sizes.slots != slot
                or not header.begin_offset <= entry.physical_offset <= header.end_offset
                or not 0 <= entry.previous < number
                or not (number == 1 or any(entry))
            ):
                # What lies behind it on the chain cannot be found: an answer would leave messages out, and say nothing.
                raise IndexDamaged(f"{file.path} is damaged at its entry {number}")
            # The first entry of a file counts from the file before it.
            time_ms = begin_ms + (entry.seconds * _SECOND_MS if number > 1 else 0)
            if is_sorted and time_ms + _SECOND_MS <= question.begin_ms:
                break
            is_wanted = entry.key_hash == self._hash and (time_ms <= question.end_ms or not is_sorted)
            yield entry.physical_offset if is_wanted else -1
            number = entry.previous

    def _look(self, place: int) -> None:
        if place in self._found:
            return  # two keys of the message have this hash
        found = self._read(place)
        if found is None:
            return
        record, encoded = found
        question = self.question
        stored_at_ms = record.stored_at_ms
        if self._counted_ms is not None:
            stored_at_ms = self._counted_ms(place, stored_at_ms)
        if record.topic != question.topic or not question.begin_ms <= stored_at_ms <= question.end_ms:
            return
        properties = bytes(record.properties)
        words = (find_property(properties, KEYS) or b"").split(b" ")
        if self._key not in (find_property(properties, UNIQUE_KEY), *words):
            return
        if self._found and self._size + len(encoded) > ANSWER_SIZE_MAX:
            self._size = ANSWER_SIZE_MAX
            return
        self._found[place] = encoded
        self._size += len(encoded)


Answer = Callable[[IndexQueryResult | StoreError], None]
"""Called on the loop with what a query found, or why that is unknown."""


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
