from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.ha.master import ConfirmedRange
from orbitmq.ha.replica_acks import ReplicaAckResult, ReplicaAcks, ReplicatedEnd, SlaveCount, SyncMembers


def copies(slave_count: int = 1, gap_max: int = 1_000) -> ReplicaAcks:
    return ReplicaAcks(SlaveCount(slave_count), timeout_ms=3_000, gap_max=gap_max)


def ranges(*ends: int, start: int = -1) -> list[ConfirmedRange]:
    return [ConfirmedRange(start, end) for end in ends]


def wait(
    waiting: ReplicaAcks, end: int, confirmed: list[ConfirmedRange], now_ms: int = 0
) -> tuple[ReplicaAckResult | None, list[ReplicaAckResult]]:
    told: list[ReplicaAckResult] = []
    return waiting.wait(end, confirmed, now_ms, told.append), told


def test_who_waits_is_told_when_a_slave_has_the_place() -> None:
    waiting = copies()
    assert wait(waiting, 10, ranges(9)) == (None, [])
    assert waiting.advance(ranges(9)) == []
    assert len(waiting.advance(ranges(10))) == 1
    assert len(waiting) == 0


def test_no_send_waits_for_what_a_slave_has() -> None:
    assert wait(copies(), 10, ranges(10, 3))[0] is ReplicaAckResult.DONE


def test_without_a_slave_there_is_no_slave_to_wait_for() -> None:
    assert wait(copies(), 10, ranges())[0] is ReplicaAckResult.NO_SLAVE
    assert wait(copies(slave_count=2), 10, ranges(10))[0] is ReplicaAckResult.NO_SLAVE


def test_of_two_wanted_slaves_the_slower_one_counts() -> None:
    waiting = copies(slave_count=2)
    assert wait(waiting, 10, ranges(20, 9))[0] is None
    assert waiting.advance(ranges(20, 9, 3)) == []
    assert len(waiting.advance(ranges(9, 20, 11))) == 1


def test_a_slave_that_is_too_far_behind_is_not_waited_for() -> None:
    assert wait(copies(gap_max=100), 200, ranges(100))[0] is None
    assert wait(copies(gap_max=100), 201, ranges(100))[0] is ReplicaAckResult.NO_SLAVE


def test_a_slave_that_has_just_come_with_nothing_is_waited_for() -> None:
    assert wait(copies(), 10, ranges(0))[0] is None


def test_who_has_waited_too_long_is_told_and_others_wait_on() -> None:
    waiting = copies()
    wait(waiting, 10, ranges(0), now_ms=0)
    wait(waiting, 20, ranges(0), now_ms=1)
    assert waiting.expire(2_999) == []
    assert len(waiting.expire(3_000)) == 1
    assert len(waiting) == 1


def test_at_the_end_all_are_told() -> None:
    waiting = copies()
    wait(waiting, 10, ranges(0))
    wait(waiting, 20, ranges(0))
    assert len(waiting.abandon()) == 2
    assert len(waiting) == 0


def test_a_slave_confirms_nothing_that_was_stored_before_it_came() -> None:
    waiting = copies()
    assert wait(waiting, 10, ranges(10, start=10))[0] is None
    assert wait(waiting, 20, ranges(10, start=10))[0] is None
    assert len(waiting.advance(ranges(20, start=10))) == 1
    assert len(waiting) == 1
    assert len(waiting.advance([*ranges(20, start=10), *ranges(15, start=5)])) == 1


def test_who_waits_for_what_no_slave_confirms_is_told_when_its_time_is_over() -> None:
    waiting = copies()
    wait(waiting, 10, ranges(10, start=10), now_ms=0)
    wait(waiting, 20, ranges(10, start=10), now_ms=1)
    waiting.advance(ranges(15, start=10))
    assert len(waiting.expire(3_000)) == 1
    assert len(waiting.advance(ranges(20, start=10))) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=30))
def test_each_is_told_once_and_in_order(steps: list[tuple[bool, int]]) -> None:
    waiting, told, asked, end, acknowledged = copies(), [], [], 0, 0
    for is_wait, size in steps:
        if is_wait:
            end += size
            if waiting.wait(end, ranges(acknowledged), 0, lambda _: None) is None:
                asked.append(end)
        else:
            acknowledged = min(acknowledged + size, end)
            told += [None] * len(waiting.advance(ranges(acknowledged)))
        assert len(told) == sum(place <= acknowledged for place in asked)
        assert len(waiting) == len(asked) - len(told)


def replicated(slave_count: int = 1, end: int = 100) -> ReplicatedEnd:
    return ReplicatedEnd(end, SlaveCount(slave_count), timeout_ms=3_000, gap_max=1_000)


def test_consumers_read_what_slaves_have() -> None:
    seen = replicated()
    assert seen.advance(130, ranges(100), 0) == 100
    assert seen.advance(130, ranges(120), 10) == 120
    assert seen.is_waiting
    assert seen.advance(130, ranges(130), 20) == 130
    assert not seen.is_waiting


def test_consumers_read_what_the_slower_of_two_wanted_slaves_has() -> None:
    assert replicated(slave_count=2).advance(130, ranges(130, 110), 0) == 110


def test_without_slaves_consumers_read_everything() -> None:
    assert replicated().advance(130, ranges(), 0) == 130
    assert replicated(slave_count=2).advance(130, ranges(110), 0) == 130
    assert replicated().advance(1_101, ranges(100), 0) == 1_101


def test_slaves_are_waited_for_until_the_time_is_over() -> None:
    seen = replicated()
    assert seen.advance(130, ranges(100), 0) == 100
    assert seen.advance(150, ranges(100), 1_000) == 100
    assert seen.advance(150, ranges(100), 2_999) == 100
    assert seen.advance(150, ranges(100), 3_000) == 130
    assert seen.advance(150, ranges(100), 4_000) == 150


def test_a_slave_that_leaves_is_waited_for_as_long_and_what_follows_after_it() -> None:
    seen = replicated()
    seen.advance(130, ranges(100), 0)
    assert seen.advance(150, ranges(), 1_000) == 100
    assert seen.advance(150, ranges(), 3_000) == 150


def test_a_slave_shows_nothing_of_before_it_joined() -> None:
    seen = replicated()
    seen.advance(130, ranges(100), 0)
    joined = [ConfirmedRange(130, 140)]
    assert seen.advance(140, joined, 1_000) == 100
    assert seen.advance(140, joined, 3_000) == 140


def members(*ids: int, **ends: int) -> tuple[ReplicaAcks, ReplicatedEnd]:
    needed = SyncMembers(frozenset(ids))
    return ReplicaAcks(needed, 3_000, 1_000), ReplicatedEnd(100, needed, 3_000, 1_000)


def of(broker_id: int, end: int) -> ConfirmedRange:
    return ConfirmedRange(-1, end, broker_id)


def test_every_member_of_a_sync_set_must_have_a_message() -> None:
    waiting, seen = members(2, 3)
    assert wait(waiting, 130, [of(2, 130), of(2, 140)])[0] is None
    assert len(waiting.advance([of(2, 130), of(3, 129)])) == 0
    assert seen.advance(130, [of(2, 130), of(3, 110), of(7, 130)], 0) == 110
    assert len(waiting.advance([of(2, 130), of(3, 130)])) == 1
    assert seen.advance(130, [of(2, 130), of(3, 130)], 0) == 130


def test_nothing_is_read_or_acknowledged_without_a_member_however_long_it_takes() -> None:
    waiting, seen = members(2)
    assert wait(waiting, 5_000, [])[0] is None
    assert seen.advance(5_000, [], 0) == 100
    assert seen.advance(5_000, [], 1_000_000) == 100
    waiting.quorum = seen.quorum = SyncMembers(frozenset())
    assert len(waiting.advance([])) == 1
    assert seen.advance(5_000, [], 1_000_000) == 5_000


def test_a_master_that_is_its_whole_sync_set_waits_for_no_slave() -> None:
    waiting, seen = members()
    assert wait(waiting, 130, [of(2, 100)])[0] is ReplicaAckResult.DONE
    assert seen.advance(130, [], 0) == 130


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 50),
            st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=3),
            st.integers(0, 2_000),
        ),
        max_size=30,
    ),
    slave_count=st.integers(1, 2),
)
def test_what_consumers_read_grows_and_is_copied_or_was_given_up(
    steps: list[tuple[int, list[tuple[int, int]], int]], slave_count: int
) -> None:
    seen, log_end, now_ms, before = replicated(slave_count, end=0), 0, 0, 0
    stored_ms = dict[int, int]()
    hopeless = 0
    for growth, slaves, pause_ms in steps:
        now_ms += pause_ms
        stored_ms |= dict.fromkeys(range(log_end, log_end + growth), now_ms)
        log_end += growth
        known = [ConfirmedRange(start, min(end, log_end)) for start, end in slaves]
        if growth and len(known) < slave_count:
            hopeless = log_end
        after = seen.advance(log_end, known, now_ms)
        assert before <= after <= log_end
        for place in range(before, after):
            holders = sum(one.start <= place < one.end for one in known)
            assert holders >= slave_count or place < hopeless or now_ms - stored_ms[place] >= 3_000
        before = after
    assert seen.advance(log_end, [], now_ms + 3_000) == log_end
