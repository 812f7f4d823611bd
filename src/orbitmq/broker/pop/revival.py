"""Revival: messages whose consumer did not acknowledge them in time go to the retry topic of their group.

What was stored there is struck out of its checkpoint immediately, in the revive topic as well: a crash between the two
repeats a message and never loses one.

Source: Java PopReviveService.
"""

from __future__ import annotations

import asyncio
import logging

from orbitmq.broker.delivery.delay import properties_again
from orbitmq.broker.groups.offsets import UNKNOWN, GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.pop.checkpoints import Outstanding
from orbitmq.broker.pop.revive_log import ReviveLog
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.errors import CorruptRecord, InvalidArgument, OrbitError
from orbitmq.model.message import PropertyName
from orbitmq.store import Draft, Store
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import Record
from orbitmq.wire.pop.handles import NORMAL, RETRY_V1, RETRY_V2, normal_topic, pop_retry_topic, retry_kind
from orbitmq.wire.pop.revive_log import CheckpointKey

log = logging.getLogger(__name__)

TICK_MS = 100
"""How often checkpoints are looked at while there are any."""
IDLE_MS = 1_000
"""How often it is looked whether others have put some into the revive topic."""
SLICE_COUNT = 8
"""Checkpoints that are revived in one time slice, up to 256 messages: then others have the loop."""
_RETRY_QUEUE_COUNT = 1
_REWRITE_COUNT = 8
_RETRY_MS = 1_000
"""After so long a checkpoint is looked at again that could not be revived."""

_CHECKSUM = f"{PropertyName.CRC32}\x01".encode()
_RECONSUME_TIMES_MAX = 2**31 - 1
"""What a record can hold; a client may have sent a message that says so already."""


class Revival:
    """Revives what is due.

    Args:
        uses_retry_v2: retries go to `%RETRY%group+topic`, not to `%RETRY%group_topic` (Java: enableRetryTopicV2).
    """

    def __init__(
        self,
        store: Store,
        topics: TopicRegistry,
        groups: GroupRegistry,
        offsets: GroupOffsets,
        revive_log: ReviveLog,
        *,
        uses_retry_v2: bool,
        clock: Clock,
        monotonic: Clock,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._log = revive_log
        self._retry_kind = RETRY_V2 if uses_retry_v2 else RETRY_V1
        self._clock = clock
        self._monotonic = monotonic
        self._failure = RepeatedFailure(log, "reviving popped messages failed, it is tried again")
        self.retries: dict[tuple[str, str], int] = {}
        """Messages that went to a retry topic, by the topic that they were popped from and the group."""
        self.unreadable_count = 0
        """Messages that were not revived because their records cannot be read."""

    @property
    def retry_count(self) -> int:
        """Messages that went to a retry topic."""
        return sum(self.retries.values())

    async def run(self) -> None:
        """Revive what is due, as it becomes due. Ends when it is cancelled."""
        while True:
            is_idle = self._log.checkpoints.due_at_ms() is None
            await asyncio.sleep((IDLE_MS if is_idle else TICK_MS) / 1000)
            try:
                self._log.follow()
                while self.revive_due():
                    await asyncio.sleep(0)
                self._log.rewrite_old(_REWRITE_COUNT)
            except Exception as error:
                self._failure.note(error)
            else:
                self._failure.note(None)
            self._log.commit()

    def revive_due(self) -> bool:
        """Revive some of the checkpoints whose time is over; True: there may be more.

        Raises:
            OrbitError: the store or the topic table takes nothing now; a later call tries again.
        """
        checkpoints = self._log.checkpoints
        for _ in range(SLICE_COUNT):
            found = checkpoints.next_due(self._monotonic())
            if found is None:
                return False
            try:
                self._revive(found)
            except Exception:
                if found.left:  # the other checkpoints are not to wait for this one
                    checkpoints.postpone(found, self._monotonic() + _RETRY_MS)
                raise
        return True

    def _revive(self, found: Outstanding) -> None:
        key = found.key
        if self._topics.get(normal_topic(key.topic, key.group)) is None or self._groups.configs.get(key.group) is None:
            log.info("messages of %s that %s had are not revived: one of the two is deleted", key.topic, key.group)
            self._log.checkpoints.finish(found)
            return
        offsets = found.offsets_left
        for number, offset in enumerate(offsets):
            try:
                record = self._store.message_at(key.topic, key.queue_id, offset)
                # In the gap of a rebuilt queue stands its neighbour, which comes by its own number.
                if record is not None and record.topic == key.topic and record.queue_offset != offset:
                    raise CorruptRecord(record.physical_offset, f"its queue offset is {record.queue_offset}")
                if record is not None:  # else the log was cleaned past it
                    self._store_again(key, record)
            except CorruptRecord as error:
                self.unreadable_count += 1
                log.error(
                    "message %d of queue %d of %s, popped by %s, cannot be read and is not revived; the others are: %s",
                    offset, key.queue_id, key.topic, key.group, error,
                )  # fmt: skip
            except OrbitError:
                self._log.checkpoints.acknowledge(key, offsets[:number])
                raise
        result = self._log.acknowledge(key, offsets)
        if (
            result is None
        ):  # another of the same name took its place: it cannot be acknowledged, and is done all the same
            self._log.checkpoints.finish(found)
        self._store.bound_unsynced(self._store.max_physical_offset)

    def _store_again(self, key: CheckpointKey, record: Record) -> None:
        kind = retry_kind(key.topic)
        topic = key.topic if kind != NORMAL else pop_retry_topic(key.topic, key.group, self._retry_kind)
        self._ensure_topic(topic, key.group)
        result = self._store.append(
            Draft(
                topic, 0, bytes(record.body), _properties_of(key, record), record.flag, record.sys_flag, record.born_at_ms,
                record.born_host, min(record.reconsume_times + 1, _RECONSUME_TIMES_MAX),
            )
        )  # fmt: skip
        self._offsets.log_end = result.end
        place = key.topic, key.group
        self.retries[place] = self.retries.get(place, 0) + 1

    def _ensure_topic(self, topic: str, group: str) -> None:
        if self._topics.get(topic) is not None:
            return
        if self._topics.create_retry_topic(topic, _RETRY_QUEUE_COUNT, self._clock()) is None:
            raise InvalidArgument("topic", topic, "room in the topic table: topicsMax allows no more topics")
        if self._offsets.query(group, topic, 0) == UNKNOWN:
            self._offsets.commit(group, topic, 0, 0, offset_max=0)


def _properties_of(key: CheckpointKey, record: Record) -> bytes:
    """Return the properties of a message that is stored again; as they are, where they cannot be parsed or formatted.

    Any client may have sent such ones: bytes that are not text, or separators inside a value.
    """
    try:
        properties = properties_again(record)
        if record.reconsume_times == 0:
            properties[PropertyName.FIRST_POP_TIME] = str(key.pop_time_ms)
        properties.setdefault(PropertyName.FIRST_POP_TIME, str(key.pop_time_ms))
        try:
            return format_properties(properties)
        except InvalidArgument:  # no room for one more
            del properties[PropertyName.FIRST_POP_TIME]
            return format_properties(properties)
    except (UnicodeDecodeError, InvalidArgument):
        return bytes(record.properties).partition(_CHECKSUM)[0]  # the record's own is its last property
