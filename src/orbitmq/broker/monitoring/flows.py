"""Counts by topic, or by topic and group, and what they were in the last minute, hour and day.

Hot paths add to plain integers; `sample` remembers, every ten seconds, those that have changed: a flow at rest costs
nothing. Pure: time is an argument.

Source: Java BrokerStatsManager, StatsItemSet, StatsItem.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem

K = TypeVar("K", bound=Hashable)


class StatsWindow(NamedTuple):
    """A stretch of time that figures are told of: so many steps, at the end of each of which is sampled."""

    step_ms: int
    steps: int


WINDOWS = (StatsWindow(10_000, 6), StatsWindow(600_000, 6), StatsWindow(3_600_000, 24))
"""The minute, the hour and the day."""
STEP_MS = WINDOWS[0].step_ms


class StatsSample(NamedTuple):
    """What a flow had counted when a step ended."""

    step: int
    times: int
    number: int
    size: int


class StatsItem:
    """What was counted of one thing."""

    __slots__ = ("count", "is_touched", "samples", "size", "times")

    def __init__(self, steps: tuple[int, ...]) -> None:
        self.count = 0
        """Messages."""
        self.size = 0
        """Bytes."""
        self.times = 0
        """How often something was added: a batch counts once."""
        self.is_touched = False
        # It was 0 when the step before its first ended.
        # Lists: the block of an empty deque takes 600 bytes, most flows are at rest, and none has over 25 samples.
        self.samples = tuple([StatsSample(step, 0, 0, 0)] for step in steps)

    def sample(self, window: int, step: int) -> None:
        """Remember the counts at the end of a step, and forget what no window reaches back to."""
        samples = self.samples[window]
        samples.append(StatsSample(step, self.times, self.count, self.size))
        first_step = step - WINDOWS[window].steps
        while len(samples) > 1 and samples[1].step <= first_step:
            del samples[0]


class StatsItems(Generic[K]):
    """The flows of one kind, by topic or by topic and group.

    Args:
        count_max: how many there may be; what comes beyond is left out.
    """

    def __init__(self, count_max: int, now_ms: int = 0) -> None:
        self._count_max = count_max
        self._flows: dict[K, StatsItem] = {}
        self._steps = [now_ms // window.step_ms for window in WINDOWS]
        self._touched: list[StatsItem] = []
        self._changed: tuple[set[StatsItem], set[StatsItem]] = (set(), set())
        """Flows that have changed since the last step of the hour's window, and of the day's."""

    def __len__(self) -> int:
        return len(self._flows)

    @property
    def all(self) -> Mapping[K, StatsItem]:
        """A read-only view of every flow there is."""
        return MappingProxyType(self._flows)

    def add(self, key: K, count: int, size: int, times: int = 1) -> None:
        """Count messages and their bytes."""
        flow = self._flows.get(key)
        if flow is None:
            if len(self._flows) >= self._count_max:
                return
            flow = self._flows[key] = StatsItem(tuple(self._steps))
        flow.count += count
        flow.size += size
        flow.times += times
        if not flow.is_touched:
            flow.is_touched = True
            self._touched.append(flow)

    def sample(self, now_ms: int) -> None:
        """Take note of the steps that have ended.

        Args:
            now_ms: by the monotonic clock.
        """
        step = now_ms // STEP_MS
        if step <= self._steps[0]:
            return
        self._steps[0] = step
        touched, self._touched = self._touched, []
        for flow in touched:
            flow.is_touched = False
            flow.sample(0, step)
        for window, changed in enumerate(self._changed, 1):
            changed.update(touched)
            step = now_ms // WINDOWS[window].step_ms
            if step > self._steps[window]:
                self._steps[window] = step
                for flow in changed:
                    flow.sample(window, step)
                changed.clear()

    def counts(self, key: K) -> BrokerStatsData | None:
        """Return how many messages there were; None: there was never one."""
        return self._stats(key, _count)

    def sizes(self, key: K) -> BrokerStatsData | None:
        """Return how many bytes they had."""
        return self._stats(key, _size)

    def total(self, key: K) -> int:
        """Return how many messages there were since the start."""
        flow = self._flows.get(key)
        return 0 if flow is None else flow.count

    def rate(self, key: K) -> float:
        """Return how many messages there were per second of the last minute."""
        stats_of = self.counts(key)
        return 0.0 if stats_of is None else stats_of.minute.rate

    def forget(self, is_gone: Callable[[K], bool]) -> None:
        """Drop the flows of what was deleted."""
        for key in [key for key in self._flows if is_gone(key)]:
            del self._flows[key]

    def _stats(self, key: K, value: Callable[[StatsSample], int]) -> BrokerStatsData | None:
        flow = self._flows.get(key)
        if flow is None:
            return None
        return BrokerStatsData(*(self._window(flow, window, value) for window in range(len(WINDOWS))))

    def _window(self, flow: StatsItem, window: int, value: Callable[[StatsSample], int]) -> BrokerStatsItem:
        samples, (step_ms, steps), step = flow.samples[window], WINDOWS[window], self._steps[window]
        begin = max(step - steps, samples[0].step)
        first = next(sample for sample in reversed(samples) if sample.step <= begin)
        last = samples[-1]
        grown, times, elapsed_ms = value(last) - value(first), last.times - first.times, (step - begin) * step_ms
        return BrokerStatsItem(grown, grown * 1000 / elapsed_ms if elapsed_ms else 0.0, grown / times if times else 0.0)


def _count(sample: StatsSample) -> int:
    return sample.number


def _size(sample: StatsSample) -> int:
    return sample.size
