"""Collections of a cluster's values: every broker is asked, a bounded number of questions at a time.

A broker that does not answer costs a few timeouts, and not one for each of its topics; what one refuses stops no other question.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from orbitmq.admin import AdminClient
from orbitmq.admin.one_broker import BrokerAdmin
from orbitmq.clock import Clock, monotonic_ms, now_ms
from orbitmq.errors import ConnectionFailed, OrbitError, RequestTimeout
from orbitmq.exporter.collection import (
    BrokerKey,
    BrokerValues,
    Collection,
    GroupValues,
    ReaderKey,
    ReaderValues,
    TopicKey,
    TopicValues,
)
from orbitmq.model.group import MessageModel
from orbitmq.model.route import ClusterInfo, MessageQueue
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.wire.bodies.groups import ClientConnection
from orbitmq.wire.bodies.stats import BrokerStatsItem
from orbitmq.wire.bodies.topics import QueueProgress

log = logging.getLogger(__name__)

IN_FLIGHT_MAX = 32
"""Questions to the whole cluster at the same time."""
TIMEOUTS_MAX = 3
"""A broker that has not answered so many questions in time is asked nothing more in this collection."""

QUESTIONS = ("runtime", "topics", "groups", "producers", "topic", "consumers", "progress", "waiting message", "stats")
"""What brokers are asked for."""

T = TypeVar("T")


class Collector:
    """Collects a cluster's values again and again.

    Args:
        with_ages: ask of each group that is behind when its first waiting message was stored: brokers send that message.
    """

    def __init__(
        self,
        admin: AdminClient,
        *,
        with_ages: bool = True,
        in_flight_max: int = IN_FLIGHT_MAX,
        clock: Clock = now_ms,
        monotonic: Clock = monotonic_ms,
    ) -> None:
        self.errors: Counter[tuple[str, str]] = Counter()
        """Questions without an answer since the start, by what was asked, and the broker's name: empty for NameServers."""
        self._admin = admin
        self._with_ages = with_ages
        self._in_flight_max = in_flight_max
        self._clock = clock
        self._monotonic = monotonic

    async def collect(self) -> Collection:
        """Ask every broker once.

        Raises:
            OrbitError: no NameServer says which brokers there are.
        """
        started_ms = self._monotonic()
        try:
            info = await self._admin.cluster_info()
        except OrbitError:
            self.errors["cluster", ""] += 1
            raise
        asked = _Questions(self._admin, self.errors, self._in_flight_max, self._with_ages)
        known = _known_brokers(info)
        await asked.each(known, asked.read_broker)
        await asked.each([(key, topic) for key in known for topic in asked.topics_of.get(key, ())], asked.read_topic)
        await asked.each([(key, group) for key in known for group in asked.groups_of.get(key, ())], asked.read_group)
        return Collection(
            at_ms=self._clock(),
            seconds=(self._monotonic() - started_ms) / 1000,
            known=known,
            brokers=asked.brokers,
            topics=asked.topics,
            readers=asked.readers,
            groups=asked.group_values(),
            silent=frozenset(filter(asked.is_silent, known)),
        )


class _Questions:
    """The questions of one collection, and what was answered."""

    def __init__(
        self, admin: AdminClient, errors: Counter[tuple[str, str]], in_flight_max: int, with_ages: bool
    ) -> None:
        self.brokers: dict[BrokerKey, BrokerValues] = {}
        self.topics_of: dict[BrokerKey, Iterable[str]] = {}
        self.groups_of: dict[BrokerKey, Iterable[str]] = {}
        self.topics: dict[TopicKey, TopicValues] = {}
        self.readers: dict[ReaderKey, ReaderValues] = {}
        self._begins: dict[MessageQueue, int] = {}
        """First offsets of queues, where they are not 0."""
        self._clients: dict[str, dict[str, ClientConnection]] = {}
        self._models: dict[str, MessageModel] = {}
        self._timeouts: Counter[str] = Counter()
        self._admin = admin
        self._errors = errors
        self._in_flight_max = in_flight_max
        self._with_ages = with_ages

    async def each(self, jobs: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Do all jobs, some at a time."""
        left = iter(jobs)

        async def take() -> None:
            for job in left:
                await work(job)

        # As many tasks as questions: one for each topic of a large cluster would stop the loop while they are made.
        await asyncio.gather(*(take() for _ in range(self._in_flight_max)))

    def is_silent(self, key: BrokerKey) -> bool:
        """Return True for a master that left a question unanswered."""
        return key.is_master and self._timeouts[key.address] > 0

    async def read_broker(self, key: BrokerKey) -> None:
        """Ask a broker for its run-time values; a master for its topics, groups, producers and rates, too."""
        broker = await self._admin.broker(key.address)
        runtime = await self._ask("runtime", key, broker.runtime_info)
        if not key.is_master:
            if runtime is not None:
                self.brokers[key] = BrokerValues(runtime=runtime, producers={})
            return
        topics = await self._ask("topics", key, broker.topics)
        groups = await self._ask("groups", key, broker.groups)
        if runtime is None and topics is None and groups is None:
            return
        self.topics_of[key], self.groups_of[key] = topics or (), groups or ()
        self.brokers[key] = BrokerValues(
            runtime=runtime or {},
            put=await self._minute(key, broker, "BROKER_PUT_NUMS", key.cluster),
            got=await self._minute(key, broker, "BROKER_GET_NUMS", key.cluster),
            topic_count=None if topics is None else len(topics),
            group_count=None if groups is None else len(groups),
            producers=await self._ask("producers", key, broker.producer_counts) or {},
        )

    async def read_topic(self, job: tuple[BrokerKey, str]) -> None:
        """Ask a master for one topic."""
        key, topic = job
        broker = await self._admin.broker(key.address)
        queues = await self._ask("topic", key, lambda: broker.topic_stats(topic))
        if queues is None:
            return
        self._begins.update((queue, found.min_offset) for queue, found in queues.items() if found.min_offset)
        is_sent_to = not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        self.topics[TopicKey(key.cluster, key.broker, topic)] = TopicValues(
            begin=sum(queue.min_offset for queue in queues.values()),
            end=sum(queue.max_offset for queue in queues.values()),
            put=await self._minute(key, broker, "TOPIC_PUT_NUMS", topic) if is_sent_to else None,
            put_size=await self._minute(key, broker, "TOPIC_PUT_SIZE", topic) if is_sent_to else None,
        )

    async def read_group(self, job: tuple[BrokerKey, str]) -> None:
        """Ask a master for one group: its consumers, and how far it is in each topic that it reads."""
        key, group = job
        broker = await self._admin.broker(key.address)
        clients = self._clients.setdefault(group, {})
        online = await self._ask("consumers", key, lambda: broker.consumers(group))
        if online is not None:
            clients.update((client.client_id, client) for client in online[0])
            self._models[group] = online[1]
        progress = await self._ask("progress", key, lambda: broker.progress(group)) or {}
        by_topic: dict[str, dict[MessageQueue, QueueProgress]] = {}
        for queue, place in progress.items():
            by_topic.setdefault(queue.topic, {})[queue] = place
        for topic, queues in by_topic.items():
            pair = f"{topic}@{group}"
            starts = {queue: max(place.consumer_offset, self._begins.get(queue, 0)) for queue, place in queues.items()}
            self.readers[ReaderKey(key.cluster, key.broker, topic, group)] = ReaderValues(
                end=sum(place.broker_offset for place in queues.values()),
                committed=sum(place.consumer_offset for place in queues.values()),
                pulled=sum(max(starts[queue], place.pull_offset) for queue, place in queues.items()),
                gone=sum(starts[queue] - place.consumer_offset for queue, place in queues.items()),
                waiting_since_ms=await self._waiting_since_ms(
                    key,
                    broker,
                    {queue: start for queue, start in starts.items() if start < queues[queue].broker_offset},
                ),
                got=await self._minute(key, broker, "GROUP_GET_NUMS", pair),
                got_size=await self._minute(key, broker, "GROUP_GET_SIZE", pair),
                sent_back=await self._minute(key, broker, "SNDBCK_PUT_NUMS", pair),
            )

    def group_values(self) -> dict[str, GroupValues]:
        """Return the consumers of each group, at whichever brokers they are."""
        return {
            group: GroupValues(
                tuple(clients[client_id] for client_id in sorted(clients)),
                self._models.get(group, MessageModel.CLUSTERING),
            )
            for group, clients in self._clients.items()
        }

    async def _waiting_since_ms(
        self, key: BrokerKey, broker: BrokerAdmin, behind: dict[MessageQueue, int]
    ) -> int | None:
        if not behind:
            return 0
        if not self._with_ages:
            return None
        found = []
        for queue, offset in behind.items():

            def look(queue: MessageQueue = queue, offset: int = offset) -> Awaitable[int | None]:
                return broker.stored_at_ms(queue, offset)

            found.append(await self._ask("waiting message", key, look))
        return min((at_ms for at_ms in found if at_ms), default=None)

    async def _minute(self, key: BrokerKey, broker: BrokerAdmin, name: str, of: str) -> BrokerStatsItem | None:
        stats = await self._ask("stats", key, lambda: broker.stats(name, of))
        return None if stats is None else stats.minute

    async def _ask(self, what: str, key: BrokerKey, question: Callable[[], Awaitable[T]]) -> T | None:
        """Return an answer; None, and count it, where there is none."""
        if self._timeouts[key.address] >= TIMEOUTS_MAX:
            return None
        try:
            return await question()
        except ConnectionFailed as error:
            self._timeouts[key.address] = TIMEOUTS_MAX
            self._count(what, key, error)
        except RequestTimeout as error:
            self._timeouts[key.address] += 1
            self._count(what, key, error)
        except OrbitError as error:
            self._count(what, key, error)
        return None

    def _count(self, what: str, key: BrokerKey, error: OrbitError) -> None:
        self._errors[what, key.broker] += 1
        log.debug("%s of the broker %s at %s: %s", what, key.broker, key.address, error)


def _known_brokers(info: ClusterInfo) -> tuple[BrokerKey, ...]:
    return tuple(
        BrokerKey(cluster, name, broker_id, address)
        for cluster, names in sorted(info.clusters.items())
        for name in sorted(names)
        if name in info.brokers
        for broker_id, address in sorted(info.brokers[name].addresses.items())
    )
