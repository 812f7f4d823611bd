"""Lanes: the items of one key, one after the other, beside those of other keys. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """FIFOs by key. A lane is there as long as it has items, its first one included, which somebody works on."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[T]] = {}

    def put(self, key: Hashable, item: T) -> bool:
        """Append an item to its key's lane; True when it is the first one: its turn has come."""
        lane = self._lanes.get(key)
        if lane is not None:
            lane.append(item)
            return False
        self._lanes[key] = deque((item,))
        return True

    def first(self, key: Hashable) -> T:
        """Return the item whose turn it is."""
        return self._lanes[key][0]

    def advance(self, key: Hashable) -> bool:
        """Remove the first item; True when another one follows it."""
        lane = self._lanes[key]
        lane.popleft()
        if lane:
            return True
        del self._lanes[key]
        return False

    def __len__(self) -> int:
        return len(self._lanes)
