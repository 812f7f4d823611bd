"""Samples of values, and charts of them."""

from __future__ import annotations

import pytest

from orbitmq.dashboard.answers import count_text, rounded_text, scale_text
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


def test_an_unknown_value_is_a_gap_of_the_line_and_the_chart_ends_with_it() -> None:
    history = History()
    for at_ms, value in ((0, 1), (1, 2), (2, None), (3, 3)):
        history.add(at_ms, {LAG: value})
    history.add_unknown(4)
    assert history.of(LAG) == [Sample(0, 1), Sample(1, 2), Sample(2, None), Sample(3, 3), Sample(4, None)]
    drawn = chart("Lag", "messages", history.of(LAG))
    assert [[point.value for point in line] for line in drawn.lines] == [[1, 2], [3]]
    assert (drawn.lines[-1][0].x, drawn.points[-1]) == (WIDTH * 3 / 4, (WIDTH, None, 4, None))


def test_a_chart_begins_left_and_ends_right_and_its_top_is_a_round_number() -> None:
    drawn = chart("Lag", "messages", [Sample(0, 0), Sample(50, 10), Sample(100, 5)])
    assert [point[:2] for point in drawn.points] == [(0, HEIGHT), (WIDTH / 2, 0), (WIDTH, HEIGHT / 2)]
    assert chart("Disk", "%", [Sample(0, 0), Sample(1, 50)], top=100).points[1].y == HEIGHT / 2
    assert chart("Lag", "messages", [Sample(0, 1), Sample(1, None)]) is None


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        (0, ["0", "1", "2"]),
        (1, ["0", "1", "2"]),
        (3, ["0", "2", "4"]),
        (0.033, ["0", "0.02", "0.04"]),
        (1.04, ["0", "1", "2"]),
        (999, ["0", "500", "1,000"]),
        (123_456, ["0", "100 k", "200 k"]),
        (10**12, ["0", "500 G", "1 T"]),
    ],
)
def test_the_numbers_of_an_axis_are_short_and_need_no_rounding(value: float, labels: list[str]) -> None:
    top = chart("Lag", "messages", [Sample(0, 0), Sample(1, value)]).top
    assert [scale_text(top * share) for share in (0, 0.5, 1)] == labels


def test_a_small_rate_is_not_shown_as_0() -> None:
    assert (rounded_text(1 / 60), count_text(1 / 60), rounded_text(0.0), count_text(12.34)) == (
        "0.017",
        "0.017",
        "0",
        "12.3",
    )
