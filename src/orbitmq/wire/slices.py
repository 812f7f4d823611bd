"""Work in slices: generators that do a little at a time, so that their caller can do other things in between."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Slices = Generator[None, None, T]
"""Yields between its slices, and returns its result."""


def finish(slices: Slices[T]) -> T:
    """Do work in one go, or what is left of it, and return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def parts_of(table: Mapping[K, V], size: int) -> Iterator[Mapping[K, V]]:
    """Return a table in parts of at most `size` entries; an empty one is one empty part."""
    if len(table) <= size:
        yield table
        return
    items = iter(table.items())
    while part := dict(islice(items, size)):
        yield part
