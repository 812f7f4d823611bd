"""Delayed messages, by levels: they wait in SCHEDULE_TOPIC_XXXX until their time, then go to their own topic.

State: per level, the offset in its schedule queue up to which everything was delivered. In: messages that ask for a
delay, the monotonic clock. Out: the messages again, under their own topic, at least once: an offset counts at a start when what
was delivered before it was on the disk, or when the copy before it is found in the log, so a crash repeats and never loses.

Source: Java ScheduleMessageService, HookUtils.transformDelayLevelMessage.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from orbitmq.broker.delivery.deadlines import Deadlines
from orbitmq.broker.delivery.delivered_copies import DeliveredCopies
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.errors import CorruptRecord, HeaderError, InvalidArgument
from orbitmq.model.delay_levels import DelayLevels
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import SCHEDULE_TOPIC, DataVersion
from orbitmq.store import AppendResult, Draft, ReadStatus, Store
from orbitmq.store.sync.delivery_progress import DeliveryProgress, LevelProgress
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version
from orbitmq.wire.messages.properties import find_property, format_properties, parse_properties
from orbitmq.wire.messages.record import Record, iter_queue_records

log = logging.getLogger(__name__)

SLICE_COUNT = 64
"""Messages that are sent on in one time slice: some two milliseconds of the loop's time, then others have their turn."""
_READ_SIZE = 1024 * 1024
_DELIVERED_MAX = 256
_DIGITS_MAX = 9


def level_of(properties: Mapping[str, str]) -> int:
    """Return the delay level that properties ask for, 0 for none; it may be above the highest."""
    text = properties.get(PropertyName.DELAY, "0")
    if not text.isdecimal():
        return 0
    return int(text[:_DIGITS_MAX])


def properties_again(record: Record) -> dict[str, str]:
    """Return the properties with which a stored message is stored once more: neither its delay nor its checksum hold."""
    properties = parse_properties(record.properties)
    properties.pop(PropertyName.DELAY, None)
    properties.pop(PropertyName.CRC32, None)
    return properties


def schedule(draft: Draft, properties: Mapping[str, str], level: int) -> Draft:
    """Return the form in which a message waits: in the level's queue, with its own topic and queue among its properties.

    Args:
        properties: the message's, parsed; they replace `draft.properties`.
        level: 1 to the highest.
    """
    waiting = {
        **properties,
        PropertyName.DELAY: str(level),
        PropertyName.REAL_TOPIC: draft.topic,
        PropertyName.REAL_QUEUE_ID: str(draft.queue_id),
    }
    return draft._replace(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=format_properties(waiting))


class Delivered(NamedTuple):
    """How far the levels were delivered when the log reached a place; kept once that place is on the disk."""

    log_end: int
    offsets: dict[int, int]


class DelayQueues:
    """Delivers what waited long enough.

    Args:
        topics: the broker's; a topic that messages wait for is made again when it is missing.
        levels: how long each level waits. Messages that other settings let wait come at the time that they got then,
            and wait no longer than a new message of their level would; levels that are gone count as the highest.
        notes: of the last copies, as of the moment; those before the start count where the log has them.
        copies: what a former master has delivered last.
        wall_ms: the wall clock at the start.
        now_ms: the monotonic clock at the start, which every later `now_ms` is of.
    """

    def __init__(
        self,
        store: Store,
        topics: TopicRegistry,
        levels: DelayLevels,
        offsets: Mapping[int, int] | None = None,
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
        *,
        notes: DeliveryProgress,
        copies: DeliveredCopies | None = None,
        wall_ms: int,
        now_ms: int,
    ) -> None:
        self._store = store
        self._notes = notes
        self._missing = MissingTopics(topics)
        self.version = version
        self._wall_ahead_ms = wall_ms - now_ms
        self.levels = levels
        # With a queue for each level that there is, and for each that messages were left in.
        queue_ids = {*range(len(levels)), *store.queue_ids(SCHEDULE_TOPIC)}
        self._offsets = dict.fromkeys((queue_id + 1 for queue_id in sorted(queue_ids)), 0)
        for level, offset in (offsets or {}).items():
            if level in self._offsets:
                self._offsets[level] = max(0, min(offset, self._end(level)))
        self._deadlines = {
            level: Deadlines(levels.delay_ms(level), self._end(level), now_ms=now_ms) for level in self._offsets
        }
        self._turns = deque(self._offsets)
        self._delivered_end = store.max_physical_offset
        self._delivered: deque[Delivered] = deque()
        self._copies: dict[int, LevelProgress] = {}
        """Those that are still to be noted, the last one of each level."""
        self._noting = RepeatedFailure(log, "delivered messages cannot be noted: a kill -9 would repeat them")
        self.undeliverable_count = 0
        """Messages that were left where they are because they cannot be read or formatted."""
        self._believe_notes()
        if copies:
            self._pass_over_copies(copies)

    def offsets(self) -> bytes:
        """Return up to where each level was delivered, in the form of delayOffset.json."""
        return format_delay_offsets({level: offset for level, (offset, _) in self.progress().items()}, self.version)

    def take_over(self, offsets: Mapping[int, int], version: DataVersion) -> bool:
        """Take over how far a master has delivered; say whether anything of it is new here.

        Args:
            offsets: by level; a level is never further than the messages that are here.
        """
        taken = {level: min(offset, self._end(level)) for level, offset in offsets.items() if level in self._offsets}
        ahead = {level: offset for level, offset in taken.items() if offset > self._offsets[level]}
        if ahead:
            self._offsets |= ahead
            self._delivered.clear()  # what was to be kept of this broker's own deliveries is behind
        self.version = version
        return bool(ahead)

    def progress(self) -> dict[int, tuple[int, int]]:
        """Return, of each level that was ever used, up to where it was delivered, and where its queue ends."""
        return {level: (offset, self._end(level)) for level, offset in self._offsets.items() if self._end(level)}

    def backlog(self) -> dict[int, int]:
        """Return how many messages wait, by level."""
        return {level: max(0, self._end(level) - offset) for level, offset in self._offsets.items()}

    @property
    def are_waiting(self) -> bool:
        """True while any message waits."""
        return any(self._end(level) > offset for level, offset in self._offsets.items())

    @property
    def is_changed(self) -> bool:
        """True while delivered messages are not yet told by the file."""
        return bool(self._delivered)

    def when_readable(self, act: Callable[[], None]) -> None:
        """Call `act` when the messages that were appended until now can be read."""
        if self._store.wait_durable(self._store.max_physical_offset, lambda is_durable: act()):
            act()

    def note_arrivals(self, now_ms: int) -> None:
        """Begin to count the delay of the messages that came since the last call."""
        for level, deadlines in self._deadlines.items():
            deadlines.note(self._end(level), now_ms)

    def deliver_due(self, now_ms: int) -> int:
        """Send on messages whose time has come, a slice of them; return how many: 0 when no more are due.

        Raises:
            StoreUnavailable: the store takes nothing now; nothing is lost, a later call tries again.
            Rejected: so does the disk refuse a topic that has to be made again.
        """
        before = dict(self._offsets)
        room = SLICE_COUNT
        try:
            for level in tuple(self._turns):
                room -= self._deliver_level(level, now_ms, room)
                if room <= 0:
                    # The next slice begins with the level after this one: a busy level keeps no other waiting.
                    self._turns.rotate(-self._turns.index(level) - 1)
                    break
        finally:
            if self._offsets != before:
                self._note_delivered()
            self._write_notes()
        return SLICE_COUNT - room

    def take_durable(self, wall_ms: int) -> bytes | None:
        """Return the content of delayOffset.json when it has changed and may be kept, else None."""
        # A crash may take back deliveries that are not on the disk: offsets beyond them would lose messages. Under
        # steady traffic the last ones never are, so what is kept is how far it was when the synced ones were written.
        offsets = None
        while self._delivered and self._delivered[0].log_end <= self._store.durable_offset:
            offsets = self._delivered.popleft().offsets
        if offsets is None:
            return None
        self.version = self.version.next(wall_ms)
        return format_delay_offsets(offsets, self.version)

    def close(self) -> None:
        """Close the file of notes."""
        self._notes.close()

    def _believe_notes(self) -> None:
        """Go on behind the copies that the process before has noted, where the log has them."""
        try:
            notes = self._notes.read()
        except OSError as error:
            log.warning("which delayed messages were delivered last cannot be read, some come again: %s", error)
            return
        ahead = [note for note in notes if note.queue_offset >= self._offsets.get(note.level, note.queue_offset + 1)]
        found = {note.level: note.queue_offset + 1 for note in ahead if self._has_copy(note)}
        if found:
            self._offsets |= found
            self._note_delivered()

    def _pass_over_copies(self, delivered: DeliveredCopies) -> None:
        """Go on behind the messages that a former master has delivered: the first ones of each level."""
        for level, offset in self._offsets.items():
            while (waiting := self._waiting_at(level, offset)) is not None:
                topic = find_property(waiting.properties, b"REAL_TOPIC") or b""
                key = find_property(waiting.properties, b"UNIQ_KEY")
                if not delivered.take(key, topic.decode("utf-8", "replace"), waiting.physical_offset):
                    break
                offset += 1
            if offset > self._offsets[level]:
                self._offsets[level] = offset
                self._note_delivered()

    def _waiting_at(self, level: int, queue_offset: int) -> Record | None:
        try:
            return self._store.message_at(SCHEDULE_TOPIC, level - 1, queue_offset)
        except CorruptRecord:  # nothing can be compared with it: its turn says so
            return None

    def _has_copy(self, note: LevelProgress) -> bool:
        """Return True if the message was sent on, by what lies in the log where its copy should be.

        A power cut may leave the note and take the copy, and another message may have come to its place since.
        """
        waiting = self._waiting_at(note.level, note.queue_offset)
        copy = self._store.parsed_at(note.copy_at)
        if waiting is None or copy is None:
            return False
        # The schedule topic may have been made again, and count from elsewhere.
        if (waiting.physical_offset, copy.stored_at_ms) != (note.waiting_at, note.stored_at_ms):
            return False
        properties = properties_again(waiting)
        return (copy.topic, bytes(copy.body), properties_again(copy)) == (
            properties.get(PropertyName.REAL_TOPIC),
            bytes(waiting.body),
            properties,
        )

    def _end(self, level: int) -> int:
        return self._store.max_offset(SCHEDULE_TOPIC, level - 1)

    def _note_delivered(self) -> None:
        if len(self._delivered) >= _DELIVERED_MAX:
            self._delivered.pop()
        self._delivered.append(Delivered(self._delivered_end, dict(self._offsets)))

    def _write_notes(self) -> None:
        """Tell a successor what was delivered: one small write for each level of a slice, which no disk is waited for."""
        if self._copies:
            copies, self._copies = self._copies, {}
            try:
                self._notes.write(copies.values())
            except OSError as error:
                self._noting.note(error)
            else:
                self._noting.note(None)

    def _deliver_level(self, level: int, now_ms: int, count_max: int) -> int:
        offset, deadlines = self._offsets[level], self._deadlines[level]
        end = self._end(level)
        if end <= offset:
            return 0
        deadlines.note(end, now_ms)
        if not deadlines.may_be_due(offset, now_ms):
            return 0
        found = self._store.read(SCHEDULE_TOPIC, level - 1, offset, count_max, _READ_SIZE)
        if found.status is not ReadStatus.FOUND:  # the log was cleaned past it: go on where it says
            self._offsets[level] = max(offset, found.next_offset)
            return 0
        for queue_offset, record in iter_queue_records(found.body, offset):
            if isinstance(record, CorruptRecord):
                self._pass_over(level, queue_offset, record)
                self._offsets[level] = queue_offset + 1
                break
            # Messages of a level come in their order: the first that is not due ends the level's turn.
            if not self._is_due(level, record, now_ms):
                break
            copy = None
            try:
                copy = self._deliver(record, now_ms)
            except (InvalidArgument, UnicodeDecodeError) as error:
                self._pass_over(level, queue_offset, error)
            self._offsets[level] = queue_offset + 1
            if copy is not None:
                self._copies[level] = LevelProgress(
                    level, queue_offset, record.physical_offset, copy.physical_offset, copy.stored_at_ms
                )
        return self._offsets[level] - offset

    def _pass_over(self, level: int, queue_offset: int, error: Exception) -> None:
        """Leave one message where it is, which stops no other of its level."""
        self.undeliverable_count += 1
        log.error(
            "delayed message %d of level %d cannot be delivered and stays in %s, queue %d; those behind it are delivered: %s",
            queue_offset, level, SCHEDULE_TOPIC, level - 1, error,
        )  # fmt: skip

    def _is_due(self, level: int, record: Record, now_ms: int) -> bool:
        deadlines, queue_offset = self._deadlines[level], record.queue_offset
        if deadlines.has_waited(queue_offset, now_ms):
            return True
        return deadlines.was_left(queue_offset) and self._due_at_ms(level, record) <= now_ms + self._wall_ahead_ms

    def _due_at_ms(self, level: int, record: Record) -> int:
        """Return the time that a message got when it was stored, by the settings of that day."""
        entries = self._store.queue_entries(SCHEDULE_TOPIC, level - 1, record.queue_offset, 1)
        due_at_ms = entries[0][2] if entries else 0
        # Java's extended consume queues have something else there, and entries have no checksum.
        return due_at_ms if due_at_ms >= record.stored_at_ms else record.stored_at_ms + self.levels.delay_ms(level)

    def _deliver(self, record: Record, now_ms: int) -> AppendResult | None:
        properties = properties_again(record)
        destination = self._missing.destination(properties, now_ms + self._wall_ahead_ms)
        if destination is None:
            log.error(
                "a delayed message has no place to go, topic %r, queue %r: it stays in the log at %d",
                properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QUEUE_ID), record.physical_offset,
            )  # fmt: skip
            return None
        result = self._store.append(
            Draft(
                *destination,
                bytes(record.body),
                format_properties(properties),
                record.flag,
                record.sys_flag,
                record.born_at_ms,
                record.born_host,
                record.reconsume_times,
            )
        )
        self._delivered_end = result.end
        return result


def format_delay_offsets(offsets: Mapping[int, int], version: DataVersion) -> bytes:
    """Return the content of delayOffset.json, levels bare as fastjson writes them."""
    return fastjson.dumps_loose({"dataVersion": data_version_document(version), "offsetTable": dict(offsets)})


def parse_delay_offsets(data: bytes) -> tuple[dict[int, int], DataVersion]:
    """Parse delayOffset.json.

    Raises:
        HeaderError: not such a file.
    """
    try:
        document = fastjson.loads(data)
        offsets = {int(level): int(offset) for level, offset in (document.get("offsetTable") or {}).items()}
        return offsets, parse_data_version(document.get("dataVersion") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise HeaderError(f"delay offsets: {error}") from None
