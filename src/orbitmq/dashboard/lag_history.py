"""The lag of groups over time, and a chart of it. Pure: the times come in."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SAMPLES_MAX = 60
"""Samples that are kept: an hour of one a minute."""
WIDTH, HEIGHT = 640, 120
"""Of a chart, in pixels."""
_UNKNOWN = -1


class Sample(NamedTuple):
    """A group's lag at one time."""

    at_ms: int
    lag: int


class LagHistory:
    """The last samples of every group's lag."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=SAMPLES_MAX)
        self._lags: dict[str, array[int]] = {}

    def add(self, at_ms: int, lags: Mapping[str, int]) -> None:
        """Take a sample of all groups; those that are gone are forgotten."""
        self._times.append(at_ms)
        count = len(self._times)
        kept: dict[str, array[int]] = {}
        for group, lag in lags.items():
            values = self._lags.get(group, array("q"))
            values.extend([_UNKNOWN] * (count - 1 - len(values)))
            values.append(lag)
            kept[group] = values[-count:]
        self._lags = kept

    def of(self, group: str) -> list[Sample]:
        """Return a group's samples, the oldest first."""
        values = self._lags.get(group)
        if values is None:
            return []
        times = list(self._times)[-len(values) :]
        return [Sample(at_ms, lag) for at_ms, lag in zip(times, values, strict=True) if lag != _UNKNOWN]


def chart_points(samples: Sequence[Sample]) -> str:
    """Return the line of a chart, as the points of an SVG's polyline; empty where there are fewer than two samples."""
    if len(samples) < 2:
        return ""
    first, last = samples[0].at_ms, samples[-1].at_ms
    top = max(1, *(sample.lag for sample in samples))
    return " ".join(
        f"{(sample.at_ms - first) * WIDTH / max(1, last - first):.1f},{HEIGHT - sample.lag * HEIGHT / top:.1f}"
        for sample in samples
    )
