"""The open transactions of one broker: half messages, how they end, and what becomes of those that do not.

State: which half messages of the window have ended, where renewed ones went, and what op messages are still to say.
The window begins with the first half message that is open. In: decisions, the clock. Out: messages in their own topics,
op messages, questions to producers. All of it is in the log as well, in Java's form, so a start finds it again.

Source: Java TransactionalMessageServiceImpl, EndTransactionProcessor.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.half_counts import HalfCounts
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.broker.transactions import messages
from orbitmq.broker.transactions.messages import CommitTarget, Ending
from orbitmq.broker.transactions.ops import OpBatch, OpSpans
from orbitmq.broker.transactions.recovery import TRANS_GROUP, find_window
from orbitmq.broker.transactions.rules import CheckDecision, CheckRules, checked_once_more, renewed_unasked
from orbitmq.codes import ResponseCode
from orbitmq.errors import CorruptRecord, Rejected, StoreUnavailable
from orbitmq.model.message import SysFlag
from orbitmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from orbitmq.store import AppendResult, Draft, Store
from orbitmq.wire.headers import EndTransaction
from orbitmq.wire.messages.properties import is_text, parse_properties
from orbitmq.wire.messages.record import Record

log = logging.getLogger(__name__)

SLICE_COUNT = 32
"""Half messages that a round looks at before others have their turn: some two milliseconds."""
_SLICE_SIZE = 1024 * 1024
_NOTES_MAX = 256
_FRESH_MAX, _FRESH_SIZE_MAX = 32_768, 4_096
"""Half messages that are remembered until they end, and the bytes of one's body."""
_FRESH_SIZE_SUM_MAX = 32 * 1024 * 1024
"""Bytes of all their bodies; what stands around them is some hundred bytes each."""


class Renewed(NamedTuple):
    """A half message that was renewed, and whose producer is to be asked: the record before, and where it is now."""

    half: Record
    properties: dict[str, str]
    place: CommitTarget
    result: AppendResult


ENDS = (SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK)
"""What a producer may decide."""
Ask = Callable[[Renewed], None]


class _Note(NamedTuple):
    """How far both queues were done when the log reached a place; kept once that place is on the disk."""

    log_end: int
    half_done: int
    op_done: int


class _Fresh(NamedTuple):
    """A half message that has just come: what its end needs, and nothing that a look at the log would add."""

    physical_offset: int
    group: str
    place: CommitTarget
    key: bytes
    """Its unique key, which is its only one."""
    half: Draft


class Transactions:
    """Half messages and their ends.

    Args:
        topics: the broker's; the topic of a committed message is made again when it is missing.
        offsets: the broker's; they keep how far both queues are done, as Java's do.
        counts: told what happens, by topic.
        op_size_max: see OpBatch.
    """

    def __init__(
        self,
        store: Store,
        topics: TopicRegistry,
        offsets: GroupOffsets,
        counts: HalfCounts,
        rules: CheckRules,
        *,
        op_size_max: int,
    ) -> None:
        self.rules = rules
        self.counts = counts
        self._store = store
        self._topics = topics
        self._offsets = offsets
        window = find_window(store, offsets)
        self._ended = window.ended
        self._renewals = window.renewals
        self._spans: OpSpans = window.spans
        self._ops = OpBatch(op_size_max)
        for offset in window.unsaid:
            self._ops.add(offset)
        self._fresh: OrderedDict[int, _Fresh] = OrderedDict()  # drops its oldest in O(1): a dict looks for it
        self._fresh_size = 0
        self._notes: deque[_Note] = deque()
        self._noted = (0, 0)
        self._round_at = self._round_end = 0
        self.unreadable_count = 0
        """Looks at half messages that cannot be read."""

    @property
    def half_done(self) -> int:
        """The queue offset of the first half message that may be open."""
        return self._ended.floor

    @property
    def are_ops_waiting(self) -> bool:
        """True while ends are known that no op message tells."""
        return bool(self._ops)

    def keep(self, half: Draft, stored: AppendResult, key: bytes, ending: Ending) -> None:
        """Remember a half message that was just stored: most end soon, and need not be read from the log then.

        Args:
            key: its unique key; it has no other keys.
            ending: what it says of its end.
        """
        if len(half.body) > _FRESH_SIZE_MAX:
            return
        self._fresh_size += len(half.body)
        while self._fresh and (len(self._fresh) >= _FRESH_MAX or self._fresh_size > _FRESH_SIZE_SUM_MAX):
            self._fresh_size -= len(self._fresh.popitem(last=False)[1].half.body)
        queue_offset, physical_offset, _, _ = stored
        self._fresh[queue_offset] = tuple.__new__(_Fresh, (physical_offset, *ending, key, half))

    def end(self, header: EndTransaction, now_ms: int) -> AppendResult:
        """Commit a message or roll it back; return what has to be on the disk for it to last.

        Raises:
            Rejected: 1 or 604, there is no such open transaction of this group.
            StoreUnavailable: the store takes nothing now; the transaction stays open.
            InvalidArgument: the message does not fit the format.
        """
        decision = header.commit_or_rollback
        result = self.end_remembered(
            header.tran_state_table_offset, header.commit_log_offset, header.producer_group, decision, now_ms
        )
        if result is not None:
            return result
        half = self._find(header, now_ms)
        place = messages.place_of(half)
        if place is None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, _NOT_FOUND)
        if decision == SysFlag.TRANSACTION_ROLLBACK:
            return self._roll_back(half.queue_offset, place.topic, now_ms)
        return self._commit(half.queue_offset, messages.final_form(half, place), now_ms)

    def end_remembered(self, offset: int, place: int, group: str, decision: int, now_ms: int) -> AppendResult | None:
        """Do the same for a half message that is remembered, without a look at the log; None: `end` has to find it.

        Args:
            offset: of the half message in its queue.
            place: in the CommitLog.
            decision: one of `ENDS`.
        """
        # A remembered message is open, and is where it was at first: its end and each renewal forget it.
        fresh = self._fresh.get(offset)
        if fresh is None or fresh.physical_offset != place or fresh.group != group:
            return None
        if decision == SysFlag.TRANSACTION_ROLLBACK:
            return self._roll_back(offset, fresh.place.topic, now_ms)
        result = self._commit(offset, messages.final_form_of(fresh.half, fresh.place, place), now_ms)
        _, physical_offset, size, stored_at_ms = result
        self._store.note_key((physical_offset, size, stored_at_ms, fresh.place.topic, fresh.key, b""))
        return result

    def _commit(self, offset: int, final: Draft, now_ms: int) -> AppendResult:
        self._restore_topic(final.topic, final.queue_id, now_ms)
        _, queue_id = self._topics.readable_queue(final.topic, final.queue_id)
        if queue_id != final.queue_id:
            final = final._replace(queue_id=queue_id)
        result = self._store.append(final)
        self._close(offset)
        self.counts.committed(final.topic, now_ms, final.born_at_ms)
        if self._ops.is_full:
            with suppress(StoreUnavailable):  # the message is committed; what is to be said is tried again
                self.write_ops(now_ms)
        return result

    def _roll_back(self, offset: int, topic: str, now_ms: int) -> AppendResult:
        # A rollback leaves no trace but its op message: it is written before the request is answered.
        self._ops.add(offset)
        try:
            written = self.write_ops(now_ms)
        except Exception:
            self._ops.drop_last()
            raise
        self._forget(offset)
        self._ended.add(offset)
        self.counts.rolled_back(topic, now_ms)
        assert written is not None
        return written

    def _forget(self, offset: int) -> None:
        fresh = self._fresh.pop(offset, None)
        if fresh is not None:
            self._fresh_size -= len(fresh.half.body)

    def resume(self, physical_offset: int, now_ms: int) -> AppendResult:
        """Take a discarded message up again.

        Raises:
            Rejected: 1, there is none at this place of the log.
            StoreUnavailable: the store takes nothing now.
        """
        record = self._store.parsed_at(physical_offset)
        place = messages.place_of(record) if record is not None and record.topic == GIVEN_UP_TOPIC else None
        if record is None or place is None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"there is no message of {GIVEN_UP_TOPIC} at {physical_offset}")
        result = self._store.append(messages.resumed_form(record))
        self.counts.prepared(place.topic, now_ms)
        return result

    def write_ops(self, now_ms: int) -> AppendResult | None:
        """Write which half messages have ended since the last time.

        Raises:
            StoreUnavailable: the store takes nothing now; it is tried again with the next call.
        """
        result = None
        while (message := self._ops.next()) is not None:
            body, count, highest = message
            result = self._store.append(messages.op_form(body, now_ms))
            self._ops.written(count)
            self._spans.add(result.queue_offset, highest)
        return result

    def begin_round(self) -> None:
        """Begin to look at what is open now; what comes meanwhile belongs to the next round."""
        self._round_at = self._ended.floor
        self._round_end = self._store.max_offset(HALF_TOPIC, 0)

    def check_some(self, now_ms: int, ask: Ask) -> bool:
        """Look at the next open half messages of this round; False when it is over.

        Args:
            ask: is told each message whose producer is to be asked, once the renewed one can be read.

        Raises:
            StoreUnavailable: the store takes nothing now; the next round tries again.
        """
        asked: list[Renewed] = []
        has_more, size = True, 0
        try:
            for _ in range(SLICE_COUNT):
                self._round_at = self._ended.first_open(self._round_at, self._round_end)
                half = self._next_half() if self._round_at < self._round_end else None
                decision = CheckDecision.STOP if half is None else self._treat(half, now_ms, asked)
                if half is None or decision is CheckDecision.STOP:
                    has_more = False
                    break
                self._round_at += 1
                size += half.size
                if size > _SLICE_SIZE:
                    break
        finally:
            # Also after an error: those renewed before it would otherwise wait a whole round for their question.
            self._ask_when_readable(asked, ask)
        return has_more

    def note_done(self) -> None:
        """Move the window on, and remember how far both queues are done."""
        store, ended = self._store, self._ended
        floor = max(ended.floor, store.min_offset(HALF_TOPIC, 0))
        ended.raise_floor(ended.first_open(floor, max(floor, store.max_offset(HALF_TOPIC, 0))))
        self._spans.release(ended.floor)
        done = (ended.floor, self._spans.done)
        if done != self._noted:
            self._noted = done
            if len(self._notes) >= _NOTES_MAX:
                self._notes.pop()
            self._notes.append(_Note(store.max_physical_offset, *done))

    def keep_durable(self) -> None:
        """Commit how far both queues are done, as far as what that rests on is on the disk."""
        # A power cut may take back a renewed message: were the offset kept that passes over the older one, it would be lost.
        note = None
        while self._notes and self._notes[0].log_end <= self._store.durable_offset:
            note = self._notes.popleft()
        if note is None:
            return
        for topic, offset in ((HALF_TOPIC, note.half_done), (OP_TOPIC, note.op_done)):
            self._offsets.commit(TRANS_GROUP, topic, 0, offset, offset_max=self._store.max_offset(topic, 0))

    def _find(self, header: EndTransaction, now_ms: int) -> Record:
        """Return the half message that a producer decides about, where it is now."""
        offset = header.tran_state_table_offset
        half = self._half_at(offset)
        # Through the queue, not by the place in the log: there a body may hold what looks like a half message.
        if half is None or half.physical_offset != header.commit_log_offset:
            raise Rejected(ResponseCode.SYSTEM_ERROR, self._why_not_found(header))
        if header.producer_group != messages.group_of(half):
            raise Rejected(ResponseCode.SYSTEM_ERROR, _WRONG_GROUP)
        if not header.from_transaction_check and self.rules.is_late(half, now_ms):
            raise Rejected(ResponseCode.ILLEGAL_OPERATION, "the time without checks is over: wait for the check")
        if offset not in self._ended:
            return half
        latest = self._renewals.latest(offset)
        if latest is None or latest in self._ended:
            raise Rejected(ResponseCode.SYSTEM_ERROR, _ENDED)
        renewed = self._half_at(latest)
        if renewed is None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, "the half message is being renewed: wait for the check")
        return renewed

    def _half_at(self, queue_offset: int) -> Record | None:
        if queue_offset < 0:
            return None
        try:
            half = self._store.message_at(HALF_TOPIC, 0, queue_offset)
            if half is not None and half.queue_offset != queue_offset:  # it would be delivered once more
                raise CorruptRecord(half.physical_offset, f"its queue offset is {half.queue_offset}")
            if half is not None and not is_text(half.properties):
                raise CorruptRecord(half.physical_offset, "its properties are no UTF-8")
            return half
        except CorruptRecord as damage:
            self.unreadable_count += 1
            log.error("the half message %d cannot be read: %s", queue_offset, damage)
            return None

    def _why_not_found(self, header: EndTransaction) -> str:
        """Return what Java's broker would say of a decision about no half message."""
        record = self._store.parsed_at(header.commit_log_offset)
        if record is None or record.topic != HALF_TOPIC:
            return _NOT_FOUND
        if header.producer_group != messages.group_of(record):
            return _WRONG_GROUP
        return "The transaction state table offset wrong"

    def _next_half(self) -> Record | None:
        """Return the half message at this round's place; passes over places where none can be read."""
        while self._round_at < self._round_end:
            half = self._half_at(self._round_at)
            if half is not None:
                return half
            lowest = self._store.min_offset(HALF_TOPIC, 0)
            if self._round_at < lowest:  # deleted with its file, undecided
                self._round_at = lowest
            else:
                log.error("there is no half message at %d of its queue: it is passed over", self._round_at)
                self._ended.add(self._round_at)
                self._round_at += 1
            self._round_at = self._ended.first_open(self._round_at, self._round_end)
        return None

    def _treat(self, half: Record, now_ms: int, asked: list[Renewed]) -> CheckDecision:
        """Do with a half message what the rules say."""
        properties = parse_properties(half.properties)
        place = messages.place_of(half)
        decision = CheckDecision.GIVE_UP if place is None else self.rules.decide(half, properties, now_ms)
        if decision is CheckDecision.GIVE_UP:
            self._give_up(half, place, now_ms)
        elif decision in (CheckDecision.CHECK, CheckDecision.RENEW):
            is_asked = decision is CheckDecision.CHECK
            changes = checked_once_more(properties) if is_asked else renewed_unasked(half, properties)
            # As Java: the checked message goes to the end of the queue with a higher count, and its old place is closed by an op message.
            result = self._store.append(messages.renewed_form(half, changes))
            self._renewals.add(half.queue_offset, result.queue_offset)
            self._close(half.queue_offset)
            if is_asked and place is not None:
                asked.append(Renewed(half, {**properties, **changes}, place, result))
        return decision

    def _give_up(self, half: Record, place: CommitTarget | None, now_ms: int) -> None:
        self._topics.create_retry_topic(GIVEN_UP_TOPIC, 1, now_ms)
        result = self._store.append(messages.given_up_form(half))
        self._close(half.queue_offset)
        self.write_ops(now_ms)
        self.counts.given_up(place.topic if place is not None else "", now_ms)
        log.error(
            "a transaction was not decided and is discarded: topic %s, producer group %s, message %s; it is in %s now, "
            "offset %d",
            place and place.topic, messages.group_of(half), parse_properties(half.properties).get("UNIQ_KEY"),
            GIVEN_UP_TOPIC, result.queue_offset,
        )  # fmt: skip

    def _close(self, offset: int) -> None:
        self._forget(offset)
        self._ended.add(offset)
        self._ops.add(offset)

    def _ask_when_readable(self, asked: list[Renewed], ask: Ask) -> None:
        """Ask when the answers can be understood: with SYNC_FLUSH a renewed message is invisible until its sync."""
        if not asked:
            return

        def readable(is_durable: bool | None) -> None:
            if is_durable is not False:
                for renewed in asked:
                    ask(renewed)

        if self._store.wait_durable(asked[-1].result.end, readable):
            readable(True)

    def _restore_topic(self, topic: str, queue_id: int, now_ms: int) -> None:
        """Make the topic of a committed message again; where that is not allowed its messages wait in its queues."""
        if self._topics.get(topic) is None:
            self._topics.restore(topic, queue_id + 1, now_ms)


_NOT_FOUND = "Find prepared transaction message failed"
_WRONG_GROUP = "The producer group wrong"
_ENDED = "the transaction has ended before, or was discarded"
