"""Encoded routes, kept by topic until the change that outdates them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from orbitmq.nameserver.routing.events import RouteChange

V = TypeVar("V")

BODIES_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of encoded routes that are kept."""


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


class EncodedRouteCache:
    """Encoded routes by topic and JSON dialect.

    Args:
        encode: returns the encoded route of (topic, standard JSON?), None without one.
        is_on: False encodes again each time, for tests.
    """

    def __init__(
        self, encode: Callable[[str, bool], bytes | None], size_max: int = BODIES_SIZE_MAX, *, is_on: bool = True
    ) -> None:
        self._encode = encode
        self._is_on = is_on
        self._size_max = size_max
        self._bodies: dict[tuple[str, bool], bytes] = {}
        # Topics on the same brokers have the same route: a thousand of them need the memory of one.
        self._interned = Interned(lambda body: body)

    def get(self, topic: str, standard: bool) -> bytes | None:
        """Return a topic's encoded route, None when it has none."""
        body = self._bodies.get((topic, standard))
        if body is not None:
            return body
        body = self._encode(topic, standard)
        if body is not None and self._is_on:
            body = self._bodies[topic, standard] = self._interned.acquire(body)
            while self._interned.size > self._size_max and len(self._bodies) > 1:
                self._drop(next(iter(self._bodies)))
        return body

    def outdate(self, change: RouteChange) -> None:
        """Drop the answers that a change of the route table makes wrong."""
        self.forget(change.topics)

    def forget(self, topics: Sequence[str]) -> None:
        """Drop the answers of some topics."""
        if len(topics) > len(self._bodies):  # a giant's tens of thousands, of which few are asked for
            affected = frozenset(topics)
            for key in [key for key in self._bodies if key[0] in affected]:
                self._drop(key)
            return
        for topic in topics:
            self._drop((topic, True))
            self._drop((topic, False))

    def clear(self) -> None:
        """Drop all answers."""
        self._bodies.clear()
        self._interned.clear()

    def _drop(self, key: tuple[str, bool]) -> None:
        body = self._bodies.pop(key, None)
        if body is not None:
            self._interned.release(body)
