"""Delayed messages, levels 1 to 18: they wait in SCHEDULE_TOPIC_XXXX until their time, then go to their own topic.

State: per level, the offset in its schedule queue up to which everything was delivered. In: messages that ask for a
delay, the clock. Out: the messages again, under their own topic, at least once: an offset is kept only when what was
delivered before it is on the disk, so a crash repeats and never loses.

Source: Java ScheduleMessageService, HookUtils.transformDelayLevelMessage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from orbitmq.errors import HeaderError
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import SCHEDULE_TOPIC, DataVersion, TopicConfig
from orbitmq.store import Draft, ReadStatus, Store
from orbitmq.store.dispatch import DELAY_LEVELS_MS
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version
from orbitmq.wire.messages.properties import format_properties, parse_properties
from orbitmq.wire.messages.record import Record, iter_records

log = logging.getLogger(__name__)

LEVEL_MAX = len(DELAY_LEVELS_MS)
_READ_COUNT, _READ_SIZE = 256, 1024 * 1024
_DIGITS_MAX = 9


def level_of(properties: Mapping[str, str]) -> int:
    """Return the delay level that properties ask for, 0 for none; above the highest means the highest."""
    text = properties.get(PropertyName.DELAY, "0")
    if not text.isdecimal():
        return 0
    return min(int(text[:_DIGITS_MAX]), LEVEL_MAX)


def schedule(draft: Draft, properties: Mapping[str, str], level: int) -> Draft:
    """Return the form in which a message waits: in the level's queue, with its own topic and queue among its properties.

    Args:
        properties: the message's, parsed; they replace `draft.properties`.
        level: 1 to LEVEL_MAX.
    """
    waiting = {
        **properties,
        PropertyName.DELAY: str(level),
        PropertyName.REAL_TOPIC: draft.topic,
        PropertyName.REAL_QUEUE_ID: str(draft.queue_id),
    }
    waiting.pop(PropertyName.CRC32, None)
    return draft._replace(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=format_properties(waiting))


class DelayQueues:
    """Delivers what waited long enough.

    Args:
        find_topic: the broker's topic table; what waits for a topic that was deleted is dropped.
    """

    def __init__(
        self,
        store: Store,
        find_topic: Callable[[str], TopicConfig | None],
        offsets: Mapping[int, int] | None = None,
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
    ) -> None:
        self._store = store
        self._find_topic = find_topic
        self.version = version
        self._offsets = dict.fromkeys(range(1, LEVEL_MAX + 1), 0)
        for level, offset in (offsets or {}).items():
            if level in self._offsets:
                end = store.max_offset(SCHEDULE_TOPIC, level - 1)
                self._offsets[level] = max(0, min(offset, end))
        self._delivered_end = 0
        self.is_changed = False
        """True while delivered messages are not yet told by the file."""

    @property
    def are_waiting(self) -> bool:
        """True while any message waits."""
        return any(
            self._store.max_offset(SCHEDULE_TOPIC, level - 1) > offset for level, offset in self._offsets.items()
        )

    def deliver_due(self, now_ms: int) -> int:
        """Send on every message whose time has come; return how many.

        Raises:
            StoreUnavailable: the store takes nothing now; nothing is lost, a later call tries again.
        """
        return sum(self._deliver_level(level, now_ms) for level in self._offsets)

    def take_durable(self, now_ms: int) -> bytes | None:
        """Return the content of delayOffset.json when it has changed and may be kept, else None."""
        # A crash may take back deliveries that are not on the disk: offsets beyond them would lose messages.
        if not self.is_changed or self._store.durable_offset < self._delivered_end:
            return None
        self.is_changed = False
        self.version = self.version.next(now_ms)
        return format_delay_offsets(self._offsets, self.version)

    def _deliver_level(self, level: int, now_ms: int) -> int:
        offset = self._offsets[level]
        if self._store.max_offset(SCHEDULE_TOPIC, level - 1) <= offset:
            return 0
        found = self._store.read(SCHEDULE_TOPIC, level - 1, offset, _READ_COUNT, _READ_SIZE)
        if found.status is not ReadStatus.FOUND:  # the log was cleaned past it: go on where it says
            if found.next_offset > offset:
                self._advance(level, found.next_offset)
            return 0
        count = 0
        for record in iter_records(found.body, check_crc=False):
            # All messages of a level wait equally long: the first that is too young ends the level's turn.
            if record.stored_at_ms + DELAY_LEVELS_MS[level - 1] > now_ms:
                break
            self._deliver(record)
            self._advance(level, record.queue_offset + 1)
            count += 1
        return count

    def _deliver(self, record: Record) -> None:
        properties = parse_properties(record.properties)
        topic = properties.get(PropertyName.REAL_TOPIC, "")
        queue_id = properties.get(PropertyName.REAL_QUEUE_ID, "")
        if not queue_id.isdecimal() or len(queue_id) > _DIGITS_MAX or self._find_topic(topic) is None:
            log.warning("dropped a delayed message: its topic %r, queue %r is not there", topic, queue_id)
            return
        properties.pop(PropertyName.DELAY, None)
        properties.pop(PropertyName.CRC32, None)  # it was the checksum of the record that waited
        result = self._store.append(
            Draft(
                topic,
                int(queue_id),
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

    def _advance(self, level: int, offset: int) -> None:
        self._offsets[level] = offset
        self.is_changed = True


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
