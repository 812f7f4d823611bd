"""The topic table of a registration, read in slices: tens of thousands of topics in one step would keep all other requests waiting.

A large table is cut between its entries, each piece is parsed by itself, and what stands around the table with a number
in its place. That is the same as parsing the whole, because JSON's grammar is unambiguous: if every piece is a list of
members, and the rest is a document that has the number where the table belongs, then the body is that document with all
the members there. A cut in the wrong place, inside a text say, makes no list of members.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple

from orbitmq.errors import HeaderError
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX, check_int32, parse_body
from orbitmq.wire.slices import Slices

SLICED_SIZE_MIN = 256 * 1024
"""Bytes of a body from which on it is read in slices: some 1,500 topics as Java writes them."""
PIECE_SIZE = 32 * 1024
"""Bytes of topics that are read in one pass."""
TOPICS_MAX = 150_000
"""Topics of one registration: more than fit into a frame the way Java writes them."""

_TABLE = b'"topicConfigTable":{'
# A comma between two entries. Each repetition is possessive: a hostile body cannot make the search go back and forth.
_CUT = re.compile(rb'\}\s*+,(?=\s*+"(?:[^"\\]|\\.){0,512}+"\s*+:\s*+\{)')
_FIELDS = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")
_DEFAULTS = (16, 16, 6, 0)
_numbers_of = itemgetter(*_FIELDS)


class RegisteredTopic(NamedTuple):
    """The part of a topic's configuration that routes are made of; topics that are configured alike share it."""

    read_queue_count: int
    write_queue_count: int
    perm: int
    topic_sys_flag: int


class TableCut(NamedTuple):
    """A body with its topic table at `start:end`, and the rest of it with a 0 in the table's place."""

    rest: bytes
    start: int
    end: int


def parse_registered_topics(table: Mapping[str, Mapping[str, Any]]) -> dict[str, RegisteredTopic]:
    """Build what routes need of a topic table.

    Raises:
        TypeError: a topic is not an object, or one of its numbers no integer.
        ValueError: a number that no Java client could read.
    """
    # Thousands of topics may come together: each pass over them runs in C, and equal settings share one tuple.
    try:
        rows: list[tuple[Any, ...]] = list(map(_numbers_of, table.values()))
    except KeyError:
        rows = [tuple(map(config.get, _FIELDS, _DEFAULTS)) for config in table.values()]
    if set(map(type, chain.from_iterable(rows))) - {int}:
        raise TypeError("a topic's queue numbers, perm and flag must be integers")
    shared = {row: RegisteredTopic(*row) for row in set(rows)}
    check_int32(set(chain.from_iterable(shared)))
    return dict(zip(map(intern, table), map(shared.__getitem__, rows), strict=True))


def cut_table(body: bytes, wrapper_of: Callable[[dict[str, Any]], dict[str, Any]]) -> TableCut | None:
    """Find the topic table of a large registration; None where it does not stand as brokers write it.

    Args:
        wrapper_of: returns the object of a document that the table belongs to.
    """
    start = body.find(_TABLE, 0, DOCUMENT_SIZE_MAX) + len(_TABLE)
    if start < len(_TABLE):
        return None
    for end in _table_ends(body, start):
        before, after = body[: start - 1], body[end + 1 :]
        # Two numbers, or another member of the same name could pass for this one.
        if len(before) + len(after) < DOCUMENT_SIZE_MAX and [
            _table_in(before + number + after, wrapper_of) for number in (b"0", b"1")
        ] == [0, 1]:
            return TableCut(before + b"0" + after, start, end)
    return None


def read_table(body: bytes, start: int, end: int) -> Slices[dict[str, RegisteredTopic]]:
    """Read the entries of a topic table between two places of a body, a piece in every slice.

    Raises:
        HeaderError: a piece is not a list of topics, or cannot be cut off, or the topics are too many.
    """
    topics: dict[str, RegisteredTopic] = {}
    for piece in _pieces(body, start, end):
        if topics:
            yield
        topics.update(parse_body("topics", b"{%b}" % piece, parse_registered_topics, size_max=DOCUMENT_SIZE_MAX + 2))
        if len(topics) > TOPICS_MAX:
            raise HeaderError(f"topics: more than {TOPICS_MAX}")
    return topics


def _pieces(body: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        cut = _CUT.search(body, start + PIECE_SIZE, min(end, start + DOCUMENT_SIZE_MAX))
        stop = end if cut is None else cut.end() - 1
        if stop - start > DOCUMENT_SIZE_MAX:
            raise HeaderError(f"topics: {stop - start} bytes in one piece, limit {DOCUMENT_SIZE_MAX}")
        yield body[start:stop]
        start = stop + 1


def _table_ends(body: bytes, start: int) -> Iterator[int]:
    """Return where the brace that ends the table may be, likeliest first."""
    first = max(start, len(body) - DOCUMENT_SIZE_MAX)
    for mark, skip in ((b'},"topicQueueMappingDetailMap":', 0), (b'}},"', 1)):  # Java 5.x, and ours; other orders
        position = body.rfind(mark, first)
        if position >= 0:
            yield position + skip
    for tail in (b"}}}}", b"}}}"):  # brokers before 5.0; before 3.0.11
        if body.endswith(tail):
            yield len(body) - len(tail) + 1


def _table_in(rest: bytes, wrapper_of: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    try:
        return parse_body(
            "registration", rest, lambda it: wrapper_of(it).get("topicConfigTable"), size_max=DOCUMENT_SIZE_MAX
        )
    except HeaderError:
        return None
