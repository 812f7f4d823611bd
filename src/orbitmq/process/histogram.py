"""Counts of values by upper bound, as Prometheus wants them. Pure.

State: one count for each bound, and the sum. In: values. Out: how many lay below each bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Histogram:
    """Counts of values by upper bound, as Prometheus wants them. Plain numbers: observing costs a bisection."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, count: int = 1) -> None:
        """Count `value`, `count` times."""
        self.total += value * count
        self._counts[bisect_left(self.bounds, value)] += count

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound as text, number of values up to it), ending with +Inf."""
        pairs, so_far = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self._counts, strict=True):
            so_far += count
            pairs.append((bound, float(so_far)))
        return pairs

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)


class Histograms(Generic[K]):
    """One histogram for each of some keys, all with the same bounds.

    Args:
        count_max: how many keys there may be; the values of others are left out.
    """

    def __init__(self, bounds: Sequence[float], count_max: int) -> None:
        self._bounds = tuple(bounds)
        self._count_max = count_max
        self._by_key: dict[K, Histogram] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def observe(self, key: K, value: float, count: int = 1) -> None:
        """Count a value of one key, `count` times."""
        found = self._by_key.get(key)
        if found is None:
            if len(self._by_key) >= self._count_max:
                return
            found = self._by_key[key] = Histogram(self._bounds)
        found.observe(value, count)

    def items(self) -> Iterator[tuple[K, Histogram]]:
        """Yield every key there is now, with its histogram."""
        return iter(tuple(self._by_key.items()))

    def forget(self, key: K) -> None:
        """Drop one key's values."""
        self._by_key.pop(key, None)
