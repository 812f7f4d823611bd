"""The window of half messages: those that need no decision any more, and the places of those that were renewed. Pure.

State: one bit for each half message from the first that is still open to the queue's end, and 16 bytes for each one that
was renewed, within a bound. A million open half messages take 125 KB and 16 MB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

RENEWALS_MAX = 1_000_000
_CHUNK_SIZE = 1024
_CHUNK_COUNT = _CHUNK_SIZE * 8
_ENDED = 0xFF


class EndedOffsets:
    """The queue offsets of half messages that were committed, rolled back, renewed or discarded."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor
        """Everything below has ended."""
        self._chunks: dict[int, bytearray] = {}

    def __contains__(self, offset: int) -> bool:
        """Return True if the half message at a queue offset needs no decision any more."""
        if offset < self.floor:
            return True
        index, bit = divmod(offset, _CHUNK_COUNT)
        chunk = self._chunks.get(index)
        return chunk is not None and bool(chunk[bit >> 3] & 1 << (bit & 7))

    def add(self, offset: int) -> None:
        """Note that a half message has ended."""
        if offset < self.floor:
            return
        index, bit = divmod(offset, _CHUNK_COUNT)
        chunk = self._chunks.get(index)
        if chunk is None:
            chunk = self._chunks[index] = bytearray(_CHUNK_SIZE)
        chunk[bit >> 3] |= 1 << (bit & 7)

    def first_open(self, start: int, end: int) -> int:
        """Return the first queue offset from `start` on that has not ended, `end` when all before it have."""
        offset = max(start, self.floor)
        while offset < end:
            index, bit = divmod(offset, _CHUNK_COUNT)
            chunk = self._chunks.get(index)
            if chunk is None:
                return offset
            at = bit >> 3
            byte = chunk[at] | (1 << (bit & 7)) - 1
            if byte == _ENDED:
                # Whole bytes of ones are passed over in C.
                rest = chunk[at + 1 :].lstrip(b"\xff")
                if not rest:
                    offset = (index + 1) * _CHUNK_COUNT
                    continue
                at, byte = _CHUNK_SIZE - len(rest), rest[0]
            lowest_zero = (~byte & byte + 1).bit_length() - 1
            return min(end, index * _CHUNK_COUNT + at * 8 + lowest_zero)
        return end

    def raise_floor(self, floor: int) -> None:
        """Forget everything below: it has ended."""
        self.floor = max(self.floor, floor)
        lowest = self.floor // _CHUNK_COUNT
        for index in [index for index in self._chunks if index < lowest]:
            del self._chunks[index]


class Renewals:
    """Where renewed half messages went: a producer that decides late names the place that its message had first.

    Args:
        count_max: renewals that are remembered; older ones are forgotten, and their producers are asked again.
    """

    def __init__(self, count_max: int = RENEWALS_MAX) -> None:
        self._count_max = count_max
        # Rounds go through the queue from its beginning to its end, so both only grow.
        self._before = array("q")
        self._after = array("q")

    def add(self, before: int, after: int) -> None:
        """Note that a half message went from one queue offset to another, both higher than those of the last one."""
        if self._before and before <= self._before[-1]:
            return
        if len(self._before) >= self._count_max:
            half = self._count_max // 2
            del self._before[:half]
            del self._after[:half]
        self._before.append(before)
        self._after.append(after)

    def latest(self, offset: int) -> int | None:
        """Return where the half message is that was at a queue offset once, None for one that was not renewed."""
        found = None
        while True:
            at = bisect_left(self._before, offset)
            if at == len(self._before) or self._before[at] != offset:
                return found
            found = offset = self._after[at]
