"""The four alert rules, evaluated by the NameServer itself, for operators without Prometheus. Pure.

State: samples of the last minutes. In: one `NameServerState` at a time. Out: the alerts that hold now.

Source: the same rules stand in `deploy/prometheus/nameserver.rules.yml` for Prometheus; thresholds and windows are kept equal by a
test.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from orbitmq.monitoring.alerts import BROKER_COUNT_DROPPED, Alert
from orbitmq.nameserver.monitoring.route_history import LostBroker

WINDOW_MS = 300_000
"""Rules look back five minutes."""
LOST_MS = 86_400_000
"""A lost broker is an error within `WINDOW_MS`, and then a warning for a day, until it is back."""
SAMPLE_MS = 2_500
"""Samples that follow one another faster are kept as one, so that probes in any number cost the same."""
WINDOW_MS_MIN = 30_000
"""Shares of less time than this say nothing yet."""
FAILURE_RATIO_MAX = 0.01
QUERIES_MIN = 100
"""Of fewer queries a single failure would be over 1 %."""
MEMORY_RATIO_MAX = 0.8
GC_SHARE_MAX = 0.05
"""Share of the time that garbage collection may take."""
NAMED_MAX = 3
"""Lost brokers that an alert's reason names; its subjects are all of them."""
LOOP_LAG_MS_MAX = 100
"""How late the event loop may run its timers, as the mean over the window."""


class NameServerAlertRule(StrEnum):
    """The names of the rules, as Prometheus shows them."""

    BROKER_COUNT_DROPPED = BROKER_COUNT_DROPPED
    ROUTE_QUERIES_FAIL = "RocketmqNameServerRouteQueriesFail"
    MEMORY_HIGH = "RocketmqNameServerMemoryHigh"
    GC_OR_LAG = "RocketmqNameServerCollectsOrLags"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerState:
    """What is known of a NameServer at one moment; counters only ever grow.

    `lost` are the brokers of the last `LOST_MS` that left without a good-bye and are not back; `memory_limit` is what the process may use (control group or machine), in bytes; 0 when unknown.
    """

    at_ms: int
    route_queries: int
    route_failures: int
    route_misses: int = 0
    """Those failures that no NameServer can help: no broker has the topic."""
    lost: Sequence[LostBroker] = ()
    memory: int = 0
    memory_limit: int = 0
    gc_ms: float = 0.0
    loop_lag_ms: float = 0.0


class AlertRules:
    """The rules, with the samples of the window that they look back on."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._samples: deque[NameServerState] = deque()

    @property
    def sample_count(self) -> int:
        """Samples that are kept: what a look at the rules costs."""
        return len(self._samples)

    def add(self, sample: NameServerState) -> tuple[Alert, ...]:
        """Add a sample and return the alerts that hold now."""
        last = self._samples[-1] if self._samples else None
        if last is not None and 0 <= sample.at_ms - last.at_ms < SAMPLE_MS:
            self._samples[-1] = _joined(last, sample)
        else:
            self._samples.append(sample)
        while self._samples[0].at_ms < sample.at_ms - self._window_ms:
            self._samples.popleft()
        return tuple(self._alerts(self._samples[0], sample))

    def _alerts(self, first: NameServerState, last: NameServerState) -> Iterator[Alert]:
        if last.lost:
            more = f", and {len(last.lost) - NAMED_MAX} more" if len(last.lost) > NAMED_MAX else ""
            named = ", ".join(broker.text for broker in last.lost[:NAMED_MAX])
            reason = f"gone without a good-bye: {named}{more}"
            names = tuple(broker.name for broker in last.lost)
            is_warning = all(broker.at_ms < last.at_ms - WINDOW_MS for broker in last.lost)
            yield Alert(NameServerAlertRule.BROKER_COUNT_DROPPED, reason, names, is_warning)
        if last.memory_limit and last.memory > MEMORY_RATIO_MAX * last.memory_limit:
            share = last.memory / last.memory_limit
            yield Alert(NameServerAlertRule.MEMORY_HIGH, f"{share:.0%} of {last.memory_limit} bytes of memory are used")
        if last.at_ms - first.at_ms >= WINDOW_MS_MIN:
            yield from self._shares(first, last)

    def _shares(self, first: NameServerState, last: NameServerState) -> Iterator[Alert]:
        queries, failures = last.route_queries - first.route_queries, last.route_failures - first.route_failures
        if queries >= QUERIES_MIN and failures > FAILURE_RATIO_MAX * queries:
            refused = failures - (last.route_misses - first.route_misses)
            reason = f"{failures} of {queries} route queries failed"
            yield Alert(
                NameServerAlertRule.ROUTE_QUERIES_FAIL, reason, is_warning=refused <= FAILURE_RATIO_MAX * queries
            )
        elapsed_ms = last.at_ms - first.at_ms
        gc_ms = last.gc_ms - first.gc_ms
        lag_ms = sum(sample.loop_lag_ms for sample in self._samples) / len(self._samples)
        if gc_ms > GC_SHARE_MAX * elapsed_ms:
            yield Alert(NameServerAlertRule.GC_OR_LAG, f"garbage collection took {gc_ms:.0f} of {elapsed_ms} ms")
        elif lag_ms > LOOP_LAG_MS_MAX:
            yield Alert(NameServerAlertRule.GC_OR_LAG, f"the event loop runs {lag_ms:.0f} ms late")


def _joined(one: NameServerState, next_one: NameServerState) -> NameServerState:
    """Join two samples of nearly the same moment: the counters of the first, the largest of what comes and goes."""
    return replace(one, loop_lag_ms=max(one.loop_lag_ms, next_one.loop_lag_ms))
