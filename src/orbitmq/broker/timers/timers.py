"""Timers: from their queue into the wheel, and at their time back into the log under their own topic.

State: how far the queue is read, and which step of time is being delivered. In: messages of the queue, the wall clock. Out:
the messages again, at least once: how far everything is becomes known to the next start only when what was delivered is on
the disk, so a crash repeats and never loses.

Source: Java TimerMessageStore.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orbitmq.broker.delivery.delivered_copies import DeliveredCopies
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.broker.timers.times import parse_long
from orbitmq.broker.timers.waiting_template import WaitingTemplate, WaitingTemplates
from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.errors import CorruptRecord, FileCut, InvalidArgument
from orbitmq.model.message import PropertyName, TimerProperty
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Draft, ReadStatus, Store
from orbitmq.store.timers.checkpoint import TimerCheckpoint
from orbitmq.store.timers.files import DamagedTimers, TimerFiles
from orbitmq.store.timers.units import Magic, Unit
from orbitmq.store.timers.wheel import Slot
from orbitmq.wire.messages.properties import find_property, format_properties, parse_properties, tag_code
from orbitmq.wire.messages.record import Record, iter_queue_records

log = logging.getLogger(__name__)

SLICE_COUNT = 64
"""Messages that are put into the wheel, or delivered, in one time slice: some two milliseconds, then others have their turn."""
_WALK_COUNT = 4_096
_STEPS_PER_TURN = 8_192
_COUNTED_STEPS = 2_048
_READ_SIZE = 1024 * 1024
_CLOCK_BACK_MS = 60_000
"""A clock that is set back by more than this is believed: what is due then is delivered a second time."""
_NEVER_ENQUEUED = str((1 << 63) - 1)
"""TIMER_ENQUEUE_MS of a message that was due before it came into the wheel (Java: Long.MAX_VALUE)."""
_ROLL, _DELETE = int(Magic.ROLL), int(Magic.DELETE)


class TimerSnapshot(NamedTuple):
    """A checkpoint that may be kept when the CommitLog is on the disk up to `log_end`, as long as its files are in use."""

    log_end: int
    checkpoint: TimerCheckpoint
    reset_count: int


class DueStep:
    """One step of time whose messages are being delivered: first its units are walked through, then delivered in order."""

    def __init__(self, slot: Slot, units: Iterator[tuple[int, Unit]]) -> None:
        self.slot = slot
        self.positions = array("q")
        """Where the units lie that are to be delivered, the last one first."""
        self.taken_back: dict[str, str] = {}
        """Keys of messages that are not to be delivered, with their topics."""
        self._units = units
        self.is_walked = False
        self.has_delivered = False
        """True once a message of the step was delivered: to begin it again would deliver that one twice."""

    def walk(self) -> list[Unit]:
        """Go through some more units; return those that take others back."""
        found = []
        for _ in range(_WALK_COUNT):
            step = next(self._units, None)
            if step is None:
                self.is_walked = True
                break
            position, unit = step
            if unit.magic & _DELETE and not unit.magic & _ROLL:
                found.append(unit)
            else:
                self.positions.append(position)
        return found


class _Waiting:
    """Messages of the queue, one behind the other, that come into the wheel together: they are due at one step in one topic."""

    __slots__ = ("delays_ms", "due_ms", "end", "messages", "tag_code", "topic")

    def __init__(self) -> None:
        self.due_ms = self.tag_code = self.end = 0
        self.topic = ""
        self.messages: list[tuple[int, int, int]] = []
        self.delays_ms: list[int] = []


class Timers:
    """Puts messages into the wheel, and delivers what is due.

    Args:
        files: recovered.
        missing: makes topics again that messages wait for.
        roll_window_ms: whose time is further away than this waits in several turns (timerRollWindowSlot).
        wall_ms: the time at the start.
        copies: what a former master has delivered last.
    """

    def __init__(
        self,
        store: Store,
        files: TimerFiles,
        missing: MissingTopics,
        metrics: TimerMetrics,
        *,
        roll_window_ms: int,
        wall_ms: int,
        copies: DeliveredCopies | None = None,
    ) -> None:
        self._store = store
        self._copies = copies or DeliveredCopies()
        self._files = files
        self._missing = missing
        self.metrics = metrics
        self._precision = files.wheel.precision_ms
        self._window_ms = roll_window_ms
        self._due: DueStep | None = None
        self.read_ms = self._first_step(wall_ms)
        """Everything due before is delivered."""
        self.pending_count = files.pending_count
        """Messages in the wheel, less those that take others back."""
        self.delivered_count = 0
        """Messages delivered since the start, those included that were put back for another turn."""
        self.lost_count = 0
        """Messages that the log did not have any more when their time came."""
        self._saved = (files.checkpoint.queue_offset, 0)
        self._was_reset = False
        self._damage: Exception | None = None
        """Why the files are to be rebuilt; None once they are."""
        self.reset_count = 0
        """How often the files were found damaged since the start: a snapshot from before tells of files that are gone."""
        self.is_being_saved = False
        """True while a snapshot is being kept: the files stay until then."""
        self._templates = WaitingTemplates()

    @property
    def is_changed(self) -> bool:
        """Return True if there is something that the checkpoint on the disk does not tell, and should."""
        return self._damage is None and (self._files.queue_offset, self.delivered_count) != self._saved

    @property
    def queue_behind(self) -> int:
        """How many messages of the queue are not in the wheel yet."""
        return max(0, self._store.max_offset(TIMER_TOPIC, 0) - self._files.queue_offset)

    @property
    def first_behind_ms(self) -> int | None:
        """When the first of those was stored; None without one."""
        stored_at_ms = self._store.stored_at_ms(TIMER_TOPIC, 0, self._files.queue_offset)
        return stored_at_ms if stored_at_ms > 0 else None

    @property
    def is_waiting(self) -> bool:
        """Return True if any message waits for its time."""
        return self._files.wheel.file is not None or self.queue_behind > 0 or self._damage is not None

    def slot_count(self, due_ms: int) -> int:
        """Return how many messages are due at a step."""
        slot = self._files.wheel.slot(due_ms)
        return 0 if slot is None else slot.message_count

    def due_counts(self, now_ms: int, bounds_s: Sequence[int]) -> Iterator[tuple[int, int] | None]:
        """Yield each bound with how many messages are due before it and not before the one below, in seconds from now.

        None: a stretch of the wheel was looked at, and others should have their turn.
        """
        wheel, low = self._files.wheel, 0
        for bound in bounds_s:
            high, count = bound * 1_000 // self._precision, 0
            while low < high:
                steps = min(high - low, _COUNTED_STEPS)
                count += wheel.count(now_ms + low * self._precision, steps)
                low += steps
                yield None
            yield bound, count

    def enqueue(self, now_ms: int) -> bool:
        """Put messages of the queue into the wheel, a slice of them; say whether there was any.

        Raises:
            StoreUnavailable, Rejected: a message that is due already cannot be stored now; it is tried again.
            OSError: the disk has no room; nothing is lost, a later call tries again.
            DamagedTimers, FileCut: the files are damaged, and are rebuilt by a later call: a snapshot is being kept.
        """
        self._rebuild_damaged()
        files = self._files
        offset = files.queue_offset
        found = self._store.read(TIMER_TOPIC, 0, offset, SLICE_COUNT, _READ_SIZE)
        if found.status is not ReadStatus.FOUND:
            return self._pass_over(offset, found.next_offset, found.max_offset, found.status)
        now_step = self._step(now_ms)
        try:
            # A cut file would read as zeros, and lead timers to nowhere.
            files.check_whole()
            waiting = _Waiting()
            for queue_offset, record in iter_queue_records(found.body, offset):
                if isinstance(record, CorruptRecord):
                    self._put_together(waiting, now_step, now_ms)
                    self.lost_count += 1
                    log.error("timer %d of %s cannot be read and is left out: %s", queue_offset, TIMER_TOPIC, record)
                elif self._joins(waiting, record, now_step):
                    continue
                else:
                    self._put_together(waiting, now_step, now_ms)
                    if not self._put(record, now_step, now_ms):
                        return queue_offset > offset
                # Kept message by message: an error in the middle repeats none before it.
                files.queue_offset = queue_offset + 1
            self._put_together(waiting, now_step, now_ms)
        except FileCut as damage:
            self._reset_files(damage)
        return True

    def deliver_due(self, now_ms: int) -> bool:
        """Deliver messages whose time has come, a slice of them; say whether more may be due.

        Raises:
            StoreUnavailable, Rejected: the store takes nothing now; nothing is lost, a later call tries again.
            OSError, DamagedTimers, FileCut: as `enqueue`.
        """
        self._rebuild_damaged()
        try:
            self._files.check_whole()
            # A step under way is finished first, in as many calls as it takes.
            due = self._due or self._next_due(self._step(now_ms))
            if due is None:
                return self.read_ms < self._step(now_ms)
            self._due = due
            # First walk all units of the step: one of them may take back another that stands before it.
            if not due.is_walked:
                for unit in due.walk():
                    self._note_taken_back(due, unit)
                return True
            for _ in range(SLICE_COUNT):
                if not due.positions:
                    self._end_step(due, now_ms)
                    break
                # Removed only when it is stored: a store that refuses leaves it for the next call.
                self._deliver(due, due.positions[-1], now_ms)
                due.positions.pop()
        except (DamagedTimers, FileCut) as damage:
            self._reset_files(damage)
        return True

    def snapshot(self, now_ms: int) -> TimerSnapshot:
        """Return how far everything is, to be kept when the log is on the disk up to where it ends now."""
        checkpoint = self._files.next_checkpoint(self.read_ms, now_ms)
        return TimerSnapshot(self._store.max_physical_offset, checkpoint, self.reset_count)

    def note_saved(self, snapshot: TimerSnapshot, delivered_count: int) -> None:
        """Take note of a snapshot that is on the disk, and of `delivered_count` when it was taken."""
        self._files.checkpoint_written(snapshot.checkpoint)
        self._saved = (snapshot.checkpoint.queue_offset, delivered_count)

    def _first_step(self, wall_ms: int) -> int:
        """Return the step to begin with: the first one that has something, and no later than now."""
        read_ms, now_step = self._files.read_ms, wall_ms // self._precision * self._precision
        if not self._files.checkpoint.read_ms:
            # How far it was is not known: this is the first time in the timer log, and others may still come before it.
            read_ms = min(read_ms, now_step)
        if read_ms > now_step + _CLOCK_BACK_MS:
            log.warning("the clock was set back by %d ms since timers were last read", read_ms - now_step)
            return now_step
        if read_ms > now_step:
            return read_ms // self._precision * self._precision
        earliest = self._files.earliest_ms
        return now_step if earliest is None else min(earliest, now_step)

    def _step(self, now_ms: int) -> int:
        """Return the step that is not over yet. A clock that is set back a little stands still here."""
        step = now_ms // self._precision * self._precision
        if step < self.read_ms - _CLOCK_BACK_MS and self._due is None:
            log.warning(
                "the clock was set back by %d ms: timers of that time may be delivered twice", self.read_ms - step
            )
            self.read_ms = step
        return max(step, self.read_ms)

    def _pass_over(self, offset: int, next_offset: int, max_offset: int, status: ReadStatus) -> bool:
        """Go on where the queue does, behind messages that were deleted before they came into the wheel."""
        if status is ReadStatus.OFFSET_OVERFLOW_BADLY:
            log.error("the timers' queue ends at %d, and was read up to %d", max_offset, offset)
            self._files.queue_offset = max_offset
        elif status in (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.NO_MATCHED_MESSAGE) and next_offset > offset:
            if offset >= self._files.delivered_offset and offset:
                self.lost_count += next_offset - offset
                log.error("%d timers were deleted from the log before they were looked at", next_offset - offset)
            self._files.queue_offset = next_offset
            return True
        return False

    def _joins(self, waiting: _Waiting, record: Record, now_step: int) -> bool:
        """Add a message to those that come into the wheel together, if it waits for the same step in the same topic as they do.

        False: it has to be looked at alone.
        """
        files = self._files
        if record.queue_offset < max(files.placed_end, files.delivered_offset):
            return False
        found = self._templates.find(record.properties)
        if found is None:
            return False
        template = found[0]
        due_ms, topic = template.due_ms, template.topic
        if not waiting.messages:
            latest_ms = min(now_step + self._window_ms, self.read_ms + files.wheel.span_ms - self._precision)
            if not now_step <= due_ms < latest_ms:
                return False
            waiting.due_ms, waiting.topic, waiting.tag_code = due_ms, topic, tag_code(topic)
        elif due_ms != waiting.due_ms or topic != waiting.topic:
            return False
        waiting.messages.append((record.physical_offset, record.size, waiting.tag_code))
        waiting.delays_ms.append(due_ms - record.born_at_ms)
        waiting.end = record.queue_offset + 1
        return True

    def _put_together(self, waiting: _Waiting, now_step: int, now_ms: int) -> None:
        """Put messages of one step and topic into the wheel, and forget them."""
        files, messages, topic = self._files, waiting.messages, waiting.topic
        while messages:
            count = files.put_some(waiting.due_ms, now_step, int(Magic.DEFAULT), messages)
            files.queue_offset = waiting.end - len(messages) + count
            self.pending_count += count
            self.metrics.add(topic, count, now_ms, change_count=count)
            self.metrics.came_together(topic, waiting.delays_ms[:count])
            del messages[:count], waiting.delays_ms[:count]

    def _put(self, record: Record, now_step: int, now_ms: int) -> bool:
        """Put one message into the wheel, or deliver it when it is due; False: the wheel has no room for it yet."""
        files, precision = self._files, self._precision
        # After a crash the queue is read from the checkpoint again, and some of it is in the wheel already.
        if record.queue_offset < files.placed_end and files.is_placed(record.physical_offset):
            return True
        properties = _properties_of(record)
        due_ms = parse_long(properties.get(TimerProperty.OUT_MS, ""))
        topic = properties.get(PropertyName.REAL_TOPIC)
        if due_ms is None or topic is None:
            log.error(
                "a message among the timers has no time or no topic: it stays in the log at %d", record.physical_offset
            )
            return True
        # The same for those that were delivered: delivering them again would double them.
        if record.queue_offset < files.delivered_offset and due_ms // precision * precision < files.delivered_ms:
            return True
        # A recall is a message of its own, due with the one that it takes back.
        takes_back = TimerProperty.DELETE_KEY in properties
        if due_ms < now_step:
            if not takes_back and not self._was_delivered(record, topic):
                self._store_again(record, properties, _NEVER_ENQUEUED, now_ms, is_rolled=False)
                self.delivered_count += 1
                self.metrics.went(topic)
            self.metrics.came(topic, due_ms - record.born_at_ms)
            return True
        asked_ms = due_ms - record.born_at_ms
        magic = int(Magic.DEFAULT) | (_DELETE if takes_back else 0)
        # Beyond the wheel's span it waits several turns, each a shorter time (Java: timerRollWindowSlot).
        if due_ms - now_step >= self._window_ms:
            magic |= _ROLL
            due_ms = now_step + self._turn_ms(due_ms - now_step)
        # The slot of that time is still taken by the turn before.
        if due_ms >= self.read_ms + files.wheel.span_ms - precision:
            return False
        count = -1 if takes_back else 1
        files.put(due_ms, now_step, magic, (record.physical_offset, record.size, tag_code(topic)), count)
        self.pending_count += count
        self.metrics.add(topic, count, now_ms)
        self.metrics.came(topic, asked_ms)
        return True

    def _turn_ms(self, delay_ms: int) -> int:
        """Return how long a message waits before its next turn, whose time is beyond the window.

        Source: Java TimerMessageStore.doEnqueue: the last turn but one is half as long where little would be left.
        """
        precision, window = self._precision, self._window_ms
        if delay_ms - window < window // precision // 3 * precision:
            return window // precision // 2 * precision
        return window

    def _next_due(self, now_step: int) -> DueStep | None:
        """Return the next step that has messages and is over; a few thousand are looked at."""
        wheel = self._files.wheel
        if wheel.file is None:
            self.read_ms = now_step
            return None
        for _ in range(_STEPS_PER_TURN):
            if self.read_ms >= now_step:
                return None
            if (slot := wheel.slot(self.read_ms)) is not None:
                return DueStep(slot, self._files.chain(slot))
            self.read_ms += self._precision
        return None

    def _note_taken_back(self, due: DueStep, unit: Unit) -> None:
        record = self._record(unit)
        if record is not None:
            properties = _properties_of(record)
            key = properties.get(TimerProperty.DELETE_KEY)
            if key is not None:
                due.taken_back.setdefault(key, properties.get(PropertyName.REAL_TOPIC, ""))

    def _deliver(self, due: DueStep, position: int, now_ms: int) -> None:
        unit = self._files.log.unit(position)
        if unit is None:
            raise DamagedTimers(f"the unit at {position} of the log is gone")
        record = self._record(unit, may_reset=not due.has_delivered)
        if record is None:
            return
        is_rolled = bool(unit.magic & _ROLL)
        found = None if is_rolled else self._templates.find(record.properties)
        properties: dict[str, str] = {}
        if found is None:
            properties = _properties_of(record)
            topic, key = properties.get(PropertyName.REAL_TOPIC, ""), properties.get(PropertyName.UNIQ_KEY, "")
        else:
            topic, key = found[0].topic, found[1].decode()
        if not is_rolled and due.taken_back and due.taken_back.get(name := f"{topic}+{key}") is not None:
            due.taken_back[name] = ""  # it has found its message
            return
        if self._was_delivered(record, TIMER_TOPIC if is_rolled else topic):
            pass
        elif found is None:
            self._store_again(record, properties, str(unit.write_ms), now_ms, is_rolled=is_rolled)
        else:
            self._store_due(record, *found, str(unit.write_ms), now_ms)
        due.has_delivered = True
        self.delivered_count += 1
        self.metrics.add(topic, 1 if unit.magic & _DELETE else -1, now_ms)
        self.metrics.went(topic)

    def _was_delivered(self, record: Record, topic: str) -> bool:
        """Return True if a former master has put the message where it is to go now."""
        copies = self._copies
        return bool(copies) and copies.take(
            find_property(record.properties, b"UNIQ_KEY"), topic, record.physical_offset
        )

    def _end_step(self, due: DueStep, now_ms: int) -> None:
        for topic in due.taken_back.values():
            if topic:
                self.metrics.add(topic, 1, now_ms)  # nothing was there to be taken back
        self.pending_count -= due.slot.message_count
        self.delivered_count += len(due.taken_back)
        self.read_ms += self._precision
        self._due = None

    def _record(self, unit: Unit, *, may_reset: bool = True) -> Record | None:
        """Return the message of a unit; None where the log does not have it any more."""
        record = self._store.parsed_at(unit.physical_offset, unit.message_size)
        if record is not None:
            return record
        is_kept = unit.physical_offset >= self._store.min_physical_offset
        if is_kept and may_reset and not self._was_reset:
            # Once: what cannot be read after that is damaged itself.
            raise DamagedTimers(f"a unit leads to {unit.physical_offset} of the CommitLog, where its message is not")
        self.lost_count += 1
        log.error(
            "a timer cannot be read from the log any more (%d such messages since the start): fileReservedTime is shorter "
            "than messages wait, the disk was full, or the message is damaged",
            self.lost_count,
        )
        return None

    def _store_again(
        self, record: Record, properties: dict[str, str], enqueue_ms: str, now_ms: int, *, is_rolled: bool
    ) -> None:
        """Store a message under its own topic, or in the queue once more for another turn."""
        properties.pop(PropertyName.CRC32, None)
        traces = {TimerProperty.ENQUEUE_MS: enqueue_ms}
        destination: tuple[str, int] | None = (TIMER_TOPIC, 0)
        if is_rolled:
            turns = parse_long(properties.get(TimerProperty.ROLL_TIMES, "0")) or 0
            traces[TimerProperty.ROLL_TIMES] = str(turns + 1)
        else:
            destination = self._missing.destination(properties, now_ms)
        traces[TimerProperty.DEQUEUE_MS] = str(now_ms)
        if destination is None:
            log.error("a timer has no place to go: it stays in the log at %d", record.physical_offset)
            return
        self._store.append(
            Draft(
                *destination,
                bytes(record.body),
                _format(properties, traces),
                record.flag,
                record.sys_flag,
                record.born_at_ms,
                record.born_host,
                record.reconsume_times,
            )
        )

    def _store_due(self, record: Record, template: WaitingTemplate, key: bytes, enqueue_ms: str, now_ms: int) -> None:
        """Store a message that is due under its own topic, as `_store_again` does without a template."""
        topic, queue_id = self._missing.readable_queue(template.topic, template.queue_id, now_ms)
        draft = (
            topic, queue_id, bytes(record.body), template.fill(key, enqueue_ms, now_ms), record.flag,
            record.sys_flag, record.born_at_ms, record.born_host, record.reconsume_times, 0, template.tag_code,
        )  # fmt: skip
        self._store.append(tuple.__new__(Draft, draft))  # a named tuple's own constructor is a Python function

    def _reset_files(self, damage: Exception) -> None:
        """Rebuild wheel and log from the queue; delivered messages are passed over."""
        self._damage = damage
        self.reset_count += 1
        self._rebuild_damaged()

    def _rebuild_damaged(self) -> None:
        """Rebuild what was found damaged, if anything was. Raises OSError; the damage itself, while a snapshot is being kept."""
        files, damage = self._files, self._damage
        if damage is None:
            return
        if self.is_being_saved:
            raise damage
        files.delivered_offset = max(files.queue_offset, files.delivered_offset)
        files.delivered_ms = self.read_ms
        self._due = None
        self._was_reset = True
        files.reset(str(damage))
        self._damage = None
        self.pending_count = 0
        self.metrics.clear()


def _properties_of(record: Record) -> dict[str, str]:
    """Return a message's properties; none where another program wrote what is not text."""
    try:
        return parse_properties(record.properties)
    except UnicodeDecodeError:
        return {}


def _format(properties: dict[str, str], traces: dict[str, str]) -> bytes:
    """Encode properties; what only tells of the way is left out where it does not fit."""
    try:
        return format_properties({**properties, **traces})
    except InvalidArgument:
        return format_properties(properties)
