"""The revive topic of a running broker: checkpoints and acks are written to it, and what stands in it is followed.

Every record is on its way to the disk before its request is answered, and the tables in memory only repeat what the topic
says: after a crash they are made again from it. A Java broker's records are followed as well as our own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from orbitmq.broker.groups.offsets import UNKNOWN, GroupOffsets
from orbitmq.broker.pop.checkpoints import Checkpoints, Outstanding
from orbitmq.clock import Clock
from orbitmq.errors import CorruptRecord, HeaderError
from orbitmq.model.message import Host, PropertyName, TimerProperty
from orbitmq.store import AppendResult, Draft, ReadStatus, Store
from orbitmq.wire.messages.properties import find_property, format_properties, tag_code
from orbitmq.wire.messages.record import Record, iter_queue_records
from orbitmq.wire.pop.revive_log import (
    ACK_INTERVAL_MS,
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    REVIVE_GROUP,
    REVIVE_TOPIC_PREFIX,
    Ack,
    CheckpointKey,
    PopCheckpoint,
    ack_id,
    checkpoint_id,
    decode_ack,
    decode_checkpoint,
    encode_ack,
    encode_checkpoint,
)

log = logging.getLogger(__name__)

QUEUE_COUNT = 8
"""Queues of the revive topic (Java: reviveQueueNum)."""
REPLAYED_MAX = 20_000
"""Records of one queue that a start reads, about: checkpoints that lie further back are written again."""
_READ_COUNT, _READ_SIZE = 2_048, 4 * 1024 * 1024
_TAG = PropertyName.TAGS.encode()


class ReviveLog:
    """The revive topic, and the checkpoints that it tells of.

    Args:
        offsets: where it is kept how far the topic has been worked through, and how far groups have popped.
        host: this broker's, for its records.
        clock: the wall clock, in which records speak.
        monotonic: the clock that invisible times are counted on.
    """

    def __init__(
        self,
        store: Store,
        offsets: GroupOffsets,
        *,
        cluster: str,
        broker_name: str,
        host: Host,
        clock: Clock,
        monotonic: Clock,
    ) -> None:
        self.topic = REVIVE_TOPIC_PREFIX + cluster
        self.checkpoints = Checkpoints()
        self.broker_name = broker_name
        self.checkpoint_count = 0
        """Checkpoints that were written, by this run."""
        self.ack_count = 0
        self.unreadable_count = 0
        """Records of the topic that were passed over because they are damaged."""
        self._store = store
        self._offsets = offsets
        self._host = host
        self._clock = clock
        self._monotonic = monotonic
        self._next_queue = 0
        self._followed: dict[int, int] = {}
        self._ahead: dict[int, set[int]] = {}
        """Records of ours that others' lie before which have not been read."""
        self._tag_codes = {tag: tag_code(tag) for tag in (CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG)}
        self._replay()

    def next_queue_id(self) -> int:
        """Return the queue for the checkpoints of a request: all are used in turns."""
        self._next_queue = (self._next_queue + 1) % QUEUE_COUNT
        return self._next_queue

    def add(self, checkpoint: PopCheckpoint, queue_id: int) -> AppendResult:
        """Write a checkpoint, and count the time of its messages from now on.

        Raises:
            StoreUnavailable: nothing was written.
        """
        key = checkpoint.key
        deliver_at_ms = checkpoint.revive_at_ms - ACK_INTERVAL_MS
        result = self._append(
            queue_id, CHECKPOINT_TAG, encode_checkpoint(checkpoint), checkpoint_id(key), deliver_at_ms
        )
        self.checkpoint_count += 1
        due_at_ms = self._monotonic() + checkpoint.invisible_ms
        self.checkpoints.add(checkpoint, queue_id, result.queue_offset, due_at_ms)
        return result

    def acknowledge(self, key: CheckpointKey, offsets: Sequence[int]) -> AppendResult | None:
        """Write that messages are done; None: they are already, or their checkpoint is forgotten.

        Raises:
            StoreUnavailable: nothing was written.
        """
        found = self.checkpoints.find(key)
        if found is None:
            return None
        known = set(found.offsets_left)
        left = tuple([offset for offset in dict.fromkeys(offsets) if offset in known])
        if not left:
            return None
        ack = Ack(key, left)
        tag, body = encode_ack(ack)
        result = self._append(found.revive_queue_id, tag, body, ack_id(ack), found.key.pop_time_ms + found.invisible_ms)
        self.ack_count += 1
        self.checkpoints.acknowledge(key, left)
        return result

    def rewrite_old(self, count_max: int) -> None:
        """Write checkpoints again that lie far back in the topic, so that a start need not begin at them.

        Raises:
            StoreUnavailable: it is to be tried later.
        """
        for queue_id in range(QUEUE_COUNT):
            for _ in range(count_max):
                oldest = self.checkpoints.oldest(queue_id)
                end = self._followed.get(queue_id, 0)
                if oldest is None or end - oldest.revive_offset <= REPLAYED_MAX:
                    break
                self._rewrite(oldest)

    def _rewrite(self, found: Outstanding) -> None:
        checkpoint = found.as_record
        result = self._append(
            found.revive_queue_id,
            CHECKPOINT_TAG,
            encode_checkpoint(checkpoint),
            checkpoint_id(checkpoint.key),
            checkpoint.revive_at_ms - ACK_INTERVAL_MS,
        )
        self.checkpoints.add(checkpoint, found.revive_queue_id, result.queue_offset, found.due_at_ms)

    def follow(self) -> None:
        """Read what others have put into the topic: a Java broker's timer before the last change of brokers."""
        for queue_id in range(QUEUE_COUNT):
            if self._store.max_offset(self.topic, queue_id) > self._followed.get(queue_id, 0):
                self._read_on(queue_id, saved_at_ms=None)

    def commit(self) -> None:
        """Note how far the topic has been worked through: a start reads on from there."""
        for queue_id, end in self._followed.items():
            oldest = self.checkpoints.oldest(queue_id)
            done = (end if oldest is None else oldest.revive_offset) - 1
            if done >= 0 and done != self._offsets.query(REVIVE_GROUP, self.topic, queue_id):
                self._offsets.commit(REVIVE_GROUP, self.topic, queue_id, done, offset_max=end)

    def backlog(self) -> dict[int, int]:
        """Return by queue how many records lie between the first checkpoint that has messages left and the end."""
        return {
            queue_id: 0 if (oldest := self.checkpoints.oldest(queue_id)) is None else end - oldest.revive_offset
            for queue_id, end in self._followed.items()
        }

    def lateness_ms(self) -> dict[int, int]:
        """Return by queue how long ago the time of its first checkpoint was over, whose messages are not revived yet."""
        now_ms = self._monotonic()
        return {
            queue_id: 0 if (oldest := self.checkpoints.oldest(queue_id)) is None else max(0, now_ms - oldest.due_at_ms)
            for queue_id in self._followed
        }

    def _append(self, queue_id: int, tag: str, body: bytes, unique_id: str, deliver_at_ms: int) -> AppendResult:
        properties = format_properties(
            {
                PropertyName.TAGS: tag,
                PropertyName.UNIQ_KEY: unique_id,
                TimerProperty.DELIVER_MS: str(deliver_at_ms),
            }
        )
        now_ms = self._clock()
        result = self._store.append(
            Draft(
                self.topic, queue_id, body, properties, born_at_ms=now_ms, born_host=self._host,
                tag_code=self._tag_codes[tag],
            )
        )  # fmt: skip
        # No offset that follows from this record may be kept before it.
        self._offsets.log_end = result.end
        if result.queue_offset == self._followed.get(queue_id, 0):
            self._followed[queue_id] = result.queue_offset + 1
        else:
            self._ahead.setdefault(queue_id, set()).add(result.queue_offset)
        return result

    def _replay(self) -> None:
        """Make the tables from what an earlier run left; a pop that the file of offsets missed is made good."""
        saved_at_ms = self._offsets.version.timestamp_ms
        for queue_id in range(QUEUE_COUNT):
            done = self._offsets.query(REVIVE_GROUP, self.topic, queue_id)
            self._followed[queue_id] = 0 if done == UNKNOWN else done + 1
            self._read_on(queue_id, saved_at_ms)
        if self.checkpoints.count:
            log.info("%d checkpoints of popped messages are not done yet", self.checkpoints.count)

    def _read_on(self, queue_id: int, saved_at_ms: int | None) -> None:
        """Follow one queue to its end.

        Args:
            saved_at_ms: at a start: when the offsets were saved; pops after that raise them. None: later.
        """
        ahead = self._ahead.get(queue_id, set())
        while True:
            found = self._store.read(self.topic, queue_id, self._followed[queue_id], _READ_COUNT, _READ_SIZE)
            if found.status is not ReadStatus.FOUND:
                if found.status in (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.NO_MATCHED_MESSAGE):
                    # The log was cleaned past it.
                    if found.next_offset > self._followed[queue_id]:
                        self._followed[queue_id] = found.next_offset
                        continue
                elif found.status is ReadStatus.OFFSET_OVERFLOW_BADLY:
                    self._followed[queue_id] = found.max_offset
                return
            for queue_offset, record in iter_queue_records(found.body, self._followed[queue_id]):
                if queue_offset in ahead:
                    ahead.discard(queue_offset)
                elif isinstance(record, CorruptRecord):
                    self.unreadable_count += 1
                    log.error(
                        "record %d of %s queue %d is damaged and passed over: messages that it tells of may come again, or late",
                        queue_offset, self.topic, queue_id, exc_info=record,
                    )  # fmt: skip
                else:
                    self._take(record, saved_at_ms)
                self._followed[queue_id] = queue_offset + 1

    def _take(self, record: Record, saved_at_ms: int | None) -> None:
        tag = (find_property(record.properties, _TAG) or b"").decode(errors="replace")
        try:
            if tag == CHECKPOINT_TAG:
                checkpoint = decode_checkpoint(record.body)
                self.checkpoints.add(checkpoint, record.queue_id, record.queue_offset, self._due_at_ms(checkpoint))
                if saved_at_ms is not None and checkpoint.key.pop_time_ms >= saved_at_ms:
                    self._raise_offset(checkpoint)
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = decode_ack(record.body, self.broker_name)
                self.checkpoints.acknowledge(ack.key, ack.offsets)
        except HeaderError as error:
            log.warning(
                "record %d of %s queue %d is passed over: %s",
                record.queue_offset, self.topic, record.queue_id, error.remark,
            )  # fmt: skip

    def _due_at_ms(self, checkpoint: PopCheckpoint) -> int:
        # The wall clock may have been set since: no message waits longer than it would have from now on.
        left_ms = checkpoint.revive_at_ms - self._clock()
        return self._monotonic() + max(0, min(left_ms, checkpoint.invisible_ms))

    def _raise_offset(self, checkpoint: PopCheckpoint) -> None:
        key, end = checkpoint.key, checkpoint.offsets[-1] + 1 if checkpoint.offsets else 0
        end = min(end, self._store.max_offset(key.topic, key.queue_id))
        if end > max(0, self._offsets.query(key.group, key.topic, key.queue_id)):
            self._offsets.commit(key.group, key.topic, key.queue_id, end, offset_max=end)
