"""Claims about counters."""

from __future__ import annotations

from orbitmq.net.counters import is_worth_a_line


def test_the_first_ten_events_and_then_powers_of_two_are_worth_a_line():
    assert [count for count in range(1, 100) if is_worth_a_line(count)] == [*range(1, 11), 16, 32, 64]
