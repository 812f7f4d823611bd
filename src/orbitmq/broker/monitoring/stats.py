"""Counters of the broker's work, and the rates that administrators ask for.

Hot paths add to plain integers; `sample` is called once a second and remembers enough to tell the rates of the last
ten seconds, minute and ten minutes. Topics and groups have flows of their own. Pure: time is an argument.

Source: Java BrokerStats, BrokerStatsManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from orbitmq.broker.monitoring.flows import StatsItems
from orbitmq.wire.bodies.stats import BrokerStatsData

FLOWS_MAX = 50_000
WINDOWS_MS = (10_000, 60_000, 600_000)
_SAMPLES_MAX = 601
_DAY_MS = 86_400_000
PULLED_PER_FLOW = 4
"""Queues whose readers' places are known, for each flow that there may be."""
_SIZE_BITS = 64
_WHOLE = (
    "BROKER_PUT_NUMS",
    "BROKER_GET_NUMS",
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC",
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC",
    "BROKER_ACK_NUMS",
    "BROKER_CK_NUMS",
)
"""Java's names of what is counted of the whole broker."""


class Totals(NamedTuple):
    """What happened since the start."""

    put_count: int
    put_size: int
    get_count: int
    get_size: int
    found_count: int
    miss_count: int


class BrokerStats:
    """What the broker did so far.

    Args:
        flows_max: topics, and pairs of topic and group, that have figures of their own.
        system_topics: those that are the broker's own.
    """

    __slots__ = (
        "_day",
        "_morning",
        "_pulled_max",
        "_samples",
        "_system_get_count",
        "_system_topics",
        "_yesterday",
        "ack_count",
        "acks",
        "checkpoint_count",
        "checkpoints",
        "fast_failure_count",
        "found_count",
        "get_count",
        "get_size",
        "gets",
        "miss_count",
        "pulled",
        "put_bits",
        "put_count",
        "put_size",
        "puts",
        "send_backs",
        "started_at_ms",
        "whole",
    )

    def __init__(
        self, now_ms: int, *, flows_max: int = FLOWS_MAX, monotonic_ms: int = 0, system_topics: Iterable[str] = ()
    ) -> None:
        self.started_at_ms = now_ms
        self.puts: StatsItems[str] = StatsItems(flows_max, monotonic_ms)
        """Messages that were sent, by topic."""
        self.gets: StatsItems[tuple[str, str]] = StatsItems(flows_max, monotonic_ms)
        """Messages given to consumers, by topic and group."""
        self.send_backs: StatsItems[tuple[str, str]] = StatsItems(flows_max, monotonic_ms)
        """Messages that consumers sent back, by topic and group."""
        self.acks: StatsItems[tuple[str, str]] = StatsItems(flows_max, monotonic_ms)
        """Acknowledgements of popped messages, by topic and group."""
        self.checkpoints: StatsItems[tuple[str, str]] = StatsItems(flows_max, monotonic_ms)
        """Checkpoints of popped messages, by topic and group."""
        self.whole: StatsItems[str] = StatsItems(len(_WHOLE), monotonic_ms)
        """What was counted of the whole broker, by Java's names."""
        self._system_topics = frozenset(system_topics)
        self._system_get_count = 0
        self.put_count = 0
        """Messages stored."""
        self.put_size = 0
        """Bytes of their records."""
        self.put_bits = [0] * _SIZE_BITS
        """Messages by the bits of their record's size less one: those of up to 1,024 bytes have 10 bits or fewer."""
        self.pulled: dict[tuple[str, str, int], int] = {}
        """Up to where readers have pulled since the start, by topic, group and queue id."""
        self._pulled_max = PULLED_PER_FLOW * flows_max
        self.get_count = 0
        """Messages given to consumers."""
        self.get_size = 0
        self.ack_count = 0
        """Acknowledgements of popped messages, in no order."""
        self.checkpoint_count = 0
        """Checkpoints of such messages."""
        self.found_count = 0
        """Pulls that found something."""
        self.miss_count = 0
        self.fast_failure_count = 0
        """Sends that were refused because they had waited too long for their turn."""
        self._samples: deque[tuple[int, Totals]] = deque(maxlen=_SAMPLES_MAX)
        self._day = now_ms // _DAY_MS
        self._morning = self._yesterday = self.totals
        self.sample(now_ms)

    @property
    def totals(self) -> Totals:
        """The counters now."""
        return Totals(self.put_count, self.put_size, self.get_count, self.get_size, self.found_count, self.miss_count)

    @property
    def this_morning(self) -> Totals:
        """The counters when this day (UTC) began, or at the start."""
        return self._morning

    @property
    def yesterday_morning(self) -> Totals:
        """The counters when the day before began, or at the start."""
        return self._yesterday

    def put(self, topic: str, count: int, size: int, times: int = 1) -> None:
        """Count messages that were stored.

        Args:
            size: bytes of their records.
            times: as how many sends they came.
        """
        self.put_count += count
        self.put_size += size
        self.put_bits[(size // count - 1).bit_length()] += count
        self.puts.add(topic, count, size, times)

    def got(self, topic: str, group: str, count: int, size: int) -> None:
        """Count messages that were given to a group."""
        self.get_count += count
        self.get_size += size
        self.gets.add((topic, group), count, size)
        if topic in self._system_topics:
            self._system_get_count += count

    def acknowledged(self, topic: str, group: str, count: int) -> None:
        """Count acknowledgements of messages that a group popped."""
        self.ack_count += count
        self.acks.add((topic, group), count, 0)

    def checkpointed(self, topic: str, group: str) -> None:
        """Count a checkpoint of messages that a group popped."""
        self.checkpoint_count += 1
        self.checkpoints.add((topic, group), 1, 0)

    def pulled_to(self, topic: str, group: str, queue_id: int, queue_offset: int) -> None:
        """Take note of where a reader goes on."""
        pulled, place = self.pulled, (topic, group, queue_id)
        if len(pulled) < self._pulled_max or place in pulled:
            pulled[place] = queue_offset

    def stats_of(self, name: str, key: str, cluster: str) -> BrokerStatsData | None:
        """Return what was counted under one of Java's names; None: nothing was.

        Args:
            key: a topic, `topic@group`, or the cluster, by the name.
            cluster: this broker's.
        """
        topic, _, group = key.partition("@")
        match name:
            case "TOPIC_PUT_NUMS":
                return self.puts.counts(key)
            case "TOPIC_PUT_SIZE":
                return self.puts.sizes(key)
            case "GROUP_GET_NUMS":
                return self.gets.counts((topic, group))
            case "GROUP_GET_SIZE":
                return self.gets.sizes((topic, group))
            case "SNDBCK_PUT_NUMS":
                return self.send_backs.counts((topic, group))
            case "GROUP_ACK_NUMS":
                return self.acks.counts((topic, group))
            case "GROUP_CK_NUMS":
                return self.checkpoints.counts((topic, group))
            case _ if key == cluster and name in _WHOLE:
                return self.whole.counts(name)
        return None

    def forget_topic(self, topic: str) -> None:
        """Drop what was counted of a topic that is deleted."""
        self.puts.forget(lambda key: key == topic)
        for flows in self._of_readers:
            flows.forget(lambda key: key[0] == topic)
        self.pulled = {place: offset for place, offset in self.pulled.items() if place[0] != topic}

    def forget_group(self, group: str) -> None:
        """Drop what was counted of a group that is deleted."""
        for flows in self._of_readers:
            flows.forget(lambda key: key[1] == group)
        self.pulled = {place: offset for place, offset in self.pulled.items() if place[1] != group}

    @property
    def _of_readers(self) -> tuple[StatsItems[tuple[str, str]], ...]:
        return self.gets, self.send_backs, self.acks, self.checkpoints

    def sample_flows(self, now_ms: int) -> None:
        """Let the flows remember their counts; called once a second.

        Args:
            now_ms: by the monotonic clock.
        """
        system_put_count = sum(map(self.puts.total, self._system_topics))
        totals = (
            self.put_count,
            self.get_count,
            self.put_count - system_put_count,
            self.get_count - self._system_get_count,
            self.ack_count,
            self.checkpoint_count,
        )
        for name, total in zip(_WHOLE, totals, strict=True):
            known = self.whole.total(name)
            if total > known:
                self.whole.add(name, total - known, 0, times=0)
        for flows in (self.puts, self.whole):
            flows.sample(now_ms)
        for of_readers in self._of_readers:
            of_readers.sample(now_ms)

    def sample(self, now_ms: int) -> None:
        """Remember the counters; called once a second."""
        if now_ms // _DAY_MS != self._day:
            self._day = now_ms // _DAY_MS
            self._yesterday, self._morning = self._morning, self.totals
        self._samples.append((now_ms, self.totals))

    def rates(self, field: str, now_ms: int) -> tuple[float, ...]:
        """Return the change per second of one counter over each of WINDOWS_MS."""
        return tuple(self._rate(field, window_ms, now_ms) for window_ms in WINDOWS_MS)

    def _rate(self, field: str, window_ms: int, now_ms: int) -> float:
        taken_at_ms, totals = next(
            (sample for sample in self._samples if sample[0] >= now_ms - window_ms), self._samples[-1]
        )
        elapsed_ms = now_ms - taken_at_ms
        grown: int = getattr(self.totals, field) - getattr(totals, field)
        return grown * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0
