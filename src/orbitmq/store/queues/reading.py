"""Reading a consume queue: messages from an offset on, and the offset that belongs to a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise

from orbitmq.store.log.clock_jumps import ClockJumps, is_future
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queue import BLANK_SIZE, ConsumeQueue, Entry
from orbitmq.store.values import Boundary, PropertyTest, ReadResult, ReadStatus
from orbitmq.wire.messages.record import Record, parse_record, properties_at, properties_in

_SCAN_COUNT_MAX = 16_384
"""Entries that one read looks at before it lets others have the loop."""
WORK_MAX = 4_096
"""Looks at properties that one read takes for its test: some milliseconds."""
_CHUNK_COUNT = 64
"""Entries that are read in one pass for a test."""
_LOOK_SIZE = 256
"""Bytes of properties that cost as much as one look more."""
BULK_COUNT_MAX = 1024
"""Messages of a read that takes its entries in one pass."""


def read_messages(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    queue_offset: int,
    count_max: int,
    size_max: int,
    tag_codes: frozenset[int] | None,
) -> ReadResult:
    """Read whole records from `queue_offset` on.

    Args:
        count_max: messages.
        size_max: bytes; the first message is read however large it is.
        tag_codes: only messages with one of these codes; None: all. Codes may collide: the reader compares the tags.
    """
    physical_min = commit_log.min_offset
    first, last = queue.min_offset(physical_min), queue.max_offset
    refused = _refuse(queue_offset, first, last)
    if refused is not None:
        return refused
    if tag_codes is None and 0 < count_max <= BULK_COUNT_MAX:
        # Unfiltered reads of consecutive records, most pulls, are one slice of the mapped segment.
        found = _read_bulk(commit_log, queue, queue_offset, count_max, size_max)
        if found is not None:
            body, count = found
            return ReadResult(ReadStatus.FOUND, queue_offset + count, first, last, body, count)
    # Records that lie back to back become one run, so that the answer is joined from few slices.
    runs: list[tuple[int, int]] = []
    segment_size = commit_log.log.segment_size
    run_start = run_end = -1
    count = size_sum = 0
    next_offset = queue_offset
    # A filter may reject everything: a limit of entries, as Java's, keeps one pull from walking the whole queue.
    scan_max = _SCAN_COUNT_MAX if tag_codes is not None else min(count_max, _SCAN_COUNT_MAX)
    for (physical_offset, size, tag_code), is_gap in _with_gaps(queue.entries(queue_offset, scan_max + 1), scan_max):
        is_there = physical_offset >= physical_min and size != BLANK_SIZE and not is_gap
        if is_there and (tag_codes is None or tag_code in tag_codes):
            if count and (count >= count_max or size_sum + size > size_max):
                break
            count += 1
            size_sum += size
            # A run ends with its segment: the next byte is in another mapping.
            if physical_offset == run_end and physical_offset % segment_size:
                run_end += size
            else:
                if run_end >= 0:
                    runs.append((run_start, run_end))
                run_start, run_end = physical_offset, physical_offset + size
        next_offset += 1
    if not count:
        return ReadResult(ReadStatus.NO_MATCHED_MESSAGE, next_offset, first, last)
    runs.append((run_start, run_end))
    return ReadResult(ReadStatus.FOUND, next_offset, first, last, commit_log.join(runs), count)


def read_message(commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> Record | None:
    """Return the message at a queue offset, None when it is not there; no checksums."""
    physical_min = commit_log.min_offset
    if not queue.min_offset(physical_min) <= queue_offset < queue.max_offset:
        return None
    for (physical_offset, size, _), is_gap in _with_gaps(queue.entries(queue_offset, 2), 1):
        if physical_offset >= physical_min and size != BLANK_SIZE and not is_gap:
            record = parse_record(commit_log.read(physical_offset, size), check_crc=False)
            return record if isinstance(record, Record) else None
    return None


def _with_gaps(entries: Iterator[Entry], count_max: int) -> Iterator[tuple[Entry, bool]]:
    """Yield entries, and whether each stands for a missing message: it leads to the next one, as the entry behind it does.

    Args:
        entries: one more than `count_max`, where there are as many.
    """
    entry = next(entries, None)
    for _ in range(count_max):
        if entry is None:
            return
        behind = next(entries, None)
        yield entry, behind is not None and behind[0] == entry[0]
        entry = behind


def _read_bulk(
    commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int, count_max: int, size_max: int
) -> tuple[bytes, int] | None:
    """Return the records of the next entries and their number where nothing has to be left out, None where it may have to.

    It says what the loop over the entries says, in half its time: docs/adr/0011-entries-at-once.md.
    """
    columns = queue.columns(queue_offset, count_max + 1)
    if columns is None:
        return None
    offsets, sizes = columns
    if len(set(offsets)) != len(offsets):  # a message is missing
        return None
    offsets, sizes = offsets[:count_max], sizes[:count_max]
    size = sum(sizes)
    if size > size_max:
        ends = list(accumulate(sizes))
        count = max(1, bisect_right(ends, size_max))
        offsets, sizes, size = offsets[:count], sizes[:count], ends[count - 1]
    body = commit_log.gather(offsets, sizes)
    # A blank's size, or a record of another segment or of none, makes it shorter.
    return (body, len(sizes)) if len(body) == size else None


def read_matching(
    commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int, count_max: int, size_max: int, test: PropertyTest
) -> tuple[ReadResult, int]:
    """Read whole records from `queue_offset` on whose properties pass a test; return them and how many looks that took.

    It ends after `WORK_MAX` looks at properties, found or not: the reader goes on at `next_offset`.

    Args: as `read_messages`.
    """
    physical_min = commit_log.min_offset
    first, last = queue.min_offset(physical_min), queue.max_offset
    refused = _refuse(queue_offset, first, last)
    if refused is not None:
        return refused, 0
    matches, cost, tag_codes, _ = test
    found: list[tuple[int, int]] = []
    size_sum, work, next_offset = 0, 0, queue_offset
    base = segment_end = 0
    scan_end = queue_offset + WORK_MAX
    while next_offset < scan_end:
        chunk_count = min(_chunk_count(next_offset - queue_offset, len(found), count_max), scan_end - next_offset)
        if tag_codes is None and work + cost * chunk_count < WORK_MAX:
            room = chunk_count, count_max - len(found), size_max - size_sum
            asked, matched = _match_bulk(commit_log, queue, next_offset, test, *room)
            found += matched
            size_sum += sum([end - start for start, end in matched])
            work += cost * asked
            next_offset += asked
            if asked and len(found) >= count_max:
                break
            if asked:
                continue
        entries = list(_with_gaps(queue.entries(next_offset, chunk_count + 1), chunk_count))
        if not entries:
            break
        segment_end = 0  # reading the entries may have closed the file
        for (physical_offset, size, tag_code), is_gap in entries:
            if work >= WORK_MAX or (found and (len(found) >= count_max or size_sum + size > size_max)):
                break
            next_offset += 1
            is_there = physical_offset >= physical_min and size != BLANK_SIZE and not is_gap
            if not is_there or (tag_codes is not None and tag_code not in tag_codes):
                continue
            if not base <= physical_offset < segment_end:
                base, segment_end, buffer = commit_log.look(physical_offset)
            properties = properties_at(buffer, physical_offset - base, size)
            work += cost * (1 + len(properties) // _LOOK_SIZE)
            if matches(properties):
                found.append((physical_offset, physical_offset + size))
                size_sum += size
        else:
            continue
        break
    if not found:
        return ReadResult(ReadStatus.NO_MATCHED_MESSAGE, next_offset, first, last), work
    return ReadResult(ReadStatus.FOUND, next_offset, first, last, commit_log.join(found), len(found)), work


def _chunk_count(passed: int, found: int, wanted: int) -> int:
    """Return how many entries are read next: as many as hold what is still wanted, if they match as often as those before."""
    if not found:
        return _CHUNK_COUNT
    return min(max(passed * (wanted - found) // found, _CHUNK_COUNT // 4), 4 * _CHUNK_COUNT)


def _match_bulk(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    queue_offset: int,
    test: PropertyTest,
    count: int,
    room: int,
    size_max: int,
) -> tuple[int, list[tuple[int, int]]]:
    """Ask the next messages; return how many were asked, and where those lie that match.

    It asks none where the loop over the entries has to decide, which says the same in a third more time.

    Args:
        count: how many are asked at most.
        room: so many may match: it ends with the last.
        size_max: bytes that there is room for.
    """
    # One entry more than asked: it shows whether the last one is repeated.
    columns = queue.columns(queue_offset, count + 1) if room > 0 and queue_offset < queue.max_offset else None
    if columns is None:
        return 0, []
    offsets, sizes = columns
    if len(set(offsets)) != len(offsets):
        return 0, []
    offsets, sizes = offsets[:count], sizes[:count]
    lowest = min(offsets)
    if sum(sizes) > size_max or lowest < commit_log.min_offset:
        return 0, []
    # All records have to lie in one segment, whose buffer the bulk functions index directly.
    base, segment_end, buffer = commit_log.look(lowest)
    found = properties_in(buffer, base, offsets, sizes) if max(offsets) < segment_end else None
    if found is None or max(map(len, found)) >= _LOOK_SIZE:
        return 0, []
    matched: list[tuple[int, int]] = []
    matches = test.matches
    # A prefilter, where the expression has one, passes over most messages in C.
    for index in range(len(found)) if test.passing is None else test.passing(found):
        if matches(found[index]):
            start = offsets[index]
            matched.append((start, start + sizes[index]))
            if len(matched) >= room:
                return index + 1, matched
    return len(found), matched


def offset_at(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    timestamp_ms: int,
    boundary: Boundary,
    jumps: ClockJumps,
    now_ms: int,
) -> int:
    """Return the queue offset that belongs to a store time.

    Messages of the future count as stored when the clock was set right.

    Args:
        jumps: where store times go back.

    Returns:
        LOWER: the first message stored then or later, the queue's end when all are earlier. UPPER: the last message
        stored then or earlier, the queue's start when all are later.

    Source: Java ConsumeQueue.getOffsetInQueueByTime.
    """
    first = queue.min_offset(commit_log.min_offset)
    is_lower = boundary is Boundary.LOWER
    runs = _runs(queue, first, jumps)
    for start, stop in runs if is_lower else reversed(runs):
        if start == stop:
            continue
        # The part of a run that is of the future is its end: within a run store times never go back.
        last_place = queue.entry(stop - 1)[0]
        future = stop
        if is_future(commit_log.stored_at_ms(last_place), now_ms):
            future = queue.search(lambda entry: not is_future(commit_log.stored_at_ms(entry[0]), now_ms), start, stop)
        counted_ms = jumps.counted_ms(last_place, commit_log.stored_at_ms(last_place), now_ms)
        if is_lower:
            found = queue.search(lambda entry: commit_log.stored_at_ms(entry[0]) < timestamp_ms, start, future)
            if found < future or (future < stop and timestamp_ms <= counted_ms):
                return found
        elif future < stop and counted_ms <= timestamp_ms:
            return stop - 1
        else:
            found = queue.search(lambda entry: commit_log.stored_at_ms(entry[0]) <= timestamp_ms, start, future)
            if found > start:
                return found - 1
    return queue.max_offset if is_lower else first


def _runs(queue: ConsumeQueue, first: int, jumps: ClockJumps) -> list[tuple[int, int]]:
    """Return the parts of a queue, from an offset to another, in which store times never go back."""
    ends = [queue.search(lambda entry: entry[0] < jump.position, first) for jump in jumps]  # noqa: B023 - called here
    bounds = [first, *ends, queue.max_offset]
    return list(pairwise(bounds))


def _refuse(queue_offset: int, first: int, last: int) -> ReadResult | None:
    """Say where to read instead when nothing can be read at `queue_offset` (Java: DefaultMessageStore.getMessage)."""
    if last == 0:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, first, last)
    if queue_offset < first:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, first, first, last)
    if queue_offset == last:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset, first, last)
    if queue_offset > last:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, last, first, last)
    return None
