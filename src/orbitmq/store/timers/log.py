"""The timer log: units one after another, in files of one size (Java: TimerLog).

A unit never reaches over a file's end: what is left of a file then is blank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from orbitmq.errors import FileCut
from orbitmq.store.disk import Disk, DiskFile
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.segment_log import SegmentLog
from orbitmq.store.timers.units import BLANK_LAYOUT, BLANK_MAGIC, LAYOUT, NO_UNIT, UNIT_SIZE, Magic, Unit, is_whole

_RESERVE_SIZE = 1 << 20
_CHUNK_UNITS = 16_384
_DELETE = int(Magic.DELETE)  # an IntFlag's `&` is a Python function


class TimerLog:
    """The units, and where the next one goes.

    Args:
        directory: `timerlog` in the store's directory.
        file_size: bytes of each file (mappedFileSizeTimerLog).
    """

    def __init__(self, disk: Disk, directory: Path, file_size: int) -> None:
        self._disk = disk
        self._log = SegmentLog(disk, directory, file_size, _RESERVE_SIZE)
        self._units_per_file = (file_size - BLANK_LAYOUT.size) // UNIT_SIZE
        self._written: Segment | None = None
        self.end = 0
        """Where the next unit goes, in bytes."""

    @property
    def base(self) -> int:
        """The first byte that there is."""
        return self._log.base

    @property
    def is_empty(self) -> bool:
        """Return True if there is no file."""
        return not self._log.segments

    @property
    def directory(self) -> Path:
        """Where the files lie."""
        return self._log.directory

    def load(self) -> None:
        """Find the files. Raises DamagedLog, StoreError as `SegmentLog.load`; FileCut where one is short."""
        self._log.load()
        for segment in self._log.segments:
            if not segment.has_size:
                raise FileCut(f"{segment.path} is short")

    @property
    def files_end(self) -> int:
        """Where the last file ends."""
        return self._log.end

    def find_end(self, start: int, commit_log_end: int) -> int:
        """Return where the whole units end, looking from `start` on.

        Args:
            start: bytes; everything before it is known to be whole.
            commit_log_end: what leads behind it is not whole: the CommitLog has lost the message.
        """
        end = self.aligned(start)
        for position, unit in self.units(end, self._log.end):
            if not is_whole(unit, position) or unit.physical_offset + unit.message_size > commit_log_end:
                return position
            end = position + UNIT_SIZE
        return end

    def cut(self, end: int) -> int:
        """Let the log end here, and write on from here; return how many bytes that were not zeros went."""
        lost = 0
        for segment in self._log.between(end, self._log.end):
            start = max(end - segment.base, 0)
            lost += segment.file.data_end(start) - start
        if lost:
            self._log.truncate(end)
            # Immediately: a unit that a power cut brought back would lead to what the CommitLog has there by then.
            for segment in self._log.between(end, self._log.end):
                segment.file.sync()
        self.end = end
        if self._log.segments:
            self._enter(end)
        return lost

    def append(self, previous: int, magic: int, write_ms: int, delay_ms: int, message: tuple[int, int, int]) -> int:
        """Append a unit and return where it lies.

        Args:
            message: physical offset, size, hash of its topic's name.

        Raises:
            OSError: the disk has no room, or a file was cut.
        """
        return self.append_some(previous, magic, write_ms, delay_ms, (message,))[1]

    def append_some(
        self, previous: int, magic: int, write_ms: int, delay_ms: int, messages: Sequence[tuple[int, int, int]]
    ) -> tuple[int, int, int]:
        """Append units of one slot, each following the one before it, as many as one file holds: at least one.

        Args: as `append`, with the messages of all units.

        Returns:
            Where the first and the last lie, and how many were appended.

        Raises:
            OSError: as `append`; none was appended.
        """
        segment = self._written
        if segment is None or self.end - segment.base + UNIT_SIZE + BLANK_LAYOUT.size > segment.size:
            segment = self._extend()
        first = position = self.end
        start = first - segment.base
        count = min(len(messages), (segment.size - BLANK_LAYOUT.size - start) // UNIT_SIZE)
        size = count * UNIT_SIZE
        segment.reserve(start + size)
        pack, units = LAYOUT.pack, []
        for physical_offset, message_size, topic_hash in messages[:count]:
            units.append(
                pack(UNIT_SIZE, previous, magic, write_ms, delay_ms, physical_offset, message_size, topic_hash, 0)
            )
            previous, position = position, position + UNIT_SIZE
        segment.buffer[start : start + size] = b"".join(units)
        self.end = position
        return first, previous, count

    def check_whole(self) -> None:
        """Make sure that the file that is written has its size: a write behind its end would kill the process."""
        if self._written is not None and not self._written.file.is_whole():
            raise FileCut(f"{self._written.path} was cut short from outside")

    def unit(self, position: int) -> Unit | None:
        """Return the unit that lies there, None where no whole one does."""
        segment = self._log.find(position)
        if segment is None or not 0 <= position <= self.end - UNIT_SIZE or position + UNIT_SIZE > segment.end:
            return None
        # A named tuple's own constructor is a Python function.
        unit = tuple.__new__(Unit, LAYOUT.unpack_from(segment.buffer, position - segment.base))
        return unit if is_whole(unit, position) else None

    def chain(self, last: int) -> Iterator[tuple[int, Unit | None]]:
        """Yield the units of a slot with their places, the last one first; None in place of one that is not whole.

        Units whose file was deleted, because their messages were, are left out.
        """
        position = last
        while position >= self.base and position != NO_UNIT:
            unit = self.unit(position)
            yield position, unit
            if unit is None:
                return
            position = unit.previous

    def units(self, start: int, stop: int) -> Iterator[tuple[int, Unit]]:
        """Yield what stands where units stand from `start` to `stop`, whole or not, passing over blank ends of files."""
        for segment in self._log.between(start, stop):
            at = (max(start - segment.base, 0) + UNIT_SIZE - 1) // UNIT_SIZE
            last = min(self._units_per_file, (stop - segment.base) // UNIT_SIZE)
            while at < last:
                count = min(_CHUNK_UNITS, last - at)
                chunk = segment.file.read(at * UNIT_SIZE, count * UNIT_SIZE)
                position = segment.base + at * UNIT_SIZE
                for values in LAYOUT.iter_unpack(chunk):
                    if values[2] == BLANK_MAGIC:
                        at = last
                        break
                    yield position, Unit(*values)
                    position += UNIT_SIZE
                at += count

    def count_due(self, start: int, due_ms: int) -> int:
        """Count the messages from `start` on that are due then or later, less those that take others back."""
        count = 0
        for segment in self._log.between(start, self.end):
            at = (max(start - segment.base, 0) + UNIT_SIZE - 1) // UNIT_SIZE
            last = min(self._units_per_file, (self.end - segment.base) // UNIT_SIZE)
            for low in range(at, last, _CHUNK_UNITS):
                chunk = segment.file.read(low * UNIT_SIZE, min(_CHUNK_UNITS, last - low) * UNIT_SIZE)
                # A start spends most of its time here: no unit is made, nothing is looked at twice.
                for _, _, magic, write_ms, delay_ms, _, _, _, _ in LAYOUT.iter_unpack(chunk):
                    if write_ms + delay_ms >= due_ms and magic != BLANK_MAGIC:
                        count += -1 if magic & _DELETE else 1
        return count

    def first_due_ms(self) -> int:
        """Return the earliest time that a unit of the log has, 0 without units."""
        return min((unit.due_ms for _, unit in self.units(self.base, self.end)), default=0)

    def last_before(self, end: int) -> Unit | None:
        """Return the last unit before a place, None where there is none."""
        for segment in reversed(self._log.segments):
            if segment.base < end:
                at = min((end - segment.base) // UNIT_SIZE, self._units_per_file) - 1
                position = segment.base + at * UNIT_SIZE
                unit = Unit(*LAYOUT.unpack(segment.file.read(at * UNIT_SIZE, UNIT_SIZE)))
                return unit if is_whole(unit, position) else None
        return None

    def files(self, start: int) -> list[DiskFile]:
        """Return the files that hold bytes from `start` on, to be synced."""
        return [segment.file for segment in self._log.between(start, self.end)]

    def delete_before(self, physical_offset: int) -> int:
        """Delete files whose messages are all gone, but not the last file; return how many went. Raises OSError.

        Args:
            physical_offset: the CommitLog's first byte.
        """
        count = 0
        while len(self._log.segments) > 1:
            segment = self._log.segments[0]
            at = (self._units_per_file - 1) * UNIT_SIZE
            unit = Unit(*LAYOUT.unpack(segment.file.read(at, UNIT_SIZE)))
            if not is_whole(unit, segment.base + at) or unit.physical_offset >= physical_offset:
                break
            self._log.detach_first()
            segment.close()
            self._disk.remove(segment.path)
            count += 1
        return count

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._written = None

    def reset(self) -> None:
        """Begin again after the files were moved away."""
        self.close()
        self._log.segments.clear()
        self.end = 0

    def aligned(self, position: int) -> int:
        """Return where the unit begins, or would begin, that has this byte; in the blank end of a file, the blank."""
        segment = self._log.find(min(max(position, self.base), max(self._log.end - 1, 0)))
        if segment is None:
            return self.base
        return segment.base + min((position - segment.base) // UNIT_SIZE, self._units_per_file) * UNIT_SIZE

    def _enter(self, end: int) -> None:
        segment = self._log.find(end)
        if segment is not None:
            _ = segment.file
            segment.reserve_from(end - segment.base)
        self._written = segment

    def _extend(self) -> Segment:
        """Close the file that is full with a blank, and begin the next one."""
        if self._written is not None:
            start = self.end - self._written.base
            self._written.reserve(start + BLANK_LAYOUT.size)
            BLANK_LAYOUT.pack_into(self._written.buffer, start, self._written.size - start, 0, BLANK_MAGIC)
        # What the last file holds is synced with the next checkpoint, not here: until then it is read again.
        segment = self._log.extend(is_derived=True)
        self._written = segment
        self.end = segment.base
        return segment
