"""Recovery: find the end of the CommitLog and bring the consume queues in line with it.

Everything that was stored up to the checkpoint's time is on the disk; what came later may be there, or not, or in
parts. So the log is read again from a record of before that time, found through the consume queues: record after
record, until one does not check out. There the log is cut. Each record read is put into its consume queue again; what
the queues say about later ones is dropped.

After a clean stop the same walk starts behind the last record that any consume queue knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.store.dispatch import dispatched_of
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queue import BLANK_SIZE, ConsumeQueue, Entry
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.wire.messages.record import Blank, parse_record

log = logging.getLogger(__name__)


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


def recover(
    commit_log: CommitLog, queues: ConsumeQueues, recovery_ms: int | None, lower_checkpoint: Callable[[int], None]
) -> Recovered:
    """Recover a store whose files have been loaded.

    Args:
        recovery_ms: messages stored up to this time are on the disk; None: all are, the store was closed in order.
        lower_checkpoint: called with a time before anything is changed: entries of messages stored then or later are
            about to be written again, and the checkpoint must not vouch for them until that is synced. The power
            may go again now.
    """
    commit_log.end = commit_log.log.end  # so far, every byte may be a record
    # Records are written in the order of their offsets: where one that is known to be on the disk starts, everything
    # before it is on the disk, too. So the walk begins at the last record that any queue can vouch for.
    starts = [_trusted_start(queue, commit_log, recovery_ms) for queue in queues]
    start = max(starts, default=commit_log.min_offset)
    if recovery_ms is not None:
        lower_checkpoint(commit_log.stored_at_ms(start))
    for queue in queues:
        _cut_queue(queue, commit_log, start, is_clean=recovery_ms is None)
    recovered = _replay(commit_log, queues, start)
    commit_log.start(recovered.end)
    if recovery_ms is not None:
        commit_log.rewrite(start, recovered.end)
    # One byte more: the segment that the next record goes to is synced as well, for its tail was cut off just now.
    commit_log.log.sync(start, recovered.end + 1)
    return recovered


def _trusted_start(queue: ConsumeQueue, commit_log: CommitLog, recovery_ms: int | None) -> int:
    """Return where the last message of a queue that needs no second look starts, the log's beginning without one."""

    def is_trusted(entry: Entry) -> bool:
        physical_offset, size, _tag_code = entry
        # Entries whose records were cleaned away prove nothing, and stand before all others: bisection passes them.
        if size == BLANK_SIZE or physical_offset < commit_log.min_offset:
            return True
        if commit_log.record_at(physical_offset, check_crc=False) is None:
            return False
        return recovery_ms is None or commit_log.stored_at_ms(physical_offset) <= recovery_ms

    last = queue.search(is_trusted) - 1
    physical_offset, size, _tag_code = queue.entry(last)
    return commit_log.min_offset if size == BLANK_SIZE else max(physical_offset, commit_log.min_offset)


def _cut_queue(queue: ConsumeQueue, commit_log: CommitLog, start: int, *, is_clean: bool) -> None:
    """Drop the entries of the messages that will be read again, and what a torn sector left behind them."""
    end = queue.search(lambda entry: entry[1] == BLANK_SIZE or (entry[1] > 0 and entry[0] < start))
    # A torn sector leaves old bytes or zeros among the last entries: bisection may have ended behind them.
    while end > queue.base_offset and not _is_entry_of(queue, end - 1, commit_log):
        end -= 1
    if end < queue.max_offset or not is_clean:
        queue.truncate(end)


def _is_entry_of(queue: ConsumeQueue, queue_offset: int, commit_log: CommitLog) -> bool:
    """Say whether an entry leads to the record that it was written for."""
    physical_offset, size, _tag_code = queue.entry(queue_offset)
    if size == BLANK_SIZE or physical_offset < commit_log.min_offset:
        return size != 0
    encoded = commit_log.record_at(physical_offset, check_crc=False)
    if encoded is None or len(encoded) != size:
        return False
    record = parse_record(encoded, check_crc=False)
    assert not isinstance(record, Blank)
    return (record.topic, record.queue_id, record.queue_offset) == (queue.topic, queue.queue_id, queue_offset)


def _replay(commit_log: CommitLog, queues: ConsumeQueues, start: int) -> Recovered:
    """Read the log from `start` to where it ends, and dispatch what is there."""
    end, count, stored_at_ms = start, 0, 0
    try:
        for found in commit_log.scan(start):
            if not isinstance(found, Blank):
                queues.replay(dispatched_of(found))
                count += 1
                stored_at_ms = found.stored_at_ms
            end += found.size
    except (CorruptRecord, InvalidArgument) as stop:
        # InvalidArgument: a topic or queue id that no broker can have stored; no checksum covers them.
        log.debug("the log ends: %s", stop)
    return Recovered(start, end, count, stored_at_ms)
