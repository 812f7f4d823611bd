"""Samples of values, and charts of them."""

from __future__ import annotations

from orbitmq.dashboard.charts import HEIGHT, SAMPLES_MAX, WIDTH, History, Sample, chart

LAG = ("lag", "g")


def test_samples_of_an_hour_are_kept() -> None:
    history = History()
    for number in range(SAMPLES_MAX + 5):
        history.add(number, {LAG: 10 * number})
    samples = history.of(LAG)
    assert len(samples) == SAMPLES_MAX
    assert (samples[0], samples[-1]) == (Sample(5, 50), Sample(SAMPLES_MAX + 4, 10 * (SAMPLES_MAX + 4)))


def test_what_came_later_has_later_samples_and_what_went_has_none() -> None:
    history, old, new = History(), ("lag", "old"), ("lag", "new")
    for at_ms, values in ((1, {old: 1}), (2, {old: 2, new: 7}), (3, {new: 8})):
        history.add(at_ms, values)
    assert history.of(new) == [Sample(2, 7), Sample(3, 8)]
    assert history.of(old) == history.of(("lag", "never")) == []


def test_an_unknown_value_is_a_gap() -> None:
    history = History()
    for at_ms, value in ((1, 1), (2, None), (3, 3)):
        history.add(at_ms, {LAG: value})
    assert history.of(LAG) == [Sample(1, 1), Sample(3, 3)]


def test_a_chart_begins_left_ends_right_and_has_its_greatest_value_on_top() -> None:
    drawn = chart("Lag", "messages", [Sample(0, 0), Sample(50, 10), Sample(100, 5)])
    assert [point[:2] for point in drawn.points] == [(0, HEIGHT), (WIDTH / 2, 0), (WIDTH, HEIGHT / 2)]
    assert chart("Disk", "%", [Sample(0, 0), Sample(1, 50)], top=100).points[1].y == HEIGHT / 2
    assert chart("Lag", "messages", [Sample(0, 1)]) is None
    assert chart("Lag", "messages", [Sample(0, 0), Sample(0, 0)]).top == 1
