"""Copies of delayed and timed messages behind a place of the log: what the former master delivered last.

A slave takes over how far its master has delivered, but a moment later the master delivers more, and dies. The slave's log has
those copies, up to the last one that counts. So the slave keeps from which place of its log on copies may be that no progress
tells of; when it is the master, it looks there once, and passes over what was delivered.

The file `deliveredSince` has that place, and behind it where the log ended when this broker began to deliver: copies behind
that end are its own. Source: docs/formats/config_files.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import read_generations, replace_file
from orbitmq.store import Store
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

log = logging.getLogger(__name__)


class DeliveredCopies:
    """Which waiting messages have a copy behind them already.

    Args:
        records: of the log, in its order.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._places: dict[tuple[bytes, str], list[int]] = {}
        for record in records:
            key = find_property(record.properties, b"UNIQ_KEY")
            if key is not None and find_property(record.properties, b"REAL_TOPIC") is not None:
                self._places.setdefault((key, record.topic), []).append(record.physical_offset)

    def __len__(self) -> int:
        """Count the copies that no waiting message was found for."""
        return sum(map(len, self._places.values()))

    def take(self, key: bytes | None, topic: str, waiting_at: int) -> bool:
        """Return True if a waiting message was delivered, and count its copy for no other.

        Args:
            key: its UNIQ_KEY; without one nothing is known.
            topic: where it is to go.
            waiting_at: where it lies in the log: its copy lies behind it.
        """
        places = self._places.get((key, topic)) if key is not None else None
        copy_at = next((place for place in places or () if place > waiting_at), None)
        if places is None or copy_at is None:
            return False
        places.remove(copy_at)
        if not places and key is not None:
            del self._places[key, topic]
        return True


def note_delivered_since(path: Path, place: int) -> None:
    """Keep from which place of a slave's log on copies may be that no progress tells of. Raises OSError."""
    replace_file(path, b"%d" % place)


def begin_to_follow(path: Path, log_end: int) -> None:
    """Keep where the log of a broker ends that becomes a slave: what lies behind it, it has not delivered itself.

    A place that it has as a slave from before stays: no progress was taken over since. Raises OSError.
    """
    try:
        found = read_generations(path, _parse)
    except StoreError:
        found = None
    if found is None or len(found) == 2:
        note_delivered_since(path, log_end)


def find_delivered_copies(store: Store, path: Path) -> DeliveredCopies:
    """Return what a former master has delivered last, as far as this log has it.

    Raises:
        OSError: the disk does not take the file.
    """
    try:
        found = read_generations(path, _parse)
    except StoreError as error:  # messages come again, and none is lost
        log.warning("what the former master has delivered last comes again: %s", error)
        return DeliveredCopies()
    if found is None:
        return DeliveredCopies()
    start, *end = found
    if not end:
        end = [store.max_physical_offset]
        replace_file(path, b"%d %d" % (start, *end))
    copies = DeliveredCopies(store.records_between(max(start, store.min_physical_offset), end[0]))
    log.info("the former master delivered %d messages behind %d of its log, they do not come again", len(copies), start)
    return copies


def _parse(content: bytes) -> list[int]:
    try:
        numbers = [int(part) for part in content.split()]
    except ValueError as error:
        raise HeaderError(f"deliveredSince: {error}") from None
    if len(numbers) not in (1, 2) or min(numbers) < 0:
        raise HeaderError(f"deliveredSince: {len(numbers)} numbers, expected one or two places of a log")
    return numbers
