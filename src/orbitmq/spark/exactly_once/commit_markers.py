"""The commit markers of one micro-batch: the records about it in the order of their queue, and what follows for half messages. Pure.

The first marker that counts decides; nothing that comes later changes what was decided. So a reader that has read the records up
to some offset may act on COMMIT and ROLLBACK, and has to read on before UNKNOWN means anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from orbitmq.client.transactions.decision import Decision
from orbitmq.errors import ConfigError
from orbitmq.model.message import PropertyName
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.message_id import UniqueKeys

PROPERTY = "SPARK_TRANSACTION"
"""The property that holds the stamp without its serial; consumers see it, and may ignore it."""
SERIAL_MAX = 2**32 - 1
"""A unique key has room for so many."""
_NUMBER_LENGTH_MAX = 18
_COUNT_BITS = 16
_COUNT_MASK = 2**_COUNT_BITS - 1
_IP = "127.0.0.1"
_KEY = re.compile("[0-9A-F]{32}")


class AttemptId(NamedTuple):
    """Where a half message comes from.

    `attempt` names one run of one task and is never used again; `serial` counts what that run has sent, so that of two
    messages of one row each has its own. The serial travels in the message's unique key: the properties of all messages
    of an attempt are the same otherwise, and brokers have made their stored form before.
    """

    query: str
    batch: int
    attempt: str
    serial: int


class AttemptKeys:
    """Makes the unique keys of one attempt, one after the other: each holds its message's serial.

    Args:
        seed: 32 bits that tell attempts apart.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._keys = UniqueKeys(_IP, 0, seed)
        self._next = 0

    def next(self, now_ms: int) -> tuple[int, str]:
        """Return the next serial and its unique key.

        Raises:
            OverflowError: the attempt has had them all.
        """
        serial = self._next
        if serial > SERIAL_MAX:
            raise OverflowError(f"a task sends {SERIAL_MAX + 1} messages at most")
        if serial and not serial & _COUNT_MASK:
            self._keys = UniqueKeys(_IP, serial >> _COUNT_BITS, self._seed)  # its own counter begins at 0 again
        self._next = serial + 1
        return serial, self._keys.next(now_ms)


def format_attempt_id(query: str, batch: int, attempt: str) -> str:
    """Return the property's value, which is the same for all messages of an attempt."""
    return f"{query}/{batch}/{attempt}"


def parse_attempt_id(properties: Mapping[str, str]) -> AttemptId | None:
    """Return the stamp among a message's properties; None: it has none that this sink has made.

    Half messages of earlier versions have their serial behind the attempt.
    """
    parts = properties.get(PROPERTY, "").split("/")
    if len(parts) not in (3, 4) or not all(parts):
        return None
    serial = _serial_of(parts[3:], properties.get(PropertyName.UNIQ_KEY, ""))
    if serial is None or not _is_number(parts[1]):
        return None
    return AttemptId(parts[0], int(parts[1]), parts[2], serial)


def _serial_of(written: list[str], unique_key: str) -> int | None:
    if written:
        return int(written[0]) if _is_number(written[0]) else None
    if _KEY.fullmatch(unique_key) is None:
        return None
    # ip 8 | serial's high half 4 (a plain key's process) | seed 8 | time 8 | its low half 4 (a plain key's counter)
    return int(unique_key[8:12] + unique_key[28:], 16)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _NUMBER_LENGTH_MAX


RUN_PREFIX = "run-"
"""Before the ids of batches, which share marker topics with streams."""


def batch_name(query: str, batch: int) -> str:
    """Return what a micro-batch, or the batch of a run, is called in logs and errors."""
    return (
        f"run {query.removeprefix(RUN_PREFIX)}" if query.startswith(RUN_PREFIX) else f"batch {batch} of query {query}"
    )


VERSION = 1
_MARKER, _ABORT = "marker", "abort"

Unverified = tuple[tuple[int, int], ...]
"""Ranges of serials, first and last, of messages that were sent a second time because the first was not acknowledged."""


@dataclass(frozen=True)
class Filled:
    """What a micro-batch adds to a queue: `count` messages, none of them before offset `begin`."""

    begin: int
    count: int


@dataclass(frozen=True)
class Marker:
    """Says which attempts have won: their half messages are committed, those of all others rolled back.

    Args:
        id: of this record: a driver recognises its own.
        attempts: the winners, with the serials that do not count.
        filled: what the batch adds to which queues, by which a driver sees that all of it is there.
    """

    id: str
    query: str
    batch: int
    attempts: Mapping[str, Unverified]
    filled: Mapping[MessageQueue, Filled]

    @property
    def row_count(self) -> int:
        """Rows that the batch adds to all queues."""
        return sum(part.count for part in self.filled.values())

    def takes(self, attempt_id: AttemptId) -> bool:
        """Return True if a half message of this batch is to be committed."""
        unverified = self.attempts.get(attempt_id.attempt)
        return unverified is not None and not any(first <= attempt_id.serial <= last for first, last in unverified)


@dataclass(frozen=True)
class Abort:
    """Says that attempts can no longer win, unless a marker before it has named them."""

    query: str
    batch: int
    attempts: frozenset[str]


Entry = Marker | Abort


@dataclass
class CommitMarker:
    """What is known of one micro-batch."""

    marker: Marker | None = None
    aborted: set[str] = field(default_factory=set)

    def apply(self, entry: Entry) -> None:
        """Take the next record of the batch."""
        if self.marker is not None:
            return
        if isinstance(entry, Abort):
            self.aborted |= entry.attempts
        elif not self.aborted.intersection(entry.attempts):
            self.marker = entry


def decide(attempt_id: AttemptId, marker: CommitMarker) -> Decision:
    """Say how the transaction of a half message ends.

    Returns:
        UNKNOWN while no marker names a winner: its driver may be about to write one.
    """
    if marker.marker is not None:
        return Decision.COMMIT if marker.marker.takes(attempt_id) else Decision.ROLLBACK
    return Decision.ROLLBACK if attempt_id.attempt in marker.aborted else Decision.UNKNOWN


def ranges(serials: Iterable[int]) -> Unverified:
    """Return sorted ranges that hold exactly these serials."""
    found: list[tuple[int, int]] = []
    for serial in sorted(set(serials)):
        if found and found[-1][1] == serial - 1:
            found[-1] = (found[-1][0], serial)
        else:
            found.append((serial, serial))
    return tuple(found)


def format_entry(entry: Entry) -> bytes:
    """Return a record's body."""
    named = {"version": VERSION, "query": entry.query, "batch": entry.batch}
    if isinstance(entry, Abort):
        return orjson.dumps({"kind": _ABORT, **named, "attempts": sorted(entry.attempts)})
    filled = [
        [queue.topic, queue.broker_name, queue.queue_id, part.begin, part.count]
        for queue, part in sorted(entry.filled.items())
    ]
    return orjson.dumps({"kind": _MARKER, **named, "id": entry.id, "attempts": entry.attempts, "filled": filled})


def parse_entry(body: bytes, offset: int) -> Entry:
    """Parse a record's body.

    Args:
        offset: where it lies in the marker topic, for the error.

    Raises:
        ConfigError: it is none of ours, or of a newer version. It must not be passed over: it could be a marker.
    """
    try:
        return _parse(orjson.loads(body))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            "markerTopic", f"a topic whose record {offset} is not a marker ({error!r})", "a topic for markers alone"
        ) from error


def _parse(found: Any) -> Entry:
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']}, {VERSION} is known")
    query, batch = str(found["query"]), int(found["batch"])
    if found["kind"] == _ABORT:
        return Abort(query, batch, frozenset(found["attempts"]))
    if found["kind"] != _MARKER:
        raise ValueError(f"kind {found['kind']}")
    attempts = {
        str(attempt): tuple((int(first), int(last)) for first, last in unverified)
        for attempt, unverified in found["attempts"].items()
    }
    filled = {
        MessageQueue(topic, broker, int(queue_id)): Filled(int(begin), int(count))
        for topic, broker, queue_id, begin, count in found["filled"]
    }
    return Marker(str(found["id"]), query, batch, attempts, filled)
