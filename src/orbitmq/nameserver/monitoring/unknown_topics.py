"""Topics that clients ask for and no broker has, with how often, and the last client.

Pure: time comes in. Bounded. Names come from any client and end up in logs, so those that no topic may have are kept as one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.nameserver.routing.validation import is_registered_name

TOPICS_MAX = 100
ILLEGAL = "(names that no topic may have)"
APPEARS_MS = 60_000
"""A query counts as nothing while its topic may still appear, and when it has: a first send creates its topic."""
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""Tools look for it, and brokers make it where traceTopicEnable is set."""
_SPAN_MS = 1_000
_PER_SPAN_MAX = 1_000
"""Topics of one second that are waited for; queries for more count immediately."""


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
        self._recent: deque[tuple[int, Counter[str]]] = deque()
        """Queries of the last minute by topic, a part for each second."""
        self._appeared_count = self._optional_count = 0

    @property
    def excused_count(self) -> int:
        """Queries that count as nothing: for topics that have appeared, or may still, or need not be there."""
        return self._appeared_count + self._optional_count + sum(queries.total() for _, queries in self._recent)

    def settle(self, has_route: Callable[[str], bool], now_ms: int) -> None:
        """Look which topics have appeared: these are missing no longer. Those that have not within a minute count."""
        for topic in {topic for _, queries in self._recent for topic in queries}:
            if has_route(topic):
                self._topics.pop(topic, None)
                self._appeared_count += sum(queries.pop(topic, 0) for _, queries in self._recent)
        while self._recent and self._recent[0][0] < now_ms - APPEARS_MS:
            self._recent.popleft()

    def note(self, topic: str, now_ms: int, remote: str, *, is_refused: bool = True) -> None:
        """Count a query without an answer; the topic that was asked for longest ago makes room for a new one.

        Topics of a group's retries and dead letters, which are made when there are some, and that of traces count as nothing.

        Args:
            is_refused: False: another NameServer is asked, and whether the query ends without a route is not known yet.
        """
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or topic == TRACE_TOPIC:
            self._optional_count += is_refused
            return
        if is_refused:
            self._wait_for(topic, now_ms)
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

    def _wait_for(self, topic: str, now_ms: int) -> None:
        if not self._recent or now_ms - self._recent[-1][0] >= _SPAN_MS:
            self._recent.append((now_ms, Counter()))
        queries = self._recent[-1][1]
        if topic in queries or len(queries) < _PER_SPAN_MAX:
            queries[topic] += 1
