"""Claims about counters."""

from __future__ import annotations

from dataclasses import fields

from orbitmq.net.counters import SERVICE_BOUNDS_S, Counters, is_worth_a_line


def test_the_first_ten_events_and_then_powers_of_two_are_worth_a_line():
    assert [count for count in range(1, 100) if is_worth_a_line(count)] == [*range(1, 11), 16, 32, 64]


def test_everything_is_counted_from_nothing():
    counters = Counters()
    counted = {field.name: getattr(counters, field.name) for field in fields(Counters) if field.type == "int"}
    assert len(counted) == 12
    assert set(counted.values()) == {0}
    assert (counters.requests[105], counters.refusals[105, 1], counters.closed_by_us["idle"]) == (0, 0, 0)


def test_times_of_service_are_told_apart_up_to_a_second():
    assert list(SERVICE_BOUNDS_S) == sorted(set(SERVICE_BOUNDS_S))
    assert SERVICE_BOUNDS_S[-1] == 1
