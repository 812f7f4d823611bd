"""Samples of lag, and the line of a chart."""

from __future__ import annotations

from orbitmq.dashboard.lag_history import HEIGHT, SAMPLES_MAX, WIDTH, LagHistory, Sample, chart_points


def test_samples_of_an_hour_are_kept() -> None:
    history = LagHistory()
    for number in range(SAMPLES_MAX + 5):
        history.add(number, {"g": 10 * number})
    samples = history.of("g")
    assert len(samples) == SAMPLES_MAX
    assert (samples[0], samples[-1]) == (Sample(5, 50), Sample(SAMPLES_MAX + 4, 10 * (SAMPLES_MAX + 4)))


def test_a_group_that_came_later_has_later_samples_and_one_that_went_has_none() -> None:
    history = LagHistory()
    history.add(1, {"old": 1})
    history.add(2, {"old": 2, "new": 7})
    history.add(3, {"new": 8})
    assert history.of("new") == [Sample(2, 7), Sample(3, 8)]
    assert history.of("old") == []
    assert history.of("never") == []


def test_a_group_that_comes_again_has_a_gap() -> None:
    history = LagHistory()
    for at_ms, lags in ((1, {"g": 1}), (2, {}), (3, {"g": 3})):
        history.add(at_ms, lags)
    assert history.of("g") == [Sample(3, 3)]


def test_a_chart_begins_left_ends_right_and_has_its_greatest_lag_on_top() -> None:
    points = chart_points([Sample(0, 0), Sample(50, 10), Sample(100, 5)]).split()
    assert points == [f"0.0,{HEIGHT}.0", f"{WIDTH / 2},0.0", f"{WIDTH}.0,{HEIGHT / 2}"]
    assert chart_points([Sample(0, 1)]) == ""
    assert chart_points([Sample(0, 0), Sample(0, 0)])
