"""Values over the last hour (lag, rates, disks), and charts of them. Pure: the times come in."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import NamedTuple

SAMPLES_MAX = 60
"""Samples that are kept: an hour of one a minute."""
WIDTH, HEIGHT = 640, 120
"""Of a chart's lines, in pixels."""


class Sample(NamedTuple):
    """A value at one time."""

    at_ms: int
    value: float


Key = tuple[str, str]
"""Of a value: what it is, as lag, and whose."""


class History:
    """The last samples of many values."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=SAMPLES_MAX)
        self._values: dict[Key, array[float]] = {}

    def add(self, at_ms: int, values: Mapping[Key, float | None]) -> None:
        """Record a sample of all values, None for an unknown one; keys that are missing are forgotten."""
        self._times.append(at_ms)
        count = len(self._times)
        kept: dict[Key, array[float]] = {}
        for key, value in values.items():
            found = self._values.get(key, array("d"))
            found.extend([nan] * (count - 1 - len(found)))
            found.append(nan if value is None else value)
            kept[key] = found[-count:]
        self._values = kept

    def of(self, key: Key) -> list[Sample]:
        """Return the known samples of a key, the oldest first."""
        found = self._values.get(key, array("d"))
        times = list(self._times)[len(self._times) - len(found) :]
        return [Sample(at_ms, value) for at_ms, value in zip(times, found, strict=True) if not isnan(value)]


class Point(NamedTuple):
    """A sample in a chart: its place in pixels from the upper left corner, its time, and its value."""

    x: float
    y: float
    at_ms: int
    value: float


class Chart(NamedTuple):
    """A line under a title.

    Args:
        unit: of its values, behind each number.
        top: the value at the upper edge; the lower edge is 0.
    """

    title: str
    unit: str
    top: float
    points: Sequence[Point]


def chart(title: str, unit: str, samples: Sequence[Sample], top: float | None = None) -> Chart | None:
    """Return a chart of samples; None where there are fewer than two.

    Args:
        top: the value at the upper edge; the largest sample when left out.
    """
    if len(samples) < 2:
        return None
    first, last = samples[0].at_ms, samples[-1].at_ms
    top = top or max(1.0, *(sample.value for sample in samples))
    points = [
        Point(
            round((at_ms - first) * WIDTH / max(1, last - first), 1),
            round(HEIGHT - value * HEIGHT / top, 1),
            at_ms,
            value,
        )
        for at_ms, value in samples
    ]
    return Chart(title, unit, top, points)
