"""Planning: no message is left out, none is read twice, limits hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.spark.reading.checkpoint import StreamPosition, format_position, parse_position
from orbitmq.spark.reading.planning import (
    TASK_COUNT,
    Range,
    TriggerGate,
    advance,
    backlog,
    count_of_size,
    limit,
    pack,
    ranges_between,
    split,
)

queues = st.builds(MessageQueue, st.sampled_from(["orders", "bills"]), st.sampled_from(["a", "b"]), st.integers(0, 3))
offsets = st.dictionaries(queues, st.integers(0, 1000), max_size=8)


def queue(queue_id: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "a", queue_id)


@given(offsets, offsets, st.integers(1, 500))
def test_a_limit_is_used_up_and_never_passed(begins, backlogs, count_max):
    ends = {queue: begins.get(queue, 0) + count for queue, count in backlogs.items()}

    cut = limit(begins, ends, count_max)

    taken = {queue: cut[queue] - begins.get(queue, 0) for queue in ends}
    assert cut.keys() == ends.keys()
    assert all(0 <= taken[queue] <= backlogs[queue] for queue in ends)
    assert sum(taken.values()) == min(count_max, sum(backlogs.values()))


def test_a_short_queue_does_not_starve_behind_a_long_one():
    cut = limit({}, {queue(0): 1_000_000, queue(1): 1}, 10)

    assert cut == {queue(0): 9, queue(1): 1}


def test_a_limit_of_one_message_for_each_queue_gives_each_its_message():
    assert limit({}, {queue(0): 100, queue(1): 1, queue(2): 1}, 3) == {queue(0): 1, queue(1): 1, queue(2): 1}
    assert limit({}, {queue(0): 100, queue(1): 1, queue(2): 1}, 2) == {queue(0): 1, queue(1): 1, queue(2): 0}


@given(
    st.integers(1, 12),
    st.lists(
        st.tuples(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 11), st.integers(1, 30)), max_size=12)),
        max_size=60,
    ),
)
def test_a_queue_with_a_backlog_advances_before_a_limit_has_let_through_one_message_for_each_queue(
    queue_count, batches
):
    position = StreamPosition({queue(number): number for number in range(queue_count)})
    latest = dict(position.offsets)
    let_through = dict.fromkeys(latest, 0)  # messages that limits let through while the queue waited
    for count_max, refills in batches:
        for number, count in refills:
            latest[queue(number % queue_count)] += count
        end = advance(position, latest, {}, count_max)
        for found in latest:
            waits = position.offsets[found] < latest[found] and end.offsets[found] == position.offsets[found]
            let_through[found] = let_through[found] + count_max if waits else 0
            assert let_through[found] < queue_count
        position = end


def test_a_short_queue_is_read_though_the_others_are_filled_again_and_the_limit_is_one_message():
    position = StreamPosition(dict.fromkeys(map(queue, range(4)), 0))
    latest = {queue(0): 1000, queue(1): 1, queue(2): 1000, queue(3): 1000}
    for _ in range(4):
        position = advance(position, latest, {}, 1)
        latest = {found: end + (found != queue(1)) for found, end in latest.items()}
    assert position.offsets[queue(1)] == 1


def test_a_limited_stream_reads_every_message_once():
    latest = {queue(0): 25, queue(1): 0, queue(2): 7}
    position = StreamPosition(dict.fromkeys(latest, 0), dict.fromkeys(latest, 0))
    read: list[tuple[MessageQueue, int]] = []
    batches = 0
    while (end := advance(position, latest, {}, 10)) is not position:
        read += [(r.queue, offset) for r in ranges_between(position, end) for offset in range(r.begin, r.end)]
        position, batches = end, batches + 1

    assert sorted(read) == [(queue(0), n) for n in range(25)] + [(queue(2), n) for n in range(7)]
    assert batches == 4


def test_without_news_the_position_stays_the_same():
    start = StreamPosition({queue(0): 5}, {queue(0): 3})

    assert advance(start, {queue(0): 5}, {}) is start


def test_a_queue_that_cannot_be_asked_stays_where_it_is():
    end = advance(StreamPosition({queue(0): 5, queue(1): 6}), {queue(0): 9}, {})

    assert end.offsets == {queue(0): 9, queue(1): 6}


def test_a_new_queue_is_read_from_its_first_offset_also_after_a_restart():
    start = StreamPosition({queue(0): 5})
    end = advance(start, {queue(0): 5, queue(1): 40}, {queue(1): 30})

    assert ranges_between(start, parse_position(format_position(end))) == [Range(queue(1), 30, 40)]
    assert ranges_between(end, advance(end, {queue(0): 5, queue(1): 41}, {})) == [Range(queue(1), 40, 41)]


def test_a_restart_before_the_first_commit_replays_the_batch_that_was_logged():
    initial = StreamPosition({queue(0): 100}, {queue(0): 100})
    logged = advance(initial, {queue(0): 120}, {})
    asked_again = StreamPosition({queue(0): 150}, {queue(0): 150})

    assert ranges_between(asked_again, parse_position(format_position(logged))) == [Range(queue(0), 100, 120)]


def test_a_queue_that_was_recreated_is_read_from_its_new_beginning():
    start = StreamPosition({queue(0): 100})
    end = advance(start, {queue(0): 20}, {queue(0): 0})

    assert ranges_between(start, end) == [Range(queue(0), 0, 20)]
    assert end.offsets == {queue(0): 20}


def test_an_end_before_the_start_reads_nothing_and_does_not_go_back():
    start = StreamPosition({queue(0): 100})

    assert advance(start, {queue(0): 20}, {}) is start


def test_a_position_with_a_queue_of_unknown_beginning_is_refused():
    with pytest.raises(InvalidArgument, match="a start for every queue"):
        ranges_between(StreamPosition({}), StreamPosition({queue(0): 5}))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.none() | st.integers(1, 40))
def test_a_split_loses_and_repeats_nothing(counts, partition_count_min):
    whole = [Range(queue(index), 7, 7 + count) for index, count in enumerate(counts)]

    parts = split(whole, partition_count_min)

    assert len(parts) == max(len(whole), min(partition_count_min or 0, sum(counts)))
    assert all(part.count for part in parts)
    for found in whole:
        of_queue = [part for part in parts if part.queue == found.queue]
        assert [n for part in of_queue for n in range(part.begin, part.end)] == list(range(found.begin, found.end))


def test_the_longest_queue_is_split_first():
    parts = split([Range(queue(0), 0, 10), Range(queue(1), 0, 90)], 4)

    assert [(part.queue.queue_id, part.count) for part in parts] == [(0, 10), (1, 30), (1, 30), (1, 30)]


def test_no_task_has_more_messages_than_it_may():
    ranges = [Range(queue(0), 0, 10), Range(queue(1), 5, 8)]

    assert [(part.begin, part.end) for part in split(ranges, None, 4)] == [(0, 3), (3, 6), (6, 10), (5, 8)]
    assert len(split(ranges, 9, 4)) == 9
    assert split(ranges, None, 10) == ranges


def test_a_small_batch_waits_for_more_messages_but_not_for_ever():
    gate = TriggerGate(10, 60)

    assert gate.opens(1, 1000), "the first batch of a query does not wait"
    assert not gate.opens(9, 1059.9)
    assert gate.opens(9, 1060)
    assert gate.opens(10, 1061)
    assert not gate.opens(9, 1120.9)
    assert TriggerGate(None, 60).opens(1, 0)


def test_a_backlog_is_what_is_behind_a_position():
    begins, ends = {queue(0): 5, queue(1): 5, queue(2): 9}, {queue(0): 8, queue(1): 5, queue(2): 8, queue(3): 7}

    assert backlog(begins, ends) == {queue(0): 3}


@each_case(
    ({0: 100.0, 1: 300.0}, 2000, 10),
    ({0: 100.0, 1: 300.0}, 2199, 10),
    ({0: 100.0}, 1000, 10),
    ({}, 10, 30),
    ({0: 100.0, 1: 100.0}, 10_000_000, 30),
    ({0: 100.0, 1: 100.0}, 5, 1),
)
def test_bytes_become_messages_by_their_mean_size(sizes, size_max, count):
    counts = {queue(0): 15, queue(1): 15}

    assert count_of_size(counts, {queue(n): size for n, size in sizes.items()}, size_max) == count


@given(
    st.lists(st.integers(1, 50_000), max_size=300), st.none() | st.integers(1, 200), st.none() | st.integers(1, 5000)
)
def test_short_ranges_share_tasks_and_none_is_lost(counts, partition_count_min, record_count_max):
    parts = [Range(queue(number), 0, count) for number, count in enumerate(counts)]
    tasks = pack(parts, partition_count_min, record_count_max)

    assert sorted(part.queue for task in tasks for part in task) == [part.queue for part in parts]
    assert len(tasks) >= min(len(parts), max(TASK_COUNT, partition_count_min or 0))
    for task in tasks:
        assert len(task) == 1 or record_count_max is None or sum(part.count for part in task) <= record_count_max


def test_two_thousand_short_queues_are_some_tasks_and_a_long_one_has_its_own():
    short = [Range(queue(number), 0, 3) for number in range(2000)]
    assert len(pack(short, None)) == TASK_COUNT
    tasks = pack([*short[:700], Range(queue(2000), 0, 1_000_000), *short[700:]], None)
    assert min(len(task) for task in tasks) == 1
    assert len(tasks) == TASK_COUNT
    assert [len(task) for task in pack(short[:TASK_COUNT], None)] == [1] * TASK_COUNT
