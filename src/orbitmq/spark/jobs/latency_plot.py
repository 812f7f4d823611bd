"""A picture of latencies: a line for each topic and group, from the median to the slowest, on a logarithmic scale. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from orbitmq.spark.jobs.latencies import Latency

_LEFT, _WIDTH, _RIGHT = 330, 560, 40
_TOP, _ROW = 56, 34
_MARKS = (("p50_ms", "#1f6f8b", "median"), ("p95_ms", "#e09f3e", "95 %"), ("p99_ms", "#c44536", "99 %"))


def draw_latencies(latencies: Sequence[Latency]) -> str:
    """Return the picture, as SVG. What took less than a millisecond stands at one."""
    scale = _Scale(max((latency.max_ms for latency in latencies), default=1))
    height = _TOP + _ROW * len(latencies) + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + _RIGHT}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="12" y="22" font-size="15">From sending to the end of consumption, by topic and group</text>',
        *_legend(),
        *_axis(scale, height - 30),
    ]
    for number, latency in enumerate(latencies):
        parts += _line(latency, scale, _TOP + _ROW * number + _ROW // 2)
    return "\n".join([*parts, "</svg>\n"])


class _Scale:
    """Places on the axis, one decade as wide as the other."""

    def __init__(self, max_ms: float) -> None:
        self.decades = max(1, ceil(log10(max(max_ms, 1))))

    def place(self, ms: float) -> float:
        return round(_LEFT + _WIDTH * log10(max(ms, 1)) / self.decades, 1)


def _line(latency: Latency, scale: _Scale, y: int) -> Iterator[str]:
    name = escape(f"{latency.topic} → {latency.group}")
    yield f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{name}</text>'
    first, last = scale.place(latency.p50_ms), scale.place(latency.max_ms)
    yield f'<line x1="{first}" x2="{last}" y1="{y}" y2="{y}" stroke="#999" stroke-width="2"/>'
    for field, colour, _ in _MARKS:
        ms = getattr(latency, field)
        yield f'<circle cx="{scale.place(ms)}" cy="{y}" r="5" fill="{colour}"><title>{ms:,.1f} ms</title></circle>'


def _axis(scale: _Scale, y: int) -> Iterator[str]:
    for decade in range(scale.decades + 1):
        x = scale.place(10**decade)
        yield f'<line x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{y + 16}" text-anchor="middle">{_named(decade)}</text>'


def _named(decade: int) -> str:
    return f"{10**decade} ms" if decade < 3 else f"{10 ** floor(decade - 3):,} s"


def _legend() -> Iterator[str]:
    x = _LEFT
    for _, colour, name in _MARKS:
        yield f'<circle cx="{x + 5}" cy="38" r="5" fill="{colour}"/><text x="{x + 14}" y="42">{name}</text>'
        x += 90
    yield f'<line x1="{x}" x2="{x + 20}" y1="38" y2="38" stroke="#999" stroke-width="2"/>'
    yield f'<text x="{x + 26}" y="42">up to the slowest</text>'
