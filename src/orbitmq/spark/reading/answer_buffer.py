"""The memory that answers to pulls are received into and decoded from. Pure."""

from __future__ import annotations


class AnswerBuffer:
    """Records back to back, of one answer behind the other, up to the next decoding.

    An answer that is received into its `room` is not copied. The memory is used again and again: it costs no page faults,
    and whatever is decoded from it has to be a copy.

    Args:
        capacity: bytes; more where a single answer has more.
    """

    def __init__(self, capacity: int) -> None:
        self._memory = memoryview(bytearray(capacity))
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def room(self, size: int) -> memoryview | None:
        """Return the next `size` bytes, for `add` when they are filled; None if there are not so many left."""
        end = self._size + size
        return self._memory[self._size : end] if end <= len(self._memory) else None

    def add(self, records: bytes | memoryview) -> None:
        """Append records; there has to be room for them, unless they are the first."""
        end = self._size + len(records)
        if end > len(self._memory):
            assert not self._size, "there is no room"
            self._memory = memoryview(bytearray(end))
        if not (isinstance(records, memoryview) and records.obj is self._memory.obj):
            self._memory[self._size : end] = records
        self._size = end

    @property
    def records(self) -> memoryview:
        """All records that were added."""
        return self._memory[: self._size]

    def clear(self) -> None:
        """Begin again: what was decoded is no longer needed."""
        self._size = 0
