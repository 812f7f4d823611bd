from __future__ import annotations

import xml.etree.ElementTree as ET

from orbitmq.spark.jobs.lag_plot import Point, draw_lag


def drawn(*lags, title="lag"):
    return ET.fromstring(draw_lag(title, [Point(1000 * number, lag) for number, lag in enumerate(lags)]))


def lines(picture):
    return [line.get("points").split() for line in picture.findall("{*}polyline")]


def test_a_line_has_a_gap_where_the_lag_is_unknown():
    assert [len(line) for line in lines(drawn(1, 2, None, None, 3, 4, 0))] == [2, 3]


def test_a_moment_alone_is_a_dot():
    picture = drawn(None, 5, None)
    assert lines(picture) == []
    assert len(picture.findall("{*}circle")) == 1


def test_unknown_is_not_drawn_as_zero():
    picture = drawn(None, None)
    assert lines(picture) == picture.findall("{*}circle") == []


def test_the_most_stands_at_the_top_and_zero_at_the_bottom():
    assert lines(drawn(0, 10)) == [["90.0,340.0", "890.0,40.0"]]


def test_times_and_names_are_shown_as_they_are():
    texts = [text.text for text in drawn(1, 1500, title="<g> & t").findall("{*}text")]
    assert texts == ["<g> & t", "1,500", "0", "1970-01-01 00:00:00", "1970-01-01 00:00:01"]


def test_nothing_is_a_picture_without_a_line():
    assert lines(drawn()) == []
