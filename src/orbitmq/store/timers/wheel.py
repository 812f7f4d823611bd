"""The timer wheel: for each step of time, where the units of the messages lie that are due then (Java: TimerWheel).

```
| time in steps 8 | first unit 8 | last unit 8 | messages 4 | 0 4 |   32 bytes
```
Slots for twice seven days of seconds; a slot whose time is another one is free. Source: docs/formats/timer_files.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from orbitmq.errors import FileCut
from orbitmq.store.disk import Disk, DiskFile

DAYS = 7
SLOT_COUNT = DAYS * 24 * 3600
"""Slots that may be filled ahead of the time; the file has twice as many."""
SLOT_LAYOUT = Struct(">qqqii")
SLOT_SIZE = SLOT_LAYOUT.size
_CHUNK_SLOTS = 32_768
_COUNT_MIN, _COUNT_MAX = -(1 << 31), (1 << 31) - 1


class Slot(NamedTuple):
    """What one step of time holds. `message_count` is messages less those that take others back."""

    due_ms: int
    first: int
    last: int
    message_count: int


def all_slots(read: Callable[[int, int], bytes], count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the number and the fields of a wheel's slots, without long stretches of free ones.

    Args:
        read: returns so many bytes from a place on, whole slots.
        count: slots of the file.
    """
    for low in range(0, count, _CHUNK_SLOTS):
        chunk = read(low * SLOT_SIZE, min(_CHUNK_SLOTS, count - low) * SLOT_SIZE)
        if chunk.strip(b"\0"):
            yield from enumerate(SLOT_LAYOUT.iter_unpack(chunk), low)


class TimerWheel:
    """The slots, in a file that is mapped.

    Args:
        path: `timerwheel` in the store's directory.
        precision_ms: how long a step is (timerPrecisionMs).
        slot_count: half of the file's slots.
    """

    def __init__(self, disk: Disk, path: Path, precision_ms: int, slot_count: int = SLOT_COUNT) -> None:
        self.path = path
        self.precision_ms = precision_ms
        self.span_ms = 2 * slot_count * precision_ms
        """After so long a slot is used for another time."""
        self.size = 2 * slot_count * SLOT_SIZE
        self._disk = disk
        self._slots = 2 * slot_count
        self._file: DiskFile | None = None

    @property
    def exists(self) -> bool:
        """Return True if there is a file of the right size."""
        return self._disk.exists(self.path) and self._disk.size(self.path) == self.size

    @property
    def file(self) -> DiskFile | None:
        """The open file; None before `open`."""
        return self._file

    def open(self) -> None:
        """Open the file, or make it: with all the room that it takes, so that no write finds the disk full.

        Raises:
            OSError: the disk does not give it.
        """
        if self._file is None:
            file = self._disk.open(self.path, self.size)
            try:
                file.reserve(0, self.size)
            except BaseException:
                file.close()
                raise
            self._file = file

    def check_whole(self) -> None:
        """Make sure that the file has its size: a look behind its end would kill the process. Raises FileCut."""
        if self._file is not None and not self._file.is_whole():
            raise FileCut(f"{self.path} was cut short from outside")

    def slot(self, due_ms: int) -> Slot | None:
        """Return what is due at a step, None where nothing is."""
        if self._file is None:
            return None
        step = due_ms // self.precision_ms
        found, first, last, count, _ = SLOT_LAYOUT.unpack_from(self._file.buffer, step % self._slots * SLOT_SIZE)
        return Slot(step * self.precision_ms, first, last, count) if found == step else None

    def count(self, from_ms: int, steps: int) -> int:
        """Return how many messages are due in so many steps from a time on, less those that take others back."""
        if self._file is None:
            return 0
        found, step = 0, from_ms // self.precision_ms
        while steps > 0:
            at = step % self._slots
            length = min(steps, self._slots - at)
            chunk = self._file.read(at * SLOT_SIZE, length * SLOT_SIZE)
            if chunk.strip(b"\0"):
                due = enumerate(SLOT_LAYOUT.iter_unpack(chunk), step)
                found += sum(values[3] for number, values in due if values[0] == number)
            step, steps = step + length, steps - length
        return found

    def put(self, slot: Slot) -> None:
        """Write a slot."""
        assert self._file is not None, "the wheel is open"
        step = slot.due_ms // self.precision_ms
        count = min(max(slot.message_count, _COUNT_MIN), _COUNT_MAX)
        at = step % self._slots * SLOT_SIZE
        SLOT_LAYOUT.pack_into(self._file.buffer, at, step, slot.first, slot.last, count, 0)

    def pending(self, from_ms: int) -> Iterator[Slot]:
        """Yield the slots of this time and later ones, in no order of time."""
        if self._file is None:
            return
        precision, low = self.precision_ms, from_ms // self.precision_ms
        high = low + self._slots
        for number, values in all_slots(self._file.read, self._slots):
            step = values[0]
            if low <= step < high and step % self._slots == number:
                yield Slot(step * precision, *values[1:4])

    def used(self) -> Iterator[int]:
        """Yield the number of each slot that something was ever put into."""
        if self._file is not None:
            yield from (number for number, values in all_slots(self._file.read, self._slots) if any(values))

    def clear(self) -> None:
        """Free every slot."""
        if self._file is not None:
            self._file.zero_from(0)
            self._file.reserve(0, self.size)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
