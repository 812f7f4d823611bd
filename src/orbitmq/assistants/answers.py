"""Answers of tools as JSON texts of a bounded size, which say what was left out. Pure.

An answer has single values and tables. Rows are left out from the end of a table until the answer fits; long texts and collections
inside a row are shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

SIZE_MAX = 64 * 1024
"""Bytes of an answer on the wire, where its JSON is escaped once more, as a text inside of JSON."""
ENVELOPE_SIZE = 1_024
"""Bytes that are left for what the protocol puts around an answer."""
ROWS_MAX = 200
TEXT_LENGTH_MAX = 400
"""Characters of a text, other than a body."""
UNTRUSTED_LENGTH_MAX = 256
"""Characters of a text that a client chose."""
ITEMS_MAX = 64
"""Entries of a collection inside a row."""
_GO_ON_SIZE = 512
_QUOTES_SIZE = 4
"""Bytes of the two quotes around a text, escaped."""


class SizedText(str):
    """A text whose size was bounded where it was made, as `fit` does."""

    __slots__ = ()


class Untrusted(dict[str, Any]):
    """The marked part of a row or an answer: texts that clients chose, each shortened to `UNTRUSTED_LENGTH_MAX`."""

    def __init__(self, **texts: Any) -> None:
        super().__init__({"is_untrusted": True} | texts)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of an answer.

    Args:
        total: how many rows there are in all; None where that is not known.
        start: which of them the first row is.
        has_more: there are, or may be, more rows than these; for tables without a total.
        go_on: given how many rows are shown, returns the arguments that ask for the next ones.
    """

    rows: Sequence[Mapping[str, Any]]
    total: int | None
    start: int = 0
    has_more: bool = False
    go_on: Callable[[int], Mapping[str, Any]] | None = None

    def is_cut(self, shown: int) -> bool:
        """Return True if rows are missing behind the shown ones."""
        if self.total is None:
            return self.has_more or shown < len(self.rows)
        return self.start + shown < self.total


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool: a few values, and tables by their names."""

    values: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)


def paged(rows: Sequence[Mapping[str, Any]], total: int, start: int) -> Table:
    """Return a table that is one page of a list; the next one is asked for with `start`."""
    return Table(rows, total, start, go_on=lambda shown: {"next_start": start + shown})


def page(rows: Sequence[Mapping[str, Any]], start: int, count: int) -> Table:
    """Return the page of a whole list that begins at `start`."""
    return paged(rows[start : start + count], len(rows), start)


def encode(answer: Answer) -> str:
    """Return an answer as JSON, with `cut`, and `total` for each table; at most `SIZE_MAX` on the wire."""
    shortening = _Shortening()
    document: dict[str, Any] = {name: shortening.apply(value) for name, value in answer.values.items()}
    document |= {name: [] for name in answer.tables}
    document |= {"total": {name: table.total for name, table in answer.tables.items()}, "cut": False}
    left = SIZE_MAX - ENVELOPE_SIZE - _GO_ON_SIZE - wire_size(document)
    for number, (name, table) in enumerate(answer.tables.items()):
        share = left // (len(answer.tables) - number)
        rows: list[Any] = []
        for row in table.rows[:ROWS_MAX]:
            shown = shortening.apply(row)
            share -= (size := wire_size(shown) + 1)
            if share < 0:
                break
            left -= size
            rows.append(shown)
        document[name] = rows
        if table.is_cut(len(rows)):
            document["cut"] = True
            document |= table.go_on(len(rows)) if table.go_on is not None else {}
    document["cut"] |= shortening.is_needed
    return _json(document).decode()


def wire_size(value: Any) -> int:
    """Return the bytes that a value takes in an answer: as JSON, escaped inside of a JSON text."""
    return len(orjson.dumps(_json(value).decode())) - 2


def fit(text: str, size_max: int) -> SizedText:
    """Return the beginning of a text that takes at most `size_max` bytes between its quotes in an answer."""
    text = _encodable(text[:size_max])
    while text and (size := wire_size(text) - _QUOTES_SIZE) > size_max:
        text = text[: len(text) * size_max // size]
    return SizedText(text)


def beginning(text: str) -> str:
    """Return of a client's text what an answer shows, and one character more, by which `encode` notices that it is cut."""
    return _encodable(text[: UNTRUSTED_LENGTH_MAX + 1])


def time_text(at_ms: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC, to the millisecond; None for none."""
    if not at_ms or at_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError):
        return str(at_ms)  # a sender's clock may say anything


class _Shortening:
    """Shortens texts and collections, and notes whether one was too long."""

    def __init__(self) -> None:
        self.is_needed = False

    def apply(self, value: Any, length_max: int = TEXT_LENGTH_MAX) -> Any:
        if isinstance(value, SizedText):
            return value
        if isinstance(value, str):
            return self._text(value, length_max)
        if isinstance(value, Mapping):
            if isinstance(value, Untrusted):
                length_max = UNTRUSTED_LENGTH_MAX
            pairs = self._items(list(value.items()))
            return {self._text(str(name), length_max): self.apply(part, length_max) for name, part in pairs}
        if isinstance(value, (list, tuple)):
            return [self.apply(part, length_max) for part in self._items(value)]
        if isinstance(value, (set, frozenset)):
            return [self.apply(part, length_max) for part in self._items(sorted(value))]
        return value

    def _text(self, text: str, length_max: int) -> str:
        if len(text) > length_max:
            self.is_needed = True
            text = text[:length_max] + "…"
        return _encodable(text)

    def _items(self, items: Sequence[Any]) -> Sequence[Any]:
        self.is_needed |= len(items) > ITEMS_MAX
        return items[:ITEMS_MAX]


def _encodable(text: str) -> str:
    """Replace lone surrogates, which no encoding has."""
    return text.encode("utf-8", "replace").decode()


def _json(value: Any) -> bytes:
    return orjson.dumps(value, default=str)
