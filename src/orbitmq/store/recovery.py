"""Recovery: find the end of the CommitLog and bring the consume queues in line with it.

Everything before the checkpoint's place in the log is on the disk; what came later may be there, or not, or in
parts. So the log is read again from a record before that place, found through the consume queues: record after
record, until bytes come that are not a whole record. There the log ends, and nothing else ends it: a record that fits into
no queue is passed over, a queue that does not fit the log is rebuilt from it. What lies behind the end is moved
aside before it is cut.

After a clean stop the same walk starts behind the last record that any consume queue knows.

Source: docs/explain/durability.md.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from orbitmq.errors import CorruptRecord, InvalidArgument, StoreError
from orbitmq.model.topic import LMQ_PREFIX
from orbitmq.store.dispatch import dispatched_of, is_queued
from orbitmq.store.lmq import LMQ_QUEUE_ID, lmq_forms, lmq_offsets
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.scanning import scan
from orbitmq.store.log.start_offset import LogStartOffset
from orbitmq.store.quarantine import REPLACED, Quarantine, SetAside
from orbitmq.store.queues.consume_queue import BLANK_SIZE, ConsumeQueue, Entry
from orbitmq.store.queues.consume_queues import ConsumeQueues, QueueKey
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.queues.rebuild import Rebuild, RebuildMark
from orbitmq.store.queues.validation import Shares, has_hole, is_rising
from orbitmq.store.sync.checkpoint import StoreCheckpoint
from orbitmq.store.sync.entry_sync import sync_entries
from orbitmq.store.values import Dispatched
from orbitmq.wire.messages.record import Blank, Record

log = logging.getLogger(__name__)

_WARNINGS_MAX = 10


class LogEnd(Enum):
    """What the place where the log ends means."""

    WHOLE = "whole"
    """Nothing is missing that was known to be on the disk."""
    LOST = "lost"
    """Bytes are missing that were."""
    ACCEPTED = "accepted"
    """They are, and `acceptLogEnd` names this very end."""


def classify_end(end: int, durable: int, accepted_end: int | None) -> LogEnd:
    """Judge where the log ends, all in bytes. Pure.

    Args:
        durable: so much is known to have been on the disk.
        accepted_end: the end that will do although more was; it holds for this end alone.
    """
    if end >= durable:
        return LogEnd.WHOLE
    return LogEnd.ACCEPTED if end == accepted_end else LogEnd.LOST


class Recovered(NamedTuple):
    """What recovery found."""

    start: int
    """Where it began to read, in bytes of the log."""
    end: int
    """Where the log ends: the next record goes here."""
    record_count: int
    """Records read again."""
    stored_at_ms: int
    """When the last of them was stored, 0 without one."""


@dataclass(slots=True)
class RecoveryReport:
    """What recovery met that a good store does not have: for health and metrics."""

    set_aside: list[SetAside] = field(default_factory=list)
    """Cut off the log, and moved into the quarantine."""
    unplaced_count: int = 0
    """Whole records that no consume queue leads to: their topic, queue or queue offset is none that a broker gives."""
    rebuilt: list[QueueKey] = field(default_factory=list)
    """Consume queues that did not fit the log, and were rebuilt from it."""
    lost_size: int = 0
    """Bytes that were on the disk once and are not in the log any more; the start was told to go on without them."""
    missing_size: int = 0
    """Bytes behind the log's end that consume queues still led to: the log had them when its process ended."""
    lost_head_size: int = 0
    """Bytes at the log's start whose files were removed, and not by the broker."""

    @property
    def cut_size(self) -> int:
        """Bytes cut off the log."""
        return sum(taken.length for taken in self.set_aside)

    def count_unplaced(self, record: Record | Dispatched, why: str) -> None:
        """Take note of a record that is in no queue."""
        self.unplaced_count += 1
        if self.unplaced_count <= _WARNINGS_MAX:
            log.warning("the record at %d is in no queue: %s", record.physical_offset, why)


class Recovery:
    """The recovery of a store whose files have been loaded.

    Args:
        deletions: says which records are of deleted topics: no queue leads to them any more.
        start_offset: says where the log began when the broker last looked.
        ends: where the queues ended when the store was last closed.
        accepted_end: where the log may end although more of it was on the disk once.
        cut_at: where it ends although it goes on; None: nowhere.
        lower_checkpoint: called before anything is changed with a place in the log and the store time of the record
            there: entries of messages from there on are about to be written again, and the checkpoint must not
            cover them until that is synced. The power may go again now. And with how much of the log (bytes) it
            may go on to cover; None: as before.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        *,
        quarantine: Quarantine,
        mark: RebuildMark,
        deletions: Deletions,
        start_offset: LogStartOffset,
        ends: QueueEnds,
        accepted_end: int | None,
        cut_at: int | None,
        lower_checkpoint: Callable[[int, int, int | None], None],
    ) -> None:
        self.recovery_report = RecoveryReport()
        self._commit_log = commit_log
        self._queues = queues
        self._quarantine = quarantine
        self._mark = mark
        self._deletions = deletions
        self._start_offset = start_offset
        self._ends = ends
        self._accepted_end = accepted_end
        self._cut_at = cut_at
        self._lower_checkpoint = lower_checkpoint
        self._marked: dict[QueueKey, int] = {}
        self._unverified: set[QueueKey] = set()
        self._astray: set[QueueKey] = set()

    def run(self, checkpoint: StoreCheckpoint | None, durable: int, damaged: Collection[QueueKey] = ()) -> Recovered:
        """Recover.

        Args:
            checkpoint: says which messages are on the disk with their entries; None: all are, the store was closed in order.
            durable: so many bytes of the log are on the disk, says the checkpoint.
            damaged: queues whose files could not even be loaded.

        Raises:
            StoreError: the log ends before `durable`, and that was not accepted; no record begins at `cut_at`; or there
                are bytes to be cut, and no room to move them aside. Nothing was cut.
        """
        commit_log = self._commit_log
        log_end = commit_log.log.end
        commit_log.end = commit_log.log.written_end()  # so far, every byte may be a record
        cut_at = self._cut_at if self._cut_at is not None and self._cut_at < commit_log.end else None
        if cut_at is not None:
            commit_log.end, durable = cut_at, min(durable, cut_at)
        if log_end < durable and not self._may_end_in_last_file():
            raise _missing_end(commit_log, log_end, durable, "files are missing")
        self._check_start_offset()
        self._marked = self._mark.read()
        self._unverified |= self._marked.keys() | set(damaged)
        self._finish_deletions()
        self._unverified |= {
            (queue.topic, queue.queue_id) for queue in self._queues if queue.lacks_start(commit_log.min_offset)
        }
        # Before the walk: a queue that is gone would begin with the messages that are read again, and look whole.
        self._unverified |= self._shorter_queues(cut_at)
        valid = [queue for queue in self._queues if (queue.topic, queue.queue_id) not in self._unverified]
        shares = Shares.of(len(valid))
        queued_end = max(map(_queued_end, valid), default=0)
        is_clean = checkpoint is None
        covered = commit_log.end if checkpoint is None else checkpoint.covered_end(_first_times_ms(commit_log))
        if not is_clean:
            covered = min([covered, *(queue.last_place() for queue in valid if queue.is_cut_short)])
        start = _find_start(valid, commit_log, covered)
        if not is_clean:
            self._lower_checkpoint(start, commit_log.stored_at_ms(start) if start < commit_log.end else 0, None)
        for queue in valid:
            if not _cut_queue(queue, commit_log, start, shares, is_clean=is_clean):
                self._unverified.add((queue.topic, queue.queue_id))
        for queue in self._queues:
            queue.forget_seen()
        recovered, reason = self._replay(start, cut_at)
        self._check_end(recovered.end, durable, reason)
        if cut_at is None:
            self.recovery_report.missing_size = max(0, queued_end - recovered.end)
        else:
            if recovered.end > cut_at:
                raise StoreError(f"the commitlog cannot be cut at {cut_at}: no record begins there. Nothing was cut")
            self._lower_checkpoint(start, commit_log.stored_at_ms(start) if start < cut_at else 0, recovered.end)
        self._unverified |= self._astray | self._shorter_queues(cut_at)
        rebuilt = {key: self._end_without_messages(key) for key in sorted(self._unverified)}
        if rebuilt:
            self._mark.write(rebuilt)
        self._set_aside(recovered.end, reason)
        commit_log.start(recovered.end)
        self._deletions.fit(commit_log.min_offset, recovered.end)
        self._start_offset.note(commit_log.min_offset)
        if not is_clean:
            commit_log.rewrite(start, recovered.end)
        # One byte more: the segment that the next record goes to is synced as well, for its tail was cut off just now.
        commit_log.log.sync(start, recovered.end + 1)
        self._rebuild(rebuilt)
        return recovered

    def _replay(self, start: int, stop: int | None) -> tuple[Recovered, str]:
        """Read the log from `start` to where it ends, or to `stop`, and dispatch what is there; say why it ends."""
        end, count, stored_at_ms = start, 0, 0
        reason = "behind the last record" if stop is None else REPLACED
        try:
            for found in scan(self._commit_log, start, stop):
                if not isinstance(found, Blank):
                    self._place(found)
                    count += 1
                    stored_at_ms = found.stored_at_ms
                end += found.size
        except CorruptRecord as stop:
            reason = stop.reason
        return Recovered(start, end, count, stored_at_ms), reason

    def _place(self, record: Record) -> None:
        """Put a record into its queue, and into the LMQs that it names; one that fits into none ends no log."""
        if "\0" in record.topic:
            # Zeros are what a sector that never reached the disk reads as; no topic has one.
            raise CorruptRecord(record.physical_offset, "its topic was not written to its end")
        self._place_in_queue(record)
        for form in lmq_forms(record):
            self._place_in_queue(form)

    def _place_in_queue(self, record: Record) -> None:
        key = (record.topic, record.queue_id)
        if key in self._unverified or self._deletions.covers(record.topic, record.physical_offset):
            return
        try:
            queue = self._queues.make(*key)
            if not queue.has_begun and record.queue_offset > 0 and is_queued(record.sys_flag):
                # Its first messages are in the log before this, or were cleaned away: only the whole log knows. A queue
                # whose files no sync had reached begins among the records that are read again.
                self._astray.add(key)
            elif not self._queues.replay(dispatched_of(record, self._queues.delay_levels)):
                self._astray.add(key)
            elif record.queue_offset == 0 and is_queued(record.sys_flag):
                # The topic was made again: what came before, out of step, was the deleted one's.
                self._astray.discard(key)
        except InvalidArgument as error:
            self.recovery_report.count_unplaced(record, str(error))

    def _shorter_queues(self, cut_at: int | None) -> set[QueueKey]:
        """Return the queues that have lost entries since the store was closed; those of a log that is cut are to be shorter."""
        return set(self._ends.shorter(self._queues, self._commit_log.min_offset)) if cut_at is None else set()

    def _finish_deletions(self) -> None:
        """Remove the queues of deleted topics that a crash has left; those of topics made again stay."""
        topics = self._deletions.topics
        for queue in self._queues:
            if queue.topic not in topics:
                continue
            place = _first_place(queue)
            if place is None and queue.base_offset:
                # Its first files are gone, and what is left holds nothing: only the log knows where it begins.
                self._unverified.add((queue.topic, queue.queue_id))
            elif place is not None and self._deletions.covers(queue.topic, place):
                queue.discard()

    def _check_start_offset(self) -> None:
        """Log when first files of the log were removed from outside; their messages are gone, no number is reused."""
        first = self._commit_log.min_offset
        missing = self.recovery_report.lost_head_size = self._start_offset.missing_before(first)
        if missing:
            log.warning("the commitlog begins at %d; %d bytes before that were removed from outside", first, missing)

    def _may_end_in_last_file(self) -> bool:
        """Return True if the accepted end lies in the last file that there is: where exactly, the walk will tell."""
        log_of_segments, accepted = self._commit_log.log, self._accepted_end
        if accepted is None:
            return False
        return accepted == log_of_segments.end or log_of_segments.find(accepted) is not None

    def _check_end(self, end: int, durable: int, reason: str) -> None:
        """Refuse a log that has lost what was on the disk, unless exactly this end was accepted."""
        log_end = classify_end(end, durable, self._accepted_end)
        if log_end is LogEnd.LOST:
            raise _missing_end(self._commit_log, end, durable, reason)
        if log_end is LogEnd.ACCEPTED:
            self.recovery_report.lost_size = durable - end
            log.warning("going on without %d bytes of the commitlog behind %d, as accepted", durable - end, end)
            self._lower_checkpoint(0, 0, end)

    def _set_aside(self, end: int, reason: str) -> None:
        """Move what lies behind the log's end into the quarantine, the last segment first: no gap comes to be."""
        log_of_segments = self._commit_log.log
        for segment in reversed(log_of_segments.between(end, log_of_segments.end)):
            if segment.base < end:
                taken = self._quarantine.take_tail(segment, end, reason)
            else:
                taken = self._quarantine.take_segment(segment, reason)
            if taken is not None:
                self.recovery_report.set_aside.append(taken)

    def _end_without_messages(self, key: QueueKey) -> int:
        """Return where a queue goes on if all of its messages were deleted with the log's first files."""
        if not self._commit_log.min_offset:
            return 0
        queue = self._queues.get(*key)
        return max(self._ends.end_of(key), self._marked.get(key, 0), queue.known_end() if queue else 0)

    def _rebuild(self, ends: dict[QueueKey, int]) -> None:
        """Rebuild the unverified queues from the log."""
        if not ends:
            return
        log.warning(
            "%d consume queues do not fit the log and are rebuilt from it, first %s", len(ends), next(iter(ends))
        )
        rebuild = Rebuild(
            self._queues,
            ends,
            lambda message: self.recovery_report.count_unplaced(message, "its queue offset is out of step"),
            sync_entries,
        )
        rebuild.run(self._commit_log, self._deletions)
        self._mark.remove()
        self.recovery_report.rebuilt += ends


def _missing_end(commit_log: CommitLog, end: int, durable: int, reason: str) -> StoreError:
    return StoreError(
        f"{commit_log.log.directory} ends at {end} ({reason}), but {durable - end} bytes behind that were on the disk: the "
        f"checkpoint covers {durable}. Nothing was changed there. Bring back what is missing, or set acceptLogEnd "
        f"to {end} to go on without the messages in those bytes: `orbitmq store salvage` then brings back those that are whole "
        "in quarantine/"
    )


def _first_place(queue: ConsumeQueue) -> int | None:
    """Return where a queue's first message starts, None without one."""
    first = queue.search(lambda entry: entry[1] == BLANK_SIZE)
    return queue.entry(first)[0] if first < queue.max_offset else None


def _queued_end(queue: ConsumeQueue) -> int:
    """Return where the record of a queue's last entry ends in the log, 0 without one."""
    physical_offset, size, _tag_code = queue.entry(queue.max_offset - 1)
    return 0 if size == BLANK_SIZE else physical_offset + size


def _first_times_ms(commit_log: CommitLog) -> Iterator[tuple[int, int]]:
    """Yield where each file begins and when its first message was stored, the last file first."""
    for segment in reversed(commit_log.log.segments):
        yield segment.base, commit_log.stored_at_ms(segment.base)


def _find_start(queues: Iterable[ConsumeQueue], commit_log: CommitLog, covered: int) -> int:
    """Return where the last record before `covered` starts that any queue leads to.

    Records are written in the order of their offsets: where one that is known to be on the disk starts, everything before
    it is on the disk, too.
    """
    # A queue that ends before the place found so far cannot move it: of thousands of queues only a few are searched.
    by_last = sorted(((queue.entry(queue.max_offset - 1)[0], queue) for queue in queues), key=itemgetter(0))
    start = commit_log.min_offset
    for last, queue in reversed(by_last):
        if last <= start:
            break
        start = max(start, _trusted_start(queue, commit_log, covered))
    return start


def _trusted_start(queue: ConsumeQueue, commit_log: CommitLog, covered: int) -> int:
    """Return where the last message of a queue before `covered` that needs no second look starts, the log's start without one."""

    def is_trusted(entry: Entry) -> bool:
        physical_offset, size, _tag_code = entry
        # Entries whose records were cleaned away prove nothing, and stand before all others: bisection passes them.
        if size == BLANK_SIZE or physical_offset < commit_log.min_offset:
            return True
        if physical_offset >= covered:
            return False
        if _number_of(entry, queue, commit_log) >= 0:
            return True
        return commit_log.record_at(physical_offset, check_crc=False) is not None

    last = queue.search(is_trusted) - 1
    physical_offset, size, _tag_code = queue.entry(last)
    return commit_log.min_offset if size == BLANK_SIZE else max(physical_offset, commit_log.min_offset)


def _cut_queue(queue: ConsumeQueue, commit_log: CommitLog, start: int, shares: Shares, *, is_clean: bool) -> bool:
    """Drop the entries of the messages that will be read again, and what a torn sector left behind them.

    Returns:
        False: what the queue says of messages before those is not what the log says.
    """
    if _cut_recent(queue, commit_log, start, shares):
        return True

    def is_before(entry: Entry) -> bool:
        return entry[1] == BLANK_SIZE or (entry[1] > 0 and entry[0] < start)

    end = queue.max_offset
    if not is_before(queue.entry(end - 1)):
        end = queue.search(is_before)
    # A torn sector leaves old bytes or zeros among the last entries: bisection may have ended behind them.
    while end > queue.base_offset and not _is_entry_of(queue, end - 1, commit_log):
        end -= 1
    if has_hole(queue.stored_entries(end, shares.entries), start) or not _is_valid(queue, commit_log, end, shares):
        return False
    if end < queue.max_offset or not is_clean:
        queue.truncate(end)
    return True


def _cut_recent(queue: ConsumeQueue, commit_log: CommitLog, start: int, shares: Shares) -> bool:
    """Do what `_cut_queue` does to a queue that was seen whole and has nothing wrong: most are such, and it takes a third.

    Returns:
        False, and nothing was done: it may be another.
    """
    entries = queue.seen_entries()
    if shares.samples > 1 or not entries or entries[0][0] < commit_log.min_offset or not is_rising(entries):
        return False
    end = bisect_left(entries, (start,))
    for number in {0, end - 1} if end else ():
        if _number_of(entries[number], queue, commit_log) != number:
            return False
    if end < len(entries):
        queue.truncate(end)
    return True


def _is_valid(queue: ConsumeQueue, commit_log: CommitLog, end: int, shares: Shares) -> bool:
    """Compare a queue with the log, in places: its first entry, some in between, and the order of first and last ones."""
    base = queue.base_offset
    if not is_rising(queue.stored_entries(base, min(end - base, shares.entries))):
        return False
    first = queue.min_offset(commit_log.min_offset)
    if first >= end:
        return True
    rest = max(base + shares.entries, end - shares.entries)
    if rest < end and not is_rising(queue.stored_entries(rest, end - rest)):
        return False
    places = {first + (end - first) * number // shares.samples for number in range(shares.samples)}
    return all(_points_back(queue, place, commit_log) for place in places)


def _points_back(queue: ConsumeQueue, queue_offset: int, commit_log: CommitLog) -> bool:
    """Return True if an entry leads to a record of its queue: its own, or where that is missing, a later one."""
    return _number_of(queue.entry(queue_offset), queue, commit_log) >= queue_offset


def _is_entry_of(queue: ConsumeQueue, queue_offset: int, commit_log: CommitLog) -> bool:
    """Return True if an entry leads to the record that it was written for."""
    entry = queue.entry(queue_offset)
    if entry[1] == BLANK_SIZE or entry[0] < commit_log.min_offset:
        return entry[1] != 0
    return _number_of(entry, queue, commit_log) == queue_offset


def _number_of(entry: Entry, queue: ConsumeQueue, commit_log: CommitLog) -> int:
    """Return the queue offset of the record that an entry leads to, -1 when there is none of its size and its queue."""
    physical_offset, size, _tag_code = entry
    number = commit_log.queue_offset_at(
        physical_offset, size, queue.queue_id, queue.topic, (queue.magic, queue.topic_part)
    )
    if number < 0 and queue.topic.startswith(LMQ_PREFIX) and queue.queue_id == LMQ_QUEUE_ID:
        record = commit_log.parsed_at(physical_offset)
        if record is not None and record.size == size and is_queued(record.sys_flag):
            return lmq_offsets(record.topic, record.properties).get(queue.topic, -1)
    return number
