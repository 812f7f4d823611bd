"""The line of large batches: one is stored at a time, and only so many wait, each with its whole body. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected


class QueuedBatch:
    """The place of one batch in the line."""

    def __init__(self, line: list[QueuedBatch]) -> None:
        self._line = line

    @property
    def is_next(self) -> bool:
        """Return True if all that came before are done."""
        return self._line[0] is self


class LargeBatches:
    """The large batches of one broker, in the order in which they came.

    Args:
        count_max: how many may wait, the one that is being stored among them.
    """

    def __init__(self, count_max: int) -> None:
        self.over_count = 0
        """Batches that were refused because too many waited."""
        self._count_max = count_max
        self._line: list[QueuedBatch] = []

    @contextmanager
    def entered(self) -> Iterator[QueuedBatch]:
        """Stand in the line.

        Raises:
            Rejected: 2, it is too long.
        """
        if len(self._line) >= self._count_max:
            self.over_count += 1
            raise Rejected(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._line)} large batches are being stored, largeBatchesMax allows no more: send again, or less",
            )
        place = QueuedBatch(self._line)
        self._line.append(place)
        try:
            yield place
        finally:
            self._line.remove(place)
