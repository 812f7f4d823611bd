from __future__ import annotations

from orbitmq.broker.delivery.deadlines import GRAIN_PARTS, Deadlines


def test_a_message_is_due_when_its_delay_has_passed_since_it_was_seen() -> None:
    deadlines = Deadlines(1_000, 0, now_ms=0)
    deadlines.note(1, 10)
    deadlines.note(1, 20)
    deadlines.note(3, 30)
    assert [deadlines.has_waited(0, now_ms) for now_ms in (1_009, 1_010)] == [False, True]
    assert [deadlines.has_waited(2, now_ms) for now_ms in (1_029, 1_030)] == [False, True]
    assert not deadlines.may_be_due(3, 10**15)


def test_what_was_left_may_be_due_at_once_and_has_waited_after_the_whole_delay() -> None:
    deadlines = Deadlines(1_000, 2, now_ms=100)
    assert deadlines.may_be_due(1, 100)
    assert [deadlines.was_left(offset) for offset in (0, 1, 2)] == [True, True, False]
    assert [deadlines.has_waited(1, now_ms) for now_ms in (1_099, 1_100)] == [False, True]
    assert not deadlines.has_waited(2, 1_100)


def test_arrivals_of_a_long_delay_are_told_apart_coarsely_and_never_early() -> None:
    grain_ms = 2_000
    deadlines = Deadlines(grain_ms * GRAIN_PARTS, 0, now_ms=0)
    for end, now_ms in ((1, 0), (2, 100), (3, grain_ms - 1), (4, grain_ms)):
        deadlines.note(end, now_ms)
    late_ms = grain_ms * GRAIN_PARTS
    assert [deadlines.may_be_due(offset, late_ms) for offset in range(4)] == [True, False, False, False]
    assert [deadlines.may_be_due(offset, late_ms + grain_ms) for offset in range(4)] == [True] * 4
