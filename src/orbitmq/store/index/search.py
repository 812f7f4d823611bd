"""A search for the messages of one key, newest first, in time slices: no request waits for a chain of a million entries.

Entries of a slot lead to one another by falling numbers; one that cannot be of its slot ends the search with an error. An
entry's hash and time only say which messages are looked at; the message itself says whether it is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from orbitmq.errors import IndexDamaged
from orbitmq.store.index.hashes import key_hash
from orbitmq.store.index.index_file import IndexFile
from orbitmq.store.index.keys import KEYS, UNIQUE_KEY
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

ANSWER_SIZE_MAX = 12 * 1024 * 1024
"""Bytes of messages that an answer holds at most, and one message in any case: frames have a limit."""
_SECOND_MS = 1000
CountedMs = Callable[[int, int], int]


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
        read: Callable[[int], tuple[Record, bytes] | None],
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
