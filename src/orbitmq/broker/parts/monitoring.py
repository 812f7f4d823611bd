"""Counters of a broker, and its health."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.broker.monitoring.creations import CreationTimes
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.parts.context import BrokerContext
from orbitmq.broker.topics.system_topics import system_topic_names


class Monitoring:
    """The counters of a broker."""

    def __init__(self, context: BrokerContext) -> None:
        config = context.config
        self.stats = BrokerStats(
            context.clock(),
            flows_max=config.metrics_otel_cardinality_limit,
            monotonic_ms=context.monotonic(),
            system_topics=system_topic_names(config),
        )
        self.topic_creations = CreationTimes(context.monotonic)
        self.group_creations = CreationTimes(context.monotonic)
        self.health: Callable[[], dict[str, Any]] = dict
        """Describes how the broker is doing, as a JSON document; its monitor sets it."""
