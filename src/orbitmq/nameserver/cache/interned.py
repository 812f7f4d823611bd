"""Interned values: one value for all holders of equal bytes, counted, and dropped with the last of them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class Interned(Generic[V]):
    """Values by the bytes that they are made from; `size` is how many bytes those are.

    Args:
        make: returns the value of some bytes.
    """

    def __init__(self, make: Callable[[bytes], V]) -> None:
        self.size = 0
        self._make = make
        self._entries: dict[bytes, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def acquire(self, key: bytes) -> V:
        """Return the value of `key`, made now if it has no holder; each `acquire` needs a `release`."""
        entry = self._entries.get(key)
        if entry is None:
            self.size += len(key)
            entry = self._make(key), 0
        value, count = entry
        self._entries[key] = value, count + 1
        return value

    def release(self, key: bytes) -> None:
        """Give up one use of a value; with the last use it is dropped."""
        value, count = self._entries.pop(key)
        if count > 1:
            self._entries[key] = value, count - 1
        else:
            self.size -= len(key)

    def clear(self) -> None:
        """Drop all values; nothing that was acquired before may be released after."""
        self._entries.clear()
        self.size = 0
