"""Topics that clients ask for and no broker has, with how often, and the last client.

Pure: time comes in. Bounded. Names come from any client and end up in logs, so those that no topic may have are kept as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.nameserver.routing.validation import is_registered_name

TOPICS_MAX = 100
ILLEGAL = "(names that no topic may have)"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""Tools look for it, and brokers make it where traceTopicEnable is set."""


class UnknownTopic(NamedTuple):
    """A topic without a route; asked for `queries` times since it was first remembered, last by `remote`."""

    topic: str
    queries: int
    at_ms: int
    remote: str

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {"topic": self.topic, "count": self.queries, "at": self.at_ms, "remote": self.remote}


class UnknownTopics:
    """The last hundred topics without a route that were asked for."""

    def __init__(self) -> None:
        self._topics: dict[str, UnknownTopic] = {}
        self.optional_count = 0
        """Queries for topics that need not be there; their number only grows."""

    def note(self, topic: str, now_ms: int, remote: str) -> None:
        """Count a query without an answer; the topic that was asked for longest ago makes room for a new one.

        Topics of a group's retries and dead letters, which are made when there are some, and that of traces are only counted.
        """
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or topic == TRACE_TOPIC:
            self.optional_count += 1
            return
        if not is_registered_name(topic):
            topic = ILLEGAL
        known = self._topics.pop(topic, None)
        self._topics[topic] = UnknownTopic(topic, 1 if known is None else known.queries + 1, now_ms, remote)
        if len(self._topics) > TOPICS_MAX:
            del self._topics[next(iter(self._topics))]

    def most_wanted(self, since_ms: int, count_max: int) -> Sequence[UnknownTopic]:
        """Return those that were asked for since a time (ms since 1970), most queries first."""
        recent = [topic for topic in self._topics.values() if topic.at_ms >= since_ms]
        return sorted(recent, key=lambda topic: topic.queries, reverse=True)[:count_max]
