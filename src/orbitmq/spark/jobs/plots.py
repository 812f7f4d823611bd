"""Pictures of measurements, as SVG drawn by matplotlib: lag over time, latencies of topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from math import nan
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.spark.jobs.latencies import Latency

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = (("p50_ms", "median"), ("p95_ms", "95 %"), ("p99_ms", "99 %"))
_ROW_INCHES = 0.4


class Point(NamedTuple):
    """The lag at a moment; None: unknown."""

    at_ms: int
    lag: int | None


def draw_lag(title: str, points: Sequence[Point]) -> str:
    """Return the picture of a lag, as SVG: a line with gaps where it was unknown.

    Args:
        points: in the order of their times.
    """
    return _svg(plot_lag(title, points))


def draw_latencies(latencies: Sequence[Latency]) -> str:
    """Return the picture of latencies, as SVG: a line for each topic and group, from the median to the slowest.

    The scale is logarithmic; what took less than a millisecond stands at one.
    """
    return _svg(plot_latencies(latencies))


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


def plot_latencies(latencies: Sequence[Latency]) -> Figure:
    """Return the picture of `draw_latencies` as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + _ROW_INCHES * max(len(latencies), 1)), layout="constrained")
    axes = figure.subplots()
    axes.set_title("From sending to the end of consumption, by topic and group", loc="left")
    axes.set_xscale("log")
    axes.set_xlabel("ms")
    rows = range(len(latencies))
    for row, latency in zip(rows, latencies, strict=True):
        ends = [max(latency.p50_ms, 1), max(latency.max_ms, 1)]
        axes.plot(ends, [row, row], color="#999999", label="_" if row else "up to the slowest")
    for field, name in _MARKS:
        axes.scatter([max(getattr(latency, field), 1) for latency in latencies], rows, label=name, zorder=3)
    names = [f"{latency.topic} → {latency.group}" for latency in latencies]
    axes.set_yticks(rows, names, parse_math=False)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#dddddd")
    axes.legend(loc="best")
    return figure


def _svg(figure: Figure) -> str:
    from matplotlib import rc_context

    picture = StringIO()
    # Text stays text, and equal measurements make equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "orbitmq"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()
