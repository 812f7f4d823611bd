"""Stores with an index, and questions to them."""

from __future__ import annotations

from typing import Any

from orbitmq.errors import StoreError
from orbitmq.store import Draft, Store
from orbitmq.store.disk import Disk
from orbitmq.store.index.search import IndexQuery, IndexQueryResult
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import iter_records

from ..parts import ROOT, store_of

SLOTS, ENTRIES = 8, 20
ALWAYS = (0, 1 << 62)
INDEX = ROOT / "index"


def indexed(disk: Disk | None = None, clock: Any = None, **changes: Any) -> Store:
    """Open a store whose index has small files."""
    changes = {"index_slots": SLOTS, "index_entries": ENTRIES, "segment_size": 64 * 1024, **changes}
    return store_of(disk, clock, has_index=True, **changes)


def keyed(number: int, keys: str = "", topic: str = "orders") -> Draft:
    """A message with a unique key `U<number>` and these keys."""
    properties = format_properties({"UNIQ_KEY": f"U{number}", "KEYS": keys})
    return Draft(topic, number % 3, b"%d" % number, properties)


def ask(
    store: Store, key: str, count_max: int = 64, topic: str = "orders", times: tuple[int, int] = ALWAYS
) -> IndexQueryResult:
    """Ask, and expect an immediate answer. Raises the StoreError that is answered."""
    found: list[IndexQueryResult | StoreError] = []
    store.query(IndexQuery(topic, key, count_max, *times), found.append)
    (outcome,) = found
    if isinstance(outcome, StoreError):
        raise outcome
    return outcome


def numbers(store: Store, key: str, count_max: int = 64, **question: Any) -> list[int]:
    """Return the bodies of a key's messages, as numbers."""
    return [int(bytes(record.body)) for record in iter_records(ask(store, key, count_max, **question).body)]
