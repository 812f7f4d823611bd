"""A picture of lag over time: one line, with gaps where the lag was unknown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import NamedTuple

_LEFT, _WIDTH, _RIGHT = 90, 800, 30
_TOP, _HEIGHT, _BOTTOM = 40, 300, 40
_COLOUR = "#1f6f8b"


class Point(NamedTuple):
    """The lag at a moment; None: unknown."""

    at_ms: int
    lag: int | None


def draw_lag(title: str, points: Sequence[Point]) -> str:
    """Return the picture, as SVG.

    Args:
        points: in the order of their times.
    """
    scale = _Scale(points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + _RIGHT}" height="{_TOP + _HEIGHT + _BOTTOM}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="22" font-size="15">{escape(title)}</text>',
        *_axes(scale),
    ]
    for is_known, run in groupby(points, lambda point: point.lag is not None):
        if is_known:
            parts.append(_line([scale.place(point) for point in run]))
    return "\n".join([*parts, "</svg>\n"])


class _Scale:
    """Places in the picture; both axes are linear, and lag begins at 0."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.first_ms = points[0].at_ms if points else 0
        self.last_ms = points[-1].at_ms if points else 0
        self.most = max((point.lag or 0 for point in points), default=0)

    def place(self, point: Point) -> tuple[float, float]:
        span = max(1, self.last_ms - self.first_ms)
        x = _LEFT + _WIDTH * (point.at_ms - self.first_ms) / span
        y = _TOP + _HEIGHT * (1 - (point.lag or 0) / max(1, self.most))
        return round(x, 1), round(y, 1)


def _line(places: list[tuple[float, float]]) -> str:
    if len(places) == 1:
        return f'<circle cx="{places[0][0]}" cy="{places[0][1]}" r="2.5" fill="{_COLOUR}"/>'
    path = " ".join(f"{x},{y}" for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>'


def _axes(scale: _Scale) -> Iterator[str]:
    for lag, y in ((scale.most, _TOP), (0, _TOP + _HEIGHT)):
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{lag:,}</text>'
    for at_ms, x, anchor in ((scale.first_ms, _LEFT, "start"), (scale.last_ms, _LEFT + _WIDTH, "end")):
        time = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        yield f'<text x="{x}" y="{_TOP + _HEIGHT + 20}" text-anchor="{anchor}">{time}</text>'
