"""A figure: what was asked, what was measured, and whether that reaches it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `asked` and `measured` are for people."""

    asked: str
    measured: str
    reached: bool


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything: 1 is what was asked, less is for trying the measurement itself out."""

    share: float
    seed: int

    def of(self, whole: int, least: int = 1) -> int:
        """Return this share of a number."""
        return max(least, round(whole * self.share))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of `values` that at least `share` of them do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def say(text: str) -> None:
    """Tell how far a measurement is."""
    print(f"  {text}", flush=True)
