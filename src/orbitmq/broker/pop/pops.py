"""Popping: messages are read for a group, noted in checkpoints, and the group's offsets go on behind them.

A queue is read by one request at a time, since the event loop runs one: no consumer gets a message that another has.

Source: Java PopMessageProcessor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from orbitmq.broker.delivery.filters import Selection
from orbitmq.broker.delivery.in_memory_check import is_in_memory
from orbitmq.broker.groups.offsets import UNKNOWN, GroupOffsets
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.pop.ordered_queues import OrderedQueues
from orbitmq.broker.pop.revive_log import ReviveLog
from orbitmq.broker.topics.attributes import MESSAGE_TYPE, PRIORITY
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import TopicConfig
from orbitmq.store import PropertyTest, ReadResult, ReadStatus, Store
from orbitmq.wire.messages.record import Record, encode_record, iter_records, queue_offsets_in
from orbitmq.wire.pop.handles import (
    NORMAL,
    ORDER_REVIVE_QUEUE,
    RETRY_V1,
    RETRY_V2,
    Handle,
    PoppedQueue,
    format_handle,
    format_order_counts,
    pop_retry_topic,
)
from orbitmq.wire.pop.ordered_batches import OrderedPlace
from orbitmq.wire.pop.revive_log import CheckpointKey, PopCheckpoint

INIT_MIN = 0
"""A group's first pop of a queue begins at its first message (Java: ConsumeInitMode.MIN)."""
_MOVED = (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.OFFSET_OVERFLOW_BADLY)
_PERCENT = 100
_PEEKED_RETRIES_FIRST_PERCENT = 20
"""Of a hundred peeks so many look at retries first (Java's peeks have no setting)."""
_POP_WORK = 4_096
_TURN_WORK = 8_192
"""Looks at properties of one pop, and of all in one turn of the loop: then others have it."""


class PopRequest(NamedTuple):
    """What a pop wants.

    Args:
        queue_id: -1 for any.
        init_mode: INIT_MIN, or else a new group begins at the queue's end.
        is_ordered: no consumer of the group gets more of a queue until the messages are acknowledged, and there are no retries.
        attempt_id: in order: names the attempt, which gets the same messages again if it asks again.
    """

    topic: str
    group: str
    queue_id: int
    count_max: int
    invisible_ms: int
    init_mode: int
    selection: Selection
    is_ordered: bool = False
    attempt_id: str | None = None


@dataclass(slots=True)
class PopResult:
    """What a pop has found so far."""

    pop_time_ms: int
    revive_queue_id: int
    queues: list[PoppedQueue] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    """In order: how often the messages of each queue were tried."""
    count: int = 0
    size: int = 0
    rest_count: int = 0
    """Messages that wait behind those found."""
    is_cut: bool = False
    """Whether there are messages that were not looked at yet: it is to be tried again soon."""
    work: int = 0
    """Looks at properties that it took."""


class PopLimits(NamedTuple):
    """How much is given out.

    Args:
        size_max: bytes of one answer.
        checkpoints_max: checkpoints that may have messages left.
        in_flight_max: messages of a queue that a group may have at a time; None: any number.
    """

    size_max: int
    checkpoints_max: int
    in_flight_max: int | None


class Pops:
    """Reads for pops.

    Args:
        retries_first_percent: how many of a hundred pops look for retries first, the others last.
    """

    def __init__(
        self,
        store: Store,
        topics: TopicRegistry,
        offsets: GroupOffsets,
        revive_log: ReviveLog,
        ordered: OrderedQueues,
        stats: BrokerStats,
        *,
        limits: PopLimits,
        retries_first_percent: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._revive_log = revive_log
        self._ordered = ordered
        self._stats = stats
        self._limits = limits
        self._retries_first_percent = retries_first_percent
        self._clock = clock
        self._random = random
        self.over_checkpoints = 0
        """Pops that were refused because there were too many checkpoints."""
        self.over_in_flight = 0
        """Queues that were passed over because the group had too many of their messages."""
        self._turn_work = 0

    def now_ms(self) -> int:
        """Read the wall clock, in which handles speak."""
        return self._clock()

    @property
    def is_full(self) -> bool:
        """Return True if so many checkpoints have messages left that no more are made."""
        return self._revive_log.checkpoints.count >= self._limits.checkpoints_max

    def pop(self, asked: PopRequest) -> PopResult:
        """Take messages for a group.

        Raises:
            StoreUnavailable: a checkpoint could not be written; whatever was taken before comes again.
        """
        popped = PopResult(self._clock(), ORDER_REVIVE_QUEUE if asked.is_ordered else self._revive_log.next_queue_id())
        chance = self._random.randrange(_PERCENT)
        if asked.is_ordered:
            self._pop_topic(asked, popped, chance)
        elif chance < self._retries_first_percent and not _has_priorities(self._topics.get(asked.topic)):
            self._pop_retries(asked, popped)
            self._pop_topic(asked, popped, chance)
        else:
            self._pop_topic(asked, popped, chance)
            self._pop_retries(asked, popped)
        if popped.work:
            self._note_work(popped.work)
        if popped.count:
            self._stats.got(asked.topic, asked.group, popped.count, popped.size)
        return popped

    @property
    def is_busy(self) -> bool:
        """Return True if this turn of the loop has read enough properties: pops that test them are for a turn to come."""
        return self._turn_work >= _TURN_WORK

    def _note_work(self, work: int) -> None:
        if not self._turn_work:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._turn_work += work

    def _end_turn(self) -> None:
        self._turn_work = 0

    def peek(self, topic: str, group: str, queue_id: int, count_max: int) -> PopResult:
        """Look at messages that wait for a group, which stay where they are; those shown are part of the rest, too."""
        peeked = PopResult(0, 0)
        sources = _sources(topic, group)
        if self._random.randrange(_PERCENT) < _PEEKED_RETRIES_FIRST_PERCENT:
            sources = [*sources[1:], sources[0]]
        for name, kind in sources:
            for number in self._queue_ids(name, queue_id if kind == NORMAL else -1):
                self._peek_queue(peeked, name, group, number, count_max)
        if peeked.count:
            self._stats.got(topic, group, peeked.count, peeked.size)
        return peeked

    def _peek_queue(self, peeked: PopResult, topic: str, group: str, queue_id: int, count_max: int) -> None:
        waiting = self._waiting(topic, group, queue_id)
        peeked.rest_count += waiting
        room, size_max = count_max - peeked.count, self._limits.size_max - peeked.size
        if waiting <= 0 or room <= 0 or size_max <= 0:
            return
        begin = self._store.max_offset(topic, queue_id) - waiting
        found = self._store.read(topic, queue_id, begin, room, size_max)
        if found.status in _MOVED:
            found = self._store.read(topic, queue_id, found.next_offset, room, size_max)
        if found.status is ReadStatus.FOUND:
            peeked.records.append(found.body)
            peeked.count += len(queue_offsets_in(found.body))
            peeked.size += len(found.body)

    def has_messages(self, topic: str, group: str, queue_id: int) -> bool:
        """Return True if a pop would find messages, filters aside."""
        return any(
            self._waiting(name, group, number) > 0
            for name, kind in _sources(topic, group)
            for number in self._queue_ids(name, queue_id if kind == NORMAL else -1)
        )

    def has_messages_in_order(self, topic: str, group: str, queue_id: int, attempt_id: str | None) -> bool:
        """Return True if a pop in order would find messages."""
        return any(
            self._waiting(topic, group, number) > 0
            and self._ordered.blocked_until_ms((topic, group, number), attempt_id) is None
            for number in self._queue_ids(topic, queue_id)
        )

    def blocked_until_ms(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return when the first of the queues that are blocked may be read in order again; None: none is blocked."""
        blocked = [
            self._ordered.blocked_until_ms((topic, group, number)) for number in self._queue_ids(topic, queue_id)
        ]
        return min((until_ms for until_ms in blocked if until_ms is not None), default=None)

    def _queue_ids(self, topic: str, queue_id: int) -> Iterable[int]:
        if queue_id >= 0:
            return (queue_id,)
        config = self._topics.get(topic)
        return range(0 if config is None else config.read_queue_count)

    def acknowledge_in_order(self, place: OrderedPlace, queue_offset: int, pop_time_ms: int) -> bool:
        """Note that a message is done that was popped in order; True: its queue may be read on now.

        Raises:
            Rejected: 13, the batch that is out does not hold the message.
        """
        topic, group, queue_id = place
        committed = self._offsets.query(group, topic, queue_id)
        batch = self._ordered.find(place)
        if queue_offset < committed:
            return False
        if batch is None:
            # A crash took the batch: nothing before its first message is known to be done, and may come again.
            if queue_offset != committed or not self._was_stored(topic, queue_id, queue_offset, pop_time_ms):
                return False
            next_offset = queue_offset + 1
        elif batch.pop_time_ms != pop_time_ms:
            return False
        elif queue_offset not in batch.offsets:
            raise Rejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{committed}, commit:{queue_offset}, next:-1",
            )
        else:
            next_offset = self._ordered.acknowledge(place, queue_offset)
        self._commit(group, topic, queue_id, next_offset)
        return self._ordered.blocked_until_ms(place) is None

    def _was_stored(self, topic: str, queue_id: int, queue_offset: int, pop_time_ms: int) -> bool:
        """Return True if a message can have been popped then: a power cut may have taken another one of its number."""
        record = self._store.message_at(topic, queue_id, queue_offset)
        return record is not None and self._store.counted_at_ms(record) <= pop_time_ms

    def _waiting(self, topic: str, group: str, queue_id: int) -> int:
        committed = self._offsets.query(group, topic, queue_id)
        begin = max(committed, self._store.min_offset(topic, queue_id))  # UNKNOWN is less than any
        return self._store.max_offset(topic, queue_id) - begin

    def _pop_topic(self, asked: PopRequest, popped: PopResult, chance: int) -> None:
        config = self._topics.get(asked.topic)
        if config is None:
            return
        if asked.queue_id >= 0:
            self._pop_queue(asked, popped, asked.topic, NORMAL, asked.queue_id)
            return
        count = config.read_queue_count
        if _has_priorities(config) and not asked.is_ordered:
            queue_ids: Iterable[int] = reversed(range(count))  # a queue's number is the priority of its messages
        else:
            queue_ids = ((chance + number) % count for number in range(count))
        for queue_id in queue_ids:
            self._pop_queue(asked, popped, asked.topic, NORMAL, queue_id)

    def _pop_retries(self, asked: PopRequest, popped: PopResult) -> None:
        for topic, kind in _sources(asked.topic, asked.group)[1:]:
            config = self._topics.get(topic)
            for queue_id in range(config.read_queue_count) if config is not None else ():
                self._pop_queue(asked, popped, topic, kind, queue_id)

    def _pop_queue(self, asked: PopRequest, popped: PopResult, topic: str, kind: str, queue_id: int) -> None:
        """Take messages of one queue, as many as there is room for."""
        place = (topic, asked.group, queue_id)
        if asked.is_ordered and self._ordered.blocked_until_ms(place, asked.attempt_id) is not None:
            return  # What waits behind the block does not count as remaining: no pop is to be woken for it.
        begin = self._begin(asked, topic, kind, queue_id)
        room = self._room(asked, popped, topic, queue_id)
        if room <= 0:
            popped.rest_count += max(0, self._store.max_offset(topic, queue_id) - begin)
            return
        found = self._read(asked, popped, topic, queue_id, begin, room)
        if found.status in _MOVED:
            begin = found.next_offset
            self._commit(asked.group, topic, queue_id, begin)
            found = self._read(asked, popped, topic, queue_id, begin, room)
        if found.status is ReadStatus.FOUND and asked.is_ordered:
            self._give_in_order(asked, popped, place, begin, found)
        elif found.status is ReadStatus.FOUND:
            self._keep(asked, popped, topic, kind, queue_id, begin, found)
            self._go_on(place, found.next_offset)
        elif found.status is ReadStatus.NO_MATCHED_MESSAGE:
            self._go_on(place, found.next_offset)
            popped.is_cut |= found.next_offset < found.max_offset
        popped.rest_count += max(0, found.max_offset - found.next_offset)

    def _room(self, asked: PopRequest, popped: PopResult, topic: str, queue_id: int) -> int:
        """Return how many messages of a queue may be taken now."""
        limits = self._limits
        if popped.work >= _POP_WORK:
            popped.is_cut = True
            return 0
        if popped.size >= limits.size_max:
            return 0
        room = asked.count_max - popped.count
        if room > 0 and limits.in_flight_max is not None:
            in_flight = self._revive_log.checkpoints.in_flight.get((topic, asked.group, queue_id), 0)
            if in_flight > limits.in_flight_max:
                self.over_in_flight += 1
                return 0
        return room

    def _read(
        self, asked: PopRequest, popped: PopResult, topic: str, queue_id: int, begin: int, count_max: int
    ) -> ReadResult:
        selection, size_max = asked.selection, self._limits.size_max - popped.size
        if not isinstance(selection, PropertyTest):
            return self._store.read(topic, queue_id, begin, count_max, size_max, selection)
        found, work = self._store.read_matching(topic, queue_id, begin, count_max, size_max, selection)
        popped.work += 1 + work
        return found

    def _keep(
        self, asked: PopRequest, popped: PopResult, topic: str, kind: str, queue_id: int, begin: int, found: ReadResult
    ) -> None:
        """Note in a checkpoint what was found, and add it to the answer."""
        offsets = tuple(queue_offsets_in(found.body))
        log = self._revive_log
        key = CheckpointKey(topic, asked.group, queue_id, begin, popped.pop_time_ms, log.broker_name)
        log.add(PopCheckpoint(key, offsets, asked.invisible_ms), popped.revive_queue_id)
        self._stats.checkpointed(asked.topic, asked.group)
        popped.queues.append(PoppedQueue(kind, queue_id, begin, offsets))
        popped.count += len(offsets)
        popped.size += len(found.body)
        if kind == NORMAL:
            popped.records.append(found.body)
        else:
            handle = Handle(
                begin, popped.pop_time_ms, asked.invisible_ms, popped.revive_queue_id, kind, log.broker_name, queue_id
            )
            popped.records += _as_sent(found.body, asked.topic, handle)

    def _give_in_order(
        self, asked: PopRequest, popped: PopResult, place: OrderedPlace, begin: int, found: ReadResult
    ) -> None:
        """Note which messages are out, and add them to the answer: the group's offset goes on with their acks."""
        topic, group, queue_id = place
        offsets = tuple(queue_offsets_in(found.body))
        if not self._ordered.has_room(place):
            self.over_checkpoints += 1
            return
        batch = self._ordered.give(place, offsets, popped.pop_time_ms, asked.invisible_ms, asked.attempt_id)
        self._stats.pulled_to(topic, group, queue_id, found.next_offset)
        fewest = min((batch.counts.get(offset, 0) for offset in offsets), default=0)
        popped.order_counts.append(format_order_counts(NORMAL, queue_id, batch.counts, fewest))
        popped.queues.append(PoppedQueue(NORMAL, queue_id, begin, offsets))
        popped.records.append(found.body)
        popped.count += len(offsets)
        popped.size += len(found.body)

    def _begin(self, asked: PopRequest, topic: str, kind: str, queue_id: int) -> int:
        """Return where the group goes on in a queue, decided now when it never was there."""
        if self._offsets.resets:
            self._offsets.take_reset(asked.group, topic, queue_id)  # the broker itself keeps where pops are
        committed = self._offsets.query(asked.group, topic, queue_id)
        if committed != UNKNOWN:
            return committed
        if kind != NORMAL or asked.init_mode == INIT_MIN:
            begin = self._store.min_offset(topic, queue_id)
        elif is_in_memory(self._store, topic, queue_id):
            begin = 0
        else:
            begin = max(0, self._store.max_offset(topic, queue_id) - 1)
        self._commit(asked.group, topic, queue_id, begin)
        return begin

    def _go_on(self, place: OrderedPlace, next_offset: int) -> None:
        """Let a group go on behind what was read, as its consume stats (208) say, too."""
        topic, group, queue_id = place
        self._commit(group, topic, queue_id, next_offset)
        self._stats.pulled_to(topic, group, queue_id, next_offset)

    def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        end = self._store.max_offset(topic, queue_id)
        self._offsets.commit(group, topic, queue_id, offset, offset_max=end)


def _sources(topic: str, group: str) -> list[tuple[str, str]]:
    """Return the topics that a pop reads, with what handles say of each: the retries of both forms come last."""
    return [(pop_retry_topic(topic, group, kind), kind) for kind in (NORMAL, RETRY_V1, RETRY_V2)]


def _as_sent(body: bytes, topic: str, handle: Handle) -> Iterator[bytes]:
    """Yield messages from a retry topic as their consumer gets them: under the topic that they were sent to, each with
    its handle. One that has no room for its handle stays as it is: clients find out by its topic.
    """
    start = 0
    for record in iter_records(body, check_crc=False):
        try:
            yield _renamed(record, topic, format_handle(handle._replace(queue_offset=record.queue_offset)))
        except InvalidArgument:
            yield body[start : start + record.size]
        start += record.size


def _renamed(record: Record, topic: str, handle: str) -> bytes:
    properties = bytes(record.properties)
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    renamed = properties + f"{PropertyName.POP_CK}\x01{handle}\x02".encode()
    return encode_record(record._replace(topic=topic, properties=renamed))


def _has_priorities(config: TopicConfig | None) -> bool:
    """Return True if groups get a topic's messages by their priority. Source: Java PopMessageProcessor of 5.5.0."""
    return config is not None and config.attributes.get(MESSAGE_TYPE) == PRIORITY
