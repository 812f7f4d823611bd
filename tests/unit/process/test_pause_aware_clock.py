"""Claims about the clock that leases are measured on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.process.pause_aware_clock import LATE_MAX_MS, TICK_MS, PauseAwareClock
from orbitmq.testing import FakeClock


def test_it_runs_with_the_machine_while_ticks_come_in_time():
    machine = FakeClock(77)
    clock = PauseAwareClock(machine)
    assert clock() == 0
    machine.advance(40)
    assert clock() == 40
    machine.advance(LATE_MAX_MS - 40)
    assert (clock.tick(), clock()) == (0, LATE_MAX_MS)


def test_it_stands_still_while_the_process_does_not_listen():
    machine = FakeClock()
    clock = PauseAwareClock(machine)
    machine.advance(14_000)
    assert clock() == TICK_MS
    assert (clock.tick(), clock()) == (14_000 - TICK_MS, TICK_MS)


@given(st.lists(st.tuples(st.integers(0, 3_000), st.booleans()), max_size=50))
def test_it_never_goes_back_nor_ahead_of_the_machine(steps: list[tuple[int, bool]]):
    machine = FakeClock(0)
    clock = PauseAwareClock(machine)
    seen = deaf = 0
    for pause_ms, is_tick in steps:
        machine.advance(pause_ms)
        deaf += clock.tick() if is_tick else 0
        assert seen <= clock() <= machine()
        seen = clock()
    machine.advance(LATE_MAX_MS + 1)
    deaf += clock.tick()
    assert clock() + deaf == machine()
