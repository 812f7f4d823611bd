"""The tasks of a read of files: pieces of 64 MiB, each with what a worker needs to know of its file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SPLIT_SIZE = 64 * 1024 * 1024
"""Bytes of a task: a task costs about 50 ms whatever it reads."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of the log: where it begins in the log, and how many bytes belong to it."""

    path: str
    base: int
    size: int


@dataclass(frozen=True, slots=True)
class Split:
    """The records of a segment that start between `begin` and `end`, bytes from the segment's start on.

    Checksums of bodies are compared from `checked_from` on, a place in the log.
    """

    segment: SegmentFile
    begin: int
    end: int
    checked_from: int


def split_log(
    segments: Iterable[SegmentFile], end: int, checked_from: int, count_min: int | None = None
) -> list[Split]:
    """Return the splits of a log that ends at `end`: at least `count_min` of them, if there is as much to read."""
    parts = [(segment, min(segment.size, end - segment.base)) for segment in segments if segment.base < end]
    total = sum(size for _, size in parts)
    split_size = max(1, min(SPLIT_SIZE, -(-total // count_min) if count_min else SPLIT_SIZE))
    return [
        Split(segment, begin, stop, checked_from)
        for segment, size in parts
        for begin, stop in _pieces(size, split_size)
    ]


def _pieces(size: int, split_size: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, size, split_size):
        yield begin, min(begin + split_size, size)
