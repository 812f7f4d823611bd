"""Metrics of consumer groups: how far behind each is, in messages and in time, and what its consumers have in flight.

An unacknowledged popped message is behind the group's offset and still not consumed: it counts as in flight.

Source: Java ConsumerLagCalculator, which shows the topics that a group subscribes to now; docs/reference/broker.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeVar

from prometheus_client.core import Metric

from orbitmq.broker.groups.offsets import SEPARATOR
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.system_topics import is_system_topic
from orbitmq.clock import Clock
from orbitmq.errors import StoreError
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.monitoring.families import Families, Series

WORK_PER_PART = 500
"""Queues, or clients, that are looked at in one turn of the loop: less than a millisecond's worth."""
_SYSTEM_GROUPS = "cid_rmq_sys_"

K = TypeVar("K")
V = TypeVar("V")


class SeriesWork:
    """What was looked at since the last part."""

    def __init__(self) -> None:
        self._count = 0

    def is_a_part_done(self, count: int) -> bool:
        """Add what was looked at; True when others should have their turn."""
        self._count += count
        if self._count < WORK_PER_PART:
            return False
        self._count = 0
        return True


def first_of(table: Mapping[K, V], count_max: int) -> Iterable[tuple[K, V]]:
    """Return a table's first entries, as many as may be shown; others may change it meanwhile."""
    return tuple(islice(table.items(), count_max))


def by_topic(table: Mapping[str, float], count_max: int) -> Series:
    """Yield what is counted of each topic."""
    work = SeriesWork()
    for topic, count in first_of(table, count_max):
        yield (topic,), count
        if work.is_a_part_done(1):
            yield None


def look(ask: Callable[[], int]) -> int:
    """Return a time that stands in the log; 0 where its file cannot be read: a damaged store has metrics all the same."""
    try:
        return ask()
    except (StoreError, OSError):
        return 0


def is_system_group(group: str) -> bool:
    """Return True if a group is the broker's own."""
    return group.lower().startswith(_SYSTEM_GROUPS)


def truth(value: bool) -> str:
    """Return a label's text."""
    return "true" if value else "false"


_LOOK_WORK = 10
"""A look into the log costs as much as so many looks at an offset."""
_LABELS = ("consumer_group", "topic", "is_retry", "is_system")
_MESSAGES = (
    ("consumer_lag_messages", "Messages that a group has not consumed yet, by its committed offsets"),
    ("consumer_inflight_messages", "Messages that a group's consumers have got and not committed or acknowledged"),
    ("consumer_ready_messages", "Messages that none of a group's consumers has got yet"),
)
_TIMES = (
    (
        "consumer_lag_latency_milliseconds",
        "How long ago the first message was stored that a group has not consumed, in ms",
    ),
    (
        "consumer_queueing_latency_milliseconds",
        "How long ago the first message was stored that no consumer has got, in ms",
    ),
)


class GroupLag(NamedTuple):
    """Where a group stands in a topic.

    Args:
        lag: messages not consumed yet.
        in_flight: those of them that its consumers have.
        ready: those that they have not.
        lag_since_ms: when the first one was stored that is not consumed; 0 without one.
        ready_since_ms: when the first one was stored that no consumer has; 0 without one.
    """

    lag: int
    in_flight: int
    ready: int
    lag_since_ms: int
    ready_since_ms: int


Place = tuple[str, int, int]


class GroupMetrics:
    """The figures of all groups.

    Args:
        families: with Java's prefix.
        series_max: pairs of a topic and a group that are told apart.
    """

    def __init__(self, families: Families, service: BrokerService, clock: Clock, series_max: int) -> None:
        self._families = families
        self._service = service
        self._clock = clock
        self._series_max = series_max
        self._stored: dict[Place, int] = {}
        """Store times that the last scrape has looked up: a group at rest costs the log no second look."""

    def collect(self) -> Iterator[Metric]:
        """Yield every family, in parts."""
        found: list[tuple[tuple[str, ...], GroupLag]] = []
        gauges = self._families.gauges
        (name, text), *others = _MESSAGES
        yield from gauges(name, text, _LABELS, self._lags(found))
        for index, (name, text) in enumerate(others, 1):
            yield from gauges(name, text, _LABELS, ((labels, standing[index]) for labels, standing in found))
        now_ms = self._clock()
        for index, (name, text) in enumerate(_TIMES, len(_MESSAGES)):
            since = ((labels, standing[index]) for labels, standing in found)
            ages = ((labels, max(0, now_ms - at_ms) if at_ms else 0) for labels, at_ms in since)
            yield from gauges(name, text, _LABELS, ages)

    def _lags(self, found: list[tuple[tuple[str, ...], GroupLag]]) -> Series:
        """Yield the lags, and keep all that was found for the families to come."""
        work = SeriesWork()
        stored: dict[Place, int] = {}
        for key, offsets in first_of(self._service.tables.offsets.all, self._series_max):
            topic, _, group = key.partition(SEPARATOR)
            known = len(stored)
            standing = self._standing(topic, group, dict(offsets), stored)
            is_system = is_system_topic(topic) or is_system_group(group)
            labels = (group, topic, truth(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))), truth(is_system))
            found.append((labels, standing))
            yield labels, standing.lag
            if work.is_a_part_done(len(offsets) + _LOOK_WORK * (len(stored) - known)):
                yield None
        self._stored = stored

    def _standing(self, topic: str, group: str, offsets: Mapping[int, int], stored: dict[Place, int]) -> GroupLag:
        store, pulled = self._service.store, self._service.monitoring.stats.pulled
        popped = self._service.delivery.pop.revive_log.checkpoints.in_flight
        lag = in_flight = ready = 0
        lag_since: list[int] = []
        ready_since: list[int] = []
        for queue_id, committed in offsets.items():
            end = store.max_offset(topic, queue_id)
            start = max(committed, store.min_offset(topic, queue_id))
            got = min(end, max(start, pulled.get((topic, group, queue_id), 0)))
            out = popped.get((topic, group, queue_id), 0)
            lag += max(0, end - start) + out
            in_flight += max(0, got - start) + out
            ready += max(0, end - got)
            if start < end or out:
                lag_since.append(self._stored_at_ms(topic, queue_id, committed - out, stored))
            if got < end:
                ready_since.append(self._stored_at_ms(topic, queue_id, got, stored))
        return GroupLag(lag, in_flight, ready, _earliest(lag_since), _earliest(ready_since))

    def _stored_at_ms(self, topic: str, queue_id: int, queue_offset: int, stored: dict[Place, int]) -> int:
        store = self._service.store
        place = topic, queue_id, max(queue_offset, store.min_offset(topic, queue_id))
        at_ms = stored.get(place) or self._stored.get(place)
        if at_ms is None:
            at_ms = max(0, look(lambda: store.stored_at_ms(*place)))
        stored[place] = at_ms
        return at_ms


def _earliest(times: list[int]) -> int:
    return min(filter(None, times), default=0)
