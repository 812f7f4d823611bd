"""The monitor of a NameServer: its counters, figures of the process, alerts, and the health document made of them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orbitmq.clock import Clock
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.monitoring.alerts import Alert, AlertLog
from orbitmq.nameserver.monitoring.alerts import (
    LOST_MS,
    WINDOW_MS,
    AlertRules,
    NameServerAlertRule,
    NameServerState,
)
from orbitmq.nameserver.monitoring.route_history import LostBrokers, describe
from orbitmq.nameserver.monitoring.unknown_topics import UnknownTopic, UnknownTopics
from orbitmq.nameserver.routing.events import Cause, ChangeKind, RouteChange
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.net.limits import descriptor_limit
from orbitmq.net.server import Server
from orbitmq.process.stats import ProcessStats, memory_used

log = logging.getLogger(__name__)

SAMPLE_EVERY_MS = 5_000
UNKNOWN_TOPICS_MAX = 10
_ROUTE_QUERY = RequestCode.GET_ROUTEINFO_BY_TOPIC


class NameServerMonitor:
    """Observes one NameServer.

    `changes` counts changes of routes by (kind, cause).

    Args:
        is_ready: tells whether the NameServer answers route queries at a time (ms since 1970).
        warnings: about its settings, for its operator.
        sections: what else stands in the health document, by name.
    """

    def __init__(
        self,
        server: Server[Any],
        tables: Tables,
        unknown_topics: UnknownTopics,
        *,
        is_ready: Callable[[int], bool],
        clock: Clock,
        warnings: Sequence[str] = (),
        sections: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.changes: Counter[tuple[ChangeKind, Cause]] = Counter()
        self.alert_log = AlertLog(log)
        self.process_stats = ProcessStats()
        self._server = server
        self._tables = tables
        self._unknown_topics = unknown_topics
        self._is_ready = is_ready
        self._warnings = warnings
        self._sections = sections or {}
        self._clock = clock
        self._rules = AlertRules()
        self._lost = LostBrokers()
        self._started_at_ms = clock()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to take samples."""
        loop = asyncio.get_running_loop()
        self._started_at_ms = self._clock()
        self.process_stats.start(loop)
        self._sample_and_arm()

    def stop(self) -> None:
        """End what `start` began."""
        self.process_stats.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note(self, change: RouteChange) -> None:
        """Count a change of the routes, and log it."""
        self._lost.note(change)
        self.changes[change.kind, change.trigger.cause] += 1
        if log.isEnabledFor(logging.INFO):
            facts = {"kind": change.kind, "cause": change.trigger.cause, "remote": change.trigger.remote}
            log.info("%s", describe(change), extra=facts)

    def forget_lost(self, broker_name: str, broker_id: int) -> None:
        """Miss a broker no longer: it un-registers, or is un-registered by an operator, after it was lost."""
        self._lost.forget(broker_name, broker_id)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alert rules that hold now."""
        return self.alert_log.alerts

    @property
    def lost_count(self) -> int:
        """Brokers that left without a good-bye in the last day and are not back."""
        return len(self._lost.since(self._clock() - LOST_MS))

    @property
    def route_queries(self) -> int:
        """Route queries so far."""
        return self._server.counters.requests.get(_ROUTE_QUERY, 0)

    @property
    def route_failures(self) -> int:
        """Route queries that ended without a route, for whatever reason; not those that count as nothing (`UnknownTopics`)."""
        refusals = self._server.counters.refusals.items()
        return sum(count for (code, _), count in refusals if code == _ROUTE_QUERY) - self._unknown_topics.excused_count

    @property
    def _route_misses(self) -> int:
        """Of these the ones for topics that no broker has."""
        misses = self._server.counters.refusals.get((_ROUTE_QUERY, ResponseCode.TOPIC_NOT_EXIST), 0)
        return misses - self._unknown_topics.excused_count

    def sample(self) -> None:
        """Look at everything once, and log the alerts that begin or end."""
        self._unknown_topics.settle(self._has_route, self._clock())
        alerts = self._rules.add(
            NameServerState(
                at_ms=self._clock(),
                lost=self._lost.since(self._clock() - LOST_MS),
                route_queries=self.route_queries,
                route_failures=self.route_failures,
                route_misses=self._route_misses,
                memory=memory_used(),
                memory_limit=self.process_stats.memory_limit,
                gc_ms=self.process_stats.gc_ms,
                loop_lag_ms=self.process_stats.last_lag_ms,
            )
        )
        self.alert_log.update(map(self._with_topics, alerts))

    def health(self) -> dict[str, Any]:
        """Return how the NameServer is doing, as a JSON document; healthy means that no alert rule holds but warnings."""
        self.sample()
        now = self._clock()
        return {
            "healthy": all(alert.is_warning for alert in self.alerts),
            "ready": self._is_ready(now),
            "alerts": [alert.document() for alert in self.alerts],
            "warnings": list(self._warnings),
            "address": self._server.address,
            "uptimeMs": now - self._started_at_ms,
            "brokers": self._tables.broker_count,
            "topics": self._tables.topic_count,
            "connections": len(self._server.connections),
            "routeQueries": self.route_queries,
            "routeQueryFailures": self.route_failures,
            "fileLimit": descriptor_limit(),
            "memory": memory_used(),
            "memoryLimit": self.process_stats.memory_limit,
            "loopLagMs": round(self.process_stats.last_lag_ms, 3),
            "missingTopics": [topic.document() for topic in self._most_wanted(UNKNOWN_TOPICS_MAX)],
            **{name: tell() for name, tell in self._sections.items()},
        }

    def _has_route(self, topic: str) -> bool:
        return bool(self._tables.broker_names_of(topic))

    def _most_wanted(self, count_max: int) -> Sequence[UnknownTopic]:
        return self._unknown_topics.most_wanted(self._clock() - WINDOW_MS, count_max)

    def _with_topics(self, alert: Alert) -> Alert:
        """Name the unknown topics in the alert about failing route queries."""
        if alert.rule is not NameServerAlertRule.ROUTE_QUERIES_FAIL:
            return alert
        named = ", ".join(f"{found.topic} ({found.queries}, last by {found.remote})" for found in self._most_wanted(3))
        if not named:
            return alert
        return replace(alert, reason=f"{alert.reason}; without a route: {named}")

    def _sample_and_arm(self) -> None:
        try:
            self.sample()
        finally:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SAMPLE_EVERY_MS / 1000, self._sample_and_arm)
