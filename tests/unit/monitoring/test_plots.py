from __future__ import annotations

import xml.etree.ElementTree as ET
from math import isnan

# On a new machine its import starts a process that lists the fonts: here, and not in a test.
import matplotlib.font_manager  # noqa: F401

from orbitmq.monitoring.lag_samples import Point
from orbitmq.monitoring.plots import draw_lag, plot_lag


def points(*lags):
    return [Point(1000 * number, lag) for number, lag in enumerate(lags)]


def texts(picture):
    return [text.text for text in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def shown_lags(figure):
    (line,) = figure.axes[0].lines
    return [None if isnan(lag) else lag for lag in line.get_ydata()]


def test_the_line_of_a_lag_has_a_gap_where_it_is_unknown():
    assert shown_lags(plot_lag("lag", points(1, 2, None, None, 3, 0))) == [1, 2, None, None, 3, 0]


def test_a_lag_that_is_known_for_a_moment_has_a_mark():
    figure = plot_lag("lag", points(None, 5, None))
    assert figure.axes[0].lines[0].get_marker() == "."


def test_the_scale_of_a_lag_begins_at_zero():
    assert plot_lag("lag", points(50, 60)).axes[0].get_ylim()[0] == 0


def test_each_known_moment_has_its_mark_in_the_picture():
    line = ET.fromstring(draw_lag("lag", points(1, None, 3))).find(".//*[@id='lag']")
    assert len(line.findall(".//{*}use")) == 2


def test_titles_are_shown_as_they_are():
    assert "<g> & $t$" in texts(draw_lag("<g> & $t$", points(1, 1500)))


def test_without_points_there_is_a_picture_without_a_line():
    assert shown_lags(plot_lag("lag", [])) == []
    assert texts(draw_lag("lag", []))


def test_equal_measurements_make_equal_pictures():
    assert draw_lag("lag", points(1, 2)) == draw_lag("lag", points(1, 2))
