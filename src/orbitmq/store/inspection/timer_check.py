"""The check of the timers' files: the log's units lead to messages, the wheel's slots to units, and the checkpoint fits both."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from orbitmq.model.message import TimerProperty
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store.inspection.issues import RESTORE, Issue, note
from orbitmq.store.inspection.layout import SizedFile, log_files, usual_size
from orbitmq.store.inspection.queue_check import Ranges
from orbitmq.store.inspection.reading import ReadOnlyFile, read_small
from orbitmq.store.log.segment import segment_name
from orbitmq.store.timers.checkpoint import BODY_SIZE, TimerCheckpoint, parse_timer_checkpoint
from orbitmq.store.timers.units import BLANK_LAYOUT, BLANK_MAGIC, LAYOUT, UNIT_SIZE, Magic, Unit, is_whole, parse_unit
from orbitmq.store.timers.wheel import SLOT_COUNT, SLOT_SIZE, Slot, all_slots
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

WHEEL_REWRITTEN = "the next start writes it again from the timer log"
LOG_REWRITTEN = "run `orbitmq store rebuild`, or let the next start read the timers' queue again"
START_CUTS = "the next start cuts them off, and goes on in the timers' queue from there"
DELIVERED_AGAIN = f"{RESTORE}; without it the next start delivers again what is in the timer log"
_LOG_FILE_SIZE = 100 * 1024 * 1024
_PRECISIONS_MS = (1_000, 500, 200, 100)
_CHECKPOINT_SIZE_MAX = 1 << 20
_OUT_MS = TimerProperty.OUT_MS.encode()
_DIGITS_MAX = 18
_SLOTS = 2 * SLOT_COUNT
_CHECKPOINT, _WHEEL = "config/timercheck", "timerwheel"


class TimerCheck:
    """Compares the timers' files with the messages of their queue, whose records come one after another.

    Args:
        root: the store's directory.
        precision_ms: timerPrecisionMs; None: the one that fits.
        log_file_size: mappedFileSizeTimerLog; None: as most files are.
        is_live: a broker runs, and the files change.
        is_settled: the last stop was orderly: everything is written to its end.
    """

    def __init__(
        self, root: Path, precision_ms: int | None, log_file_size: int | None, *, is_live: bool, is_settled: bool
    ) -> None:
        self.is_log_wrong = False
        """Something is wrong with the timer log."""
        self._root = root
        self._is_live = is_live
        self._is_settled = is_settled
        self._precision_ms = precision_ms
        self._files = log_files(root / "timerlog")
        self._file_size = log_file_size or usual_size((file.size for file in self._files), _LOG_FILE_SIZE)
        self._checkpoint = TimerCheckpoint()
        # The queue's messages in the order of the log: 29 bytes for each.
        self._offsets, self._sizes = array("q"), array("i")
        self._due_ms, self._queue_offsets = array("q"), array("q")
        self._has_unit = bytearray()
        self._due_count = 0

    def take(self, record: Record) -> None:
        """Take note of the next record of the CommitLog."""
        if record.topic != TIMER_TOPIC or self._is_live:
            return
        due = find_property(record.properties, _OUT_MS) or b""
        self._offsets.append(record.physical_offset)
        self._sizes.append(record.size)
        self._due_ms.append(int(due) if due.isdigit() and len(due) <= _DIGITS_MAX else 0)
        self._queue_offsets.append(record.queue_offset)
        self._has_unit.append(0)

    def issues(self, damages: Ranges, log_start: int) -> Iterator[Issue]:
        """Yield what is wrong.

        Args:
            damages: bytes of the CommitLog that are no records.
            log_start: its first byte.
        """
        if self._is_live:
            if self._files:
                yield note("timerlog", "timers are not checked while the broker runs")
            return
        yield from self._check_checkpoint()
        if not self._files and not (self._root / _WHEEL).exists():
            if self._checkpoint.log_position:
                yield note("timerlog", "is not there: the next start makes it from the timers' queue")
            return
        wrong = self._file_flaw()
        if wrong is not None:
            self.is_log_wrong = True
            yield wrong
            return
        try:
            with UnitFiles(self._files, self._file_size) as units:
                yield from self._check_together(units, damages, log_start)
        except OSError as error:
            self.is_log_wrong = True
            yield Issue("timerlog", None, f"cannot be read: {error}", LOG_REWRITTEN)

    def _check_checkpoint(self) -> Iterator[Issue]:
        try:
            content = read_small(self._root / _CHECKPOINT, _CHECKPOINT_SIZE_MAX)
        except OSError as error:
            yield Issue(_CHECKPOINT, 0, f"cannot be read: {error}", DELIVERED_AGAIN)
            return
        self._checkpoint = checkpoint = parse_timer_checkpoint(content or b"")
        queue_end = self._queue_offsets[-1] + 1 if self._queue_offsets else checkpoint.queue_offset
        if content is None:
            if self._files and self._is_settled:
                yield Issue(_CHECKPOINT, None, "is missing", DELIVERED_AGAIN)
        elif len(content) < BODY_SIZE:
            yield Issue(_CHECKPOINT, 0, f"has {len(content)} bytes of {BODY_SIZE}", DELIVERED_AGAIN)
        elif not any(checkpoint[:4]):
            if self._files:
                yield Issue(_CHECKPOINT, 0, "holds nothing that can be", DELIVERED_AGAIN)
        elif checkpoint.queue_offset > queue_end and self._is_settled:
            what = f"says that {checkpoint.queue_offset} messages of the timers' queue are in the wheel; it ends at {queue_end}"
            yield Issue(_CHECKPOINT, 16, what, RESTORE)

    def _file_flaw(self) -> Issue | None:
        """Return what is wrong with the sizes and names of the log's files, None where they fit together."""
        end: int | None = None
        for file in self._files:
            if end not in (None, file.base):
                return Issue(_name(file.base), None, f"files are missing between {end} and {file.base}", LOG_REWRITTEN)
            if file.size != self._file_size:
                return Issue(_name(file.base), None, f"has {file.size} bytes of {self._file_size}", LOG_REWRITTEN)
            end = file.base + file.size
        if (end or 0) < self._checkpoint.log_position:
            what = f"is missing: the timer log was on the disk up to {self._checkpoint.log_position}"
            return Issue(_name(end or 0), None, what, LOG_REWRITTEN)
        return None

    def _check_together(self, units: UnitFiles, damages: Ranges, log_start: int) -> Iterator[Issue]:
        precision_ms = self._precision_ms or self._find_precision(units)
        for found in self._check_log(units, precision_ms, damages, log_start):
            self.is_log_wrong = True
            yield found
        # After a crash, or without a checkpoint, a start repairs the wheel before it uses it.
        if not self.is_log_wrong and self._is_settled and self._checkpoint.read_ms:
            yield from self._check_wheel(units, precision_ms)
            yield from self._check_queue(precision_ms)

    def _check_log(self, units: UnitFiles, precision_ms: int, damages: Ranges, log_start: int) -> Iterator[Issue]:
        synced = self._checkpoint.log_position
        low_ms = self._checkpoint.read_ms // precision_ms * precision_ms
        astray: dict[int, list[int]] = {}
        for position, unit in units.walk():
            if unit.due_ms >= low_ms:
                self._due_count += unit.weight
            if not self._is_settled and position >= synced:
                continue
            is_gone = unit.physical_offset < log_start or damages.end_of(unit.physical_offset) is not None
            if not self._leads_to_its_message(unit) and not is_gone:
                astray.setdefault(position // self._file_size, []).append(position)
        for number, positions in astray.items():
            base = number * self._file_size
            what = f"{len(positions)} units lead to no message of theirs in the CommitLog: the first stands here"
            yield Issue(_name(base), positions[0] - base, what, LOG_REWRITTEN)
        base = units.end // self._file_size * self._file_size
        if units.end < synced:
            what = f"no unit stands here, and the timer log was on the disk up to {synced}"
            yield Issue(_name(base), units.end - base, what, LOG_REWRITTEN)
        elif self._is_settled and (size := units.bytes_behind(units.end)):
            yield Issue(_name(base), units.end - base, f"{size} bytes follow that are no units", START_CUTS)

    def _leads_to_its_message(self, unit: Unit) -> bool:
        index = bisect_left(self._offsets, unit.physical_offset)
        if index == len(self._offsets) or self._offsets[index] != unit.physical_offset:
            return False
        self._has_unit[index] = 1
        is_of_its_time = bool(unit.magic & Magic.ROLL) or unit.due_ms == self._due_ms[index]
        return self._sizes[index] == unit.message_size and is_of_its_time

    def _check_wheel(self, units: UnitFiles, precision_ms: int) -> Iterator[Issue]:
        """Find as many messages in the slots to come as in the log, each slot leading to a unit of its time."""
        count, wrong = 0, []
        for at, slot in self._slots(precision_ms):
            unit = units.unit(slot.last)
            if unit is None and self._files and 0 <= slot.last < self._files[0].base:
                continue  # its messages, and the log's file with them, have been deleted
            if unit is None or unit.due_ms // precision_ms * precision_ms != slot.due_ms:
                wrong.append(at)
            count += slot.message_count
        size = self._wheel_size()
        if size != _SLOTS * SLOT_SIZE:
            if self._due_count:
                what = "is missing" if size is None else f"has {size} bytes of {_SLOTS * SLOT_SIZE}"
                yield Issue(_WHEEL, None, what, WHEEL_REWRITTEN)
        elif wrong:
            yield Issue(
                _WHEEL, wrong[0], f"{len(wrong)} slots lead to no unit of theirs: the first is here", WHEEL_REWRITTEN
            )
        elif count != self._due_count:
            what = f"has {count} messages that wait; the timer log has {self._due_count}"
            yield Issue(_WHEEL, None, what, WHEEL_REWRITTEN)

    def _wheel_size(self) -> int | None:
        try:
            with ReadOnlyFile(self._root / _WHEEL) as file:
                return file.size
        except OSError:
            return None

    def _slots(self, precision_ms: int) -> Iterator[tuple[int, Slot]]:
        """Yield the slots that are not delivered, with their places; none where there is no wheel."""
        low = self._checkpoint.read_ms // precision_ms
        for number, values in self._used_slots():
            if low <= values[0] < low + _SLOTS and values[0] % _SLOTS == number:
                yield number * SLOT_SIZE, Slot(values[0] * precision_ms, *values[1:4])

    def _used_slots(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        try:
            file = ReadOnlyFile(self._root / _WHEEL)
        except OSError:
            return

        def read(at: int, size: int) -> bytes:
            chunk = file.read(at, size)
            return chunk[: len(chunk) // SLOT_SIZE * SLOT_SIZE]  # the file may have been cut short

        with file:
            yield from (used for used in all_slots(read, _SLOTS) if used[1][0])

    def _find_precision(self, units: UnitFiles) -> int:
        """Return the length of a step by which the first slot leads to a unit of its time."""
        for _, (step, _, last, *_) in self._used_slots():
            if (unit := units.unit(last)) is not None:
                for precision_ms in _PRECISIONS_MS:
                    if unit.due_ms // precision_ms == step:
                        return precision_ms
        return _PRECISIONS_MS[0]

    def _check_queue(self, precision_ms: int) -> Iterator[Issue]:
        """Find the messages that are in the wheel, says the checkpoint, and are not."""
        checkpoint = self._checkpoint
        # What was due before this time may have been delivered without a unit of its own.
        low_ms = max(checkpoint.read_ms, checkpoint.version.timestamp_ms) + precision_ms
        if not checkpoint.version.timestamp_ms:
            return
        lost = [
            offset
            for offset, queue_offset, due_ms, has_unit in zip(
                self._offsets, self._queue_offsets, self._due_ms, self._has_unit, strict=True
            )
            if not has_unit and queue_offset < checkpoint.queue_offset and due_ms >= low_ms
        ]
        if lost:
            self.is_log_wrong = True
            what = (
                f"{len(lost)} messages of the timers' queue have no unit: the first lies at {lost[0]} of the CommitLog"
            )
            yield Issue("timerlog", None, what, LOG_REWRITTEN)


def _name(base: int) -> str:
    return f"timerlog/{segment_name(base)}"


_CHUNK_UNITS = 16_384


class UnitFiles:
    """The open files of a timer log, all of one size.

    Args:
        files: they begin where the one before them ends.
        file_size: of each, in bytes.

    Raises:
        OSError: one cannot be read.
    """

    def __init__(self, files: Collection[SizedFile], file_size: int) -> None:
        self.end = 0
        """Where the units that `walk` has yielded end; behind a file that is full, the file's end."""
        self._file_size = file_size
        self._units_per_file = (file_size - BLANK_LAYOUT.size) // UNIT_SIZE
        self._base = min((file.base for file in files), default=0)
        with ExitStack() as opened:
            self._files = [opened.enter_context(ReadOnlyFile(file.path)) for file in files]
            self._opened = opened.pop_all()

    def __enter__(self) -> UnitFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def walk(self) -> Iterator[tuple[int, Unit]]:
        """Yield every unit with its place, until one is not whole."""
        self.end = self._base
        for number, file in enumerate(self._files):
            base = self._base + number * self._file_size
            for low in range(0, self._units_per_file, _CHUNK_UNITS):
                count = min(_CHUNK_UNITS, self._units_per_file - low)
                chunk = file.read(low * UNIT_SIZE, count * UNIT_SIZE)
                for at, values in enumerate(LAYOUT.iter_unpack(chunk[: len(chunk) // UNIT_SIZE * UNIT_SIZE]), low):
                    unit, position = Unit(*values), base + at * UNIT_SIZE
                    if unit.magic == BLANK_MAGIC:
                        break
                    if not is_whole(unit, position):
                        return
                    self.end = position + UNIT_SIZE
                    yield position, unit
                else:
                    continue
                break
            self.end = base + self._file_size

    def unit(self, position: int) -> Unit | None:
        """Return the unit that stands there, None where no whole one does."""
        number, at = divmod(position - self._base, self._file_size)
        if not 0 <= number < len(self._files):
            return None
        content = self._files[number].read(at, UNIT_SIZE)
        unit = parse_unit(content) if len(content) == UNIT_SIZE else None
        return unit if unit is not None and is_whole(unit, position) else None

    def bytes_behind(self, end: int) -> int:
        """Return how many bytes there are from `end` to the last one that is no zero."""
        number, at = divmod(end - self._base, self._file_size)
        found = 0
        for file in self._files[number:]:
            found, at = file.data_end(at) - at, 0
            if found:
                break
        return found
