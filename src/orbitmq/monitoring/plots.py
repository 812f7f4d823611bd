"""Pictures of measurements, as SVG drawn by matplotlib; the one of a lag over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from math import nan
from typing import TYPE_CHECKING

from orbitmq.monitoring.lag_samples import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_lag(title: str, points: Sequence[Point]) -> str:
    """Return the picture of a lag, as SVG: a line with gaps where it was unknown.

    Args:
        points: in the order of their times.
    """
    return svg_of(plot_lag(title, points))


def plot_lag(title: str, points: Sequence[Point]) -> Figure:
    """Return the picture of `draw_lag` as a figure."""
    from matplotlib.dates import date2num
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", parse_math=False)
    times = [date2num(datetime.fromtimestamp(point.at_ms / 1000, UTC)) for point in points]
    # A point between two unknown ones is seen by its mark alone.
    axes.plot(times, [nan if point.lag is None else point.lag for point in points], marker=".", gid="lag")
    axes.xaxis_date(UTC)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color="#dddddd")
    axes.tick_params(axis="x", labelrotation=20)
    return figure


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG."""
    from matplotlib import rc_context

    picture = StringIO()
    # Text stays text, and equal measurements make equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "orbitmq"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()
