"""Values over the last hour (lag, rates, disks), and charts of them. Pure: the times come in."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import dropwhile, groupby
from math import floor, isnan, log10, nan
from typing import NamedTuple

SAMPLES_MAX = 60
"""Samples that are kept: an hour of one a minute."""
WIDTH, HEIGHT = 640, 120
"""Of a chart's lines, in pixels."""


class Sample(NamedTuple):
    """A value at one time; None: it was unknown."""

    at_ms: int
    value: float | None


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

    def add_unknown(self, at_ms: int) -> None:
        """Record that all values were unknown at a time."""
        self.add(at_ms, dict.fromkeys(self._values))

    def of(self, key: Key) -> list[Sample]:
        """Return the samples of a key, from the first known one on."""
        found = self._values.get(key, array("d"))
        times = list(self._times)[len(self._times) - len(found) :]
        samples = (Sample(at_ms, None if isnan(value) else value) for at_ms, value in zip(times, found, strict=True))
        return list(dropwhile(lambda sample: sample.value is None, samples))


class Point(NamedTuple):
    """A sample in a chart: its place in pixels from the upper left corner, its time, and its value; None: it was unknown."""

    x: float
    y: float | None
    at_ms: int
    value: float | None


class Chart(NamedTuple):
    """A line under a title, with gaps where values were unknown.

    Args:
        unit: of its values, behind each number.
        top: the value at the upper edge; the lower edge is 0.
    """

    title: str
    unit: str
    top: float
    points: Sequence[Point]

    @property
    def known(self) -> list[Point]:
        """Return the points that have a value."""
        return [point for point in self.points if point.value is not None]

    @property
    def lines(self) -> list[list[Point]]:
        """Return the points that have a value, those between two gaps together."""
        return [
            list(line) for is_known, line in groupby(self.points, lambda point: point.value is not None) if is_known
        ]


def chart(title: str, unit: str, samples: Sequence[Sample], top: float | None = None) -> Chart | None:
    """Return a chart of samples; None where fewer than two are known.

    Args:
        top: the value at the upper edge; when left out, a round number that is no less than the largest sample.
    """
    known = [sample.value for sample in samples if sample.value is not None]
    if len(known) < 2:
        return None
    first, last = samples[0].at_ms, samples[-1].at_ms
    top = top or _round_up(max(known))
    points = [
        Point(
            round((at_ms - first) * WIDTH / max(1, last - first), 1),
            None if value is None else round(HEIGHT - value * HEIGHT / top, 1),
            at_ms,
            value,
        )
        for at_ms, value in samples
    ]
    return Chart(title, unit, top, points)


def _round_up(value: float) -> float:
    """Return the next number from a value on that has one digit before its zeros, and a half that needs no rounding: 2 for 1."""
    if value <= 0:
        return 2.0
    size = 10.0 ** floor(log10(value))
    return next(step * size for step in (1, 2, 4, 6, 8, 10) if step * size >= value and (step, size) != (1, 1))
