from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.ha.replica_acks import ReplicaAckResult, ReplicaAcks


def copies(slave_count: int = 1, gap_max: int = 1_000) -> ReplicaAcks:
    return ReplicaAcks(slave_count, timeout_ms=3_000, gap_max=gap_max)


def wait(
    waiting: ReplicaAcks, end: int, acknowledged: list[int], now_ms: int = 0
) -> tuple[ReplicaAckResult | None, list[ReplicaAckResult]]:
    told: list[ReplicaAckResult] = []
    return waiting.wait(end, acknowledged, now_ms, told.append), told


def test_who_waits_is_told_when_a_slave_has_the_place() -> None:
    waiting = copies()
    assert wait(waiting, 10, [9]) == (None, [])
    assert waiting.advance([9]) == []
    assert len(waiting.advance([10])) == 1
    assert len(waiting) == 0


def test_no_send_waits_for_what_a_slave_has() -> None:
    assert wait(copies(), 10, [10, 3])[0] is ReplicaAckResult.DONE


def test_without_a_slave_there_is_no_slave_to_wait_for() -> None:
    assert wait(copies(), 10, [])[0] is ReplicaAckResult.NO_SLAVE
    assert wait(copies(slave_count=2), 10, [10])[0] is ReplicaAckResult.NO_SLAVE


def test_of_two_wanted_slaves_the_slower_one_counts() -> None:
    waiting = copies(slave_count=2)
    assert wait(waiting, 10, [20, 9])[0] is None
    assert waiting.advance([20, 9, 3]) == []
    assert len(waiting.advance([9, 20, 11])) == 1


def test_a_slave_that_is_too_far_behind_is_not_waited_for() -> None:
    assert wait(copies(gap_max=100), 200, [100])[0] is None
    assert wait(copies(gap_max=100), 201, [100])[0] is ReplicaAckResult.NO_SLAVE


def test_a_slave_that_has_just_come_with_nothing_is_waited_for() -> None:
    assert wait(copies(), 10, [0])[0] is None


def test_who_has_waited_too_long_is_told_and_others_wait_on() -> None:
    waiting = copies()
    wait(waiting, 10, [0], now_ms=0)
    wait(waiting, 20, [0], now_ms=1)
    assert waiting.expire(2_999) == []
    assert len(waiting.expire(3_000)) == 1
    assert len(waiting) == 1


def test_at_the_end_all_are_told() -> None:
    waiting = copies()
    wait(waiting, 10, [0])
    wait(waiting, 20, [0])
    assert len(waiting.abandon()) == 2
    assert len(waiting) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=30))
def test_each_is_told_once_and_in_order(steps: list[tuple[bool, int]]) -> None:
    waiting, told, asked, end, acknowledged = copies(), [], [], 0, 0
    for is_wait, size in steps:
        if is_wait:
            end += size
            if waiting.wait(end, [acknowledged], 0, lambda _: None) is None:
                asked.append(end)
        else:
            acknowledged = min(acknowledged + size, end)
            told += [None] * len(waiting.advance([acknowledged]))
        assert len(told) == sum(place <= acknowledged for place in asked)
        assert len(waiting) == len(asked) - len(told)
