"""The files of timers together: opened, compared with one another, repaired, written and synced.

The wheel leads to the log, and the log to the CommitLog. Both are derived: what is wrong with the wheel is repaired from the
log, and where the log does not fit either, both are moved aside and the timers' queue is read again. Messages that were
delivered before are passed over then. Source: docs/formats/timer_files.md; Java TimerMessageStore.recover.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from orbitmq.errors import FileCut, StoreError
from orbitmq.store.disk import Disk, DiskFile
from orbitmq.store.timers.checkpoint import TimerCheckpoint, format_timer_checkpoint_file, parse_timer_checkpoint
from orbitmq.store.timers.log import TimerLog
from orbitmq.store.timers.units import NO_UNIT, UNIT_SIZE, Unit, is_whole
from orbitmq.store.timers.wheel import SLOT_COUNT, Slot, TimerWheel

log = logging.getLogger(__name__)

COMPARED_UNITS_MAX = 4_000_000
"""Units of the log that a start counts to compare them with the wheel: some 1.5 seconds."""
_ASIDE_MAX = 100


class DamagedTimers(StoreError):
    """The timers' files contradict one another: they have to be rebuilt."""


class TimerFiles:
    """Wheel, log and checkpoint of one broker.

    State: what they hold. In: messages and their times, time itself. Out: what is due. Nothing is made on the disk before
    the first timer comes.

    Args:
        root: the store's directory.
        precision_ms: timerPrecisionMs.
        log_file_size: mappedFileSizeTimerLog.
        slot_count: half of the wheel's slots.
    """

    def __init__(
        self, disk: Disk, root: Path, *, precision_ms: int, log_file_size: int, slot_count: int = SLOT_COUNT
    ) -> None:
        self.wheel = TimerWheel(disk, root / "timerwheel", precision_ms, slot_count)
        self.log = TimerLog(disk, root / "timerlog", log_file_size)
        self.checkpoint = TimerCheckpoint()
        """As it is on the disk."""
        self.queue_offset = 0
        """The queue's messages before it are in the wheel."""
        self.placed_end = 0
        """Some of the queue's messages from `queue_offset` to this one are in the wheel already: see `is_placed`."""
        self.delivered_offset = 0
        """The queue's messages before it were delivered when they were due before `delivered_ms`."""
        self.delivered_ms = 0
        self.read_ms = 0
        """What was due before was delivered when the files were opened."""
        self.pending_count = 0
        """Messages in the wheel when it was opened, less those that take others back."""
        self.earliest_ms: int | None = None
        """The first slot that was in use then."""
        self.aside: list[Path] = []
        """What was moved aside since the start."""
        self._disk = disk
        self._checkpoint_path = root / "config" / "timercheck"
        self._quarantine = root / "quarantine"
        self._synced_position = 0
        self._placed = array("q")

    def recover(self, commit_log_end: int, queue_end: int, queue_offset_of: Callable[[int, int], int | None]) -> None:
        """Open what is there, and repair it.

        Args:
            commit_log_end: bytes.
            queue_end: the queue offset after the last message in the timers' queue.
            queue_offset_of: returns the timer queue's offset of the message at a physical offset, with a size; None where
                it is not there any more.

        Raises:
            OSError: the disk gives or takes nothing.
        """
        self.close()
        checkpoint = parse_timer_checkpoint(self._disk.read(self._checkpoint_path))
        # Every message has a byte at least. What such a file says of times would let timers pass for delivered ones.
        if max(checkpoint.queue_offset, checkpoint.master_queue_offset) > commit_log_end:
            log.error("%s is damaged: it tells of more messages than the CommitLog has bytes", self._checkpoint_path)
            checkpoint = TimerCheckpoint()
        self.checkpoint = self._cut_to(checkpoint, queue_end)
        checkpoint = self.checkpoint
        self.delivered_offset = max(checkpoint.queue_offset, checkpoint.master_queue_offset)
        self.delivered_ms = self.read_ms = checkpoint.read_ms
        try:
            self.log.load()
            self._mend(checkpoint, commit_log_end)
        except (DamagedTimers, StoreError) as damage:
            if isinstance(damage, OSError) and not isinstance(damage, FileCut):
                raise
            self.reset(str(damage))
            return
        self.queue_offset = checkpoint.queue_offset
        if self.log.is_empty:
            self._begin_again()
            self.queue_offset = 0  # nothing to compare with: whatever was delivered is passed over
            return
        # The queue is read on from the checkpoint: of what came later, some was due and stored immediately, without a unit, and
        # a power cut may have taken that and left the unit of a message behind it.
        last = self.log.last_before(self.log.end)
        found = None if last is None else queue_offset_of(last.physical_offset, last.message_size)
        if found is not None and found >= self.queue_offset:
            self.placed_end = found + 1
            units = self.log.units(checkpoint.log_position, self.log.end)
            self._placed = array("q", [unit.physical_offset for _, unit in units])
        self._synced_position = min(checkpoint.log_position, self.log.end)

    def reset(self, reason: str) -> None:
        """Move wheel and log aside: the queue is read from its start again.

        Raises:
            OSError: the disk does not take it.
        """
        log.error("the timers' files are damaged (%s): they are moved aside and rebuilt from their queue", reason)
        self._begin_again()
        self.close()
        for path in (self.wheel.path, self.log.directory):
            self._set_aside(path)
        self.log.reset()
        self.pending_count, self.earliest_ms = 0, None
        self.queue_offset = self.placed_end = 0
        self._synced_position = 0

    def put(self, due_ms: int, write_ms: int, magic: int, message: tuple[int, int, int], count: int) -> None:
        """Put a message into the slot of its time.

        Args:
            due_ms: the slot's time; less than the wheel's span ahead of everything that is not delivered yet.
            message: physical offset, size, hash of its topic's name.
            count: 1, or -1 for one that takes another back.

        Raises:
            OSError: the disk has no room; nothing was put.
        """
        self._put(due_ms, write_ms, magic, (message,), count)

    def put_some(self, due_ms: int, write_ms: int, magic: int, messages: Sequence[tuple[int, int, int]]) -> int:
        """Put messages into the slot of their time in one go, as `put` does each of them; return how many were put.

        That is at least one; more than a file of the log holds are left over.

        Args:
            messages: at least one; none of them takes another back.

        Raises:
            OSError: as `put`.
        """
        return self._put(due_ms, write_ms, magic, messages, 1)

    def _put(
        self, due_ms: int, write_ms: int, magic: int, messages: Sequence[tuple[int, int, int]], weight: int
    ) -> int:
        wheel = self.wheel
        wheel.open()
        slot = wheel.slot(due_ms)
        previous = NO_UNIT if slot is None else slot.last
        first, last, count = self.log.append_some(previous, magic, write_ms, due_ms - write_ms, messages)
        if slot is None:
            wheel.put(Slot(due_ms, first, last, weight * count))
        else:
            wheel.put(Slot(due_ms, slot.first, last, slot.message_count + weight * count))
        return count

    def is_placed(self, physical_offset: int) -> bool:
        """Return True if a message before `placed_end` was in the wheel when the files were opened."""
        at = bisect_left(self._placed, physical_offset)  # units follow the queue, and the queue the CommitLog
        return at < len(self._placed) and self._placed[at] == physical_offset

    def check_whole(self) -> None:
        """Make sure that no file was cut from outside. Raises FileCut."""
        self.wheel.check_whole()
        self.log.check_whole()

    def chain(self, slot: Slot) -> Iterator[tuple[int, Unit]]:
        """Yield a slot's units with their places, the last one first.

        Raises:
            DamagedTimers: it leads to what is not a unit of it.
        """
        for position, unit in self.log.chain(slot.last):
            if unit is None or not self._is_of(unit, slot.due_ms):
                raise DamagedTimers(f"the slot of {slot.due_ms} leads to {position} of the log, where no unit of it is")
            yield position, unit

    def next_checkpoint(self, read_ms: int, now_ms: int) -> TimerCheckpoint:
        """Return the checkpoint that says how far everything is now."""
        version = self.checkpoint.version
        progress = (read_ms, self.queue_offset)
        if progress != (self.checkpoint.read_ms, self.checkpoint.queue_offset):
            version = version.next(now_ms, version.state_version)
        # While the queue is read again, what the checkpoint knows of the time before goes on to count.
        return TimerCheckpoint(
            self.delivered_ms if self.is_behind else read_ms,
            self.log.end,
            self.queue_offset,
            max(self.queue_offset, self.delivered_offset),
            version,
        )

    @property
    def is_behind(self) -> bool:
        """Return True if the queue is read for a second time."""
        return self.queue_offset < self.delivered_offset

    def unsynced(self) -> list[DiskFile]:
        """Return the files that hold what no checkpoint covers."""
        files = self.log.files(self._synced_position)
        return files if self.wheel.file is None else [*files, self.wheel.file]

    def write_checkpoint(self, checkpoint: TimerCheckpoint) -> None:
        """Write the checkpoint; everything that it covers was synced before. May run on another thread."""
        self._disk.write(self._checkpoint_path, format_timer_checkpoint_file(checkpoint))

    def checkpoint_written(self, checkpoint: TimerCheckpoint) -> None:
        """Take note of the checkpoint that is on the disk."""
        self.checkpoint = checkpoint
        self._synced_position = max(self._synced_position, min(checkpoint.log_position, self.log.end))

    def close(self) -> None:
        """Close the files."""
        self.wheel.close()
        self.log.close()

    def _cut_to(self, checkpoint: TimerCheckpoint, queue_end: int) -> TimerCheckpoint:
        """Let a checkpoint count no message that the queue does not have: a new master's come to the place of those that were cut."""
        _, _, queue_offset, master_offset, _ = checkpoint
        cut = checkpoint._replace(
            queue_offset=min(queue_offset, queue_end), master_queue_offset=min(master_offset, queue_end)
        )
        if cut != checkpoint:
            log.warning("%s tells of messages behind the end of their queue, %d", self._checkpoint_path, queue_end)
            self.write_checkpoint(cut)
        return cut

    def _begin_again(self) -> None:
        """Withdraw what the checkpoint on the disk says of wheel and log; what was delivered it goes on to say.

        Before there are new ones: a start that finds these unfinished would take them for what the checkpoint covers.
        """
        known = self.checkpoint
        behind = known._replace(
            log_position=0, queue_offset=0, master_queue_offset=max(known.queue_offset, known.master_queue_offset)
        )
        # What lies there is asked, not remembered: a save may have failed behind it.
        if self._disk.read(self._checkpoint_path) not in (b"", format_timer_checkpoint_file(behind)):
            self.write_checkpoint(behind)
        self.checkpoint = behind

    def _mend(self, checkpoint: TimerCheckpoint, commit_log_end: int) -> None:
        """Find the log's end, and make the wheel fit it."""
        if self.log.is_empty:
            self._open_wheel()
            # Without a checkpoint it is not known from when on slots count: every one does.
            slots = self.wheel.pending(checkpoint.read_ms) if checkpoint.read_ms else self.wheel.used()
            if any(True for _ in slots):
                raise DamagedTimers("there is no log for what is in the wheel")
            return
        if checkpoint.log_position > UNIT_SIZE and not checkpoint.queue_offset:
            # One unit may be of the first message, as Java counts. To read the queue again would put each message in twice.
            raise DamagedTimers("its checkpoint tells of units, and of no message that was read")
        if checkpoint.log_position < self.log.base:
            # Files go when their messages have expired, long after a checkpoint: these never reached the disk.
            raise DamagedTimers(f"the log's files begin at {self.log.base}, behind {checkpoint.log_position}")
        if checkpoint.log_position > self.log.files_end:
            raise DamagedTimers(f"the log's files end before {checkpoint.log_position}, which was on the disk")
        end = self.log.find_end(checkpoint.log_position, commit_log_end)
        before = self.log.last_before(end)
        if end < self.log.aligned(checkpoint.log_position):
            raise DamagedTimers(f"the log ends at {end}, and was on the disk up to {checkpoint.log_position}")
        if before is not None and before.physical_offset + before.message_size > commit_log_end:
            raise DamagedTimers(f"the log leads behind the CommitLog's end {commit_log_end}")
        if lost := self.log.cut(end):
            log.warning("cut %d bytes off the timer log at %d: they were not written to their end", lost, end)
        had_wheel = self.wheel.exists
        self._open_wheel()
        if not self.read_ms:
            self.read_ms = self.log.first_due_ms()
        # Without a checkpoint it is not known from when on slots have to fit.
        is_known = had_wheel and checkpoint.read_ms and self._leads_to(checkpoint.log_position)
        if not is_known or not self._fits(self.read_ms):
            log.warning("the timer wheel does not fit the timer log: it is rebuilt")
            self._write_wheel(self.read_ms)
            self._fits(self.read_ms)
            # The checkpoint goes on to cover it.
            assert self.wheel.file is not None, "it was opened above"
            self.wheel.file.sync()

    def _open_wheel(self) -> None:
        if self._disk.exists(self.wheel.path) and not self.wheel.exists:
            self._set_aside(self.wheel.path)
        if self.wheel.exists or not self.log.is_empty:
            self.wheel.open()

    def _leads_to(self, start: int) -> bool:
        """Return True if the wheel leads to each unit from `start` on: a power cut may have taken single slots.

        Their number alone does not tell: a message and one that takes another back together count nothing.
        """
        low = self.read_ms // self.wheel.precision_ms * self.wheel.precision_ms
        for position, unit in self.log.units(start, self.log.end):
            slot = self.wheel.slot(unit.due_ms)
            if unit.due_ms >= low and (slot is None or slot.last < position):
                return False
        return True

    def _fits(self, read_ms: int) -> bool:
        """Compare the wheel with the log: each slot leads to a unit of it, and there are as many as the log has."""
        self.pending_count, self.earliest_ms = 0, None
        first = self.log.end
        for slot in self.wheel.pending(read_ms):
            unit = self.log.unit(slot.last)
            if unit is None and 0 <= slot.last < self.log.base:
                continue  # its messages, and the log's file with them, have been deleted
            if unit is None or not self._is_of(unit, slot.due_ms):
                return False
            self.pending_count += slot.message_count
            first = min(first, max(slot.first, 0))
            if self.earliest_ms is None or slot.due_ms < self.earliest_ms:
                self.earliest_ms = slot.due_ms
        start = max(self.log.base, min(first, self.log.end - COMPARED_UNITS_MAX * UNIT_SIZE))
        precision = self.wheel.precision_ms
        return self.pending_count == self.log.count_due(start, read_ms // precision * precision)

    def _write_wheel(self, read_ms: int) -> None:
        """Rebuild the wheel from the log."""
        self.wheel.clear()
        wheel, precision = self.wheel, self.wheel.precision_ms
        low = read_ms // precision * precision
        for position, unit in self.log.units(self.log.base, self.log.end):
            if not is_whole(unit, position):
                raise DamagedTimers(f"there is no unit at {position} of the log")
            due_ms = unit.due_ms
            if due_ms < low:
                continue
            slot = wheel.slot(due_ms)
            due_ms = due_ms // precision * precision
            if slot is None:
                if unit.previous >= self.log.base:
                    raise DamagedTimers(f"the unit at {position} of the log follows one that is not of its time")
                wheel.put(Slot(due_ms, position, position, unit.weight))
            elif unit.previous != slot.last:
                raise DamagedTimers(f"the unit at {position} of the log does not follow the one before it in its slot")
            else:
                wheel.put(Slot(due_ms, slot.first, position, slot.message_count + unit.weight))

    def _is_of(self, unit: Unit, due_ms: int) -> bool:
        precision = self.wheel.precision_ms
        return unit.due_ms // precision == due_ms // precision

    def _set_aside(self, path: Path) -> None:
        """Move a file, or the files of a directory, where nothing reads them."""
        disk = self._disk
        names = disk.names(path) if path == self.log.directory else []
        if not names and not disk.exists(path):
            return
        for number in range(1, _ASIDE_MAX):
            target = self._quarantine / f"{path.name}-{number}"
            if disk.exists(target) or disk.names(target):
                continue
            for name in names:
                disk.move(path / name, target / name)
            if not names:
                disk.move(path, target)
            self.aside.append(target)
            log.error("%s is damaged and was moved to %s", path, target)
            return
        raise StoreError(
            f"{self._quarantine} keeps {_ASIDE_MAX - 1} copies of {path.name} already: remove some of them"
        )
