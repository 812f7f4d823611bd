"""Figures of a consumer's work, topic by topic, since it was opened. Pure.

State: sums. In: pulls, batches and messages as they end. Out: means and rates, as Java's ConsumeStatus has them, where
Java's client looks at the last minute.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from orbitmq.wire.bodies.consumer_info import ConsumeStatus


@dataclass(slots=True)
class TopicStatistics:
    """Sums of one topic; times in seconds."""

    pulls: int = 0
    pull_s: float = 0.0
    pulled: int = 0
    batches: int = 0
    consume_s: float = 0.0
    done: int = 0
    failed: int = 0


class ConsumeStatistics:
    """Sums by topic.

    Args:
        began_s: when the consumer was made, on the clock that `show` is told.
    """

    def __init__(self, began_s: float) -> None:
        self.topics: defaultdict[str, TopicStatistics] = defaultdict(TopicStatistics)
        self._began_s = began_s

    def show(self, topic: str, now_s: float) -> ConsumeStatus:
        """Return a topic's means and rates."""
        found = self.topics.get(topic) or TopicStatistics()
        age_s = max(1.0, now_s - self._began_s)
        return ConsumeStatus(
            pull_ms=1_000 * found.pull_s / max(1, found.pulls),
            pull_rate=found.pulled / age_s,
            consume_ms=1_000 * found.consume_s / max(1, found.batches),
            done_rate=found.done / age_s,
            failed_rate=found.failed / age_s,
            failed_count=found.failed,
        )
