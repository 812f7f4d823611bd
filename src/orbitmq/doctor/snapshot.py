"""Everything that the checks are given: the answers of servers at one time, as values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orbitmq.admin.controller_facts import ControllerFacts
from orbitmq.admin.groups import GroupStatus
from orbitmq.admin.route_comparison import RouteFacts
from orbitmq.model.group import MessageModel, unread_count
from orbitmq.model.route import ClusterInfo, MessageQueue, TopicRoute
from orbitmq.model.topic import RETRY_PREFIX, TopicConfig, kind_of, retention_hours, topics_named_after
from orbitmq.wire.bodies.consumer_info import RunningInfo
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.topics import QueueStats

_RESERVED_HOURS = 72.0
"""How long brokers keep messages by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerFacts:
    """One NameServer.

    Args:
        problem: why it could not be asked; None: it was.
        health: its health document; Java's gives none.
        certificate_ends_ms: when the certificate that it shows ends; None: without TLS, or not told.
    """

    address: str
    problem: str | None = None
    info: ClusterInfo | None = None
    routes: RouteFacts | None = None
    health: Mapping[str, Any] | None = None
    certificate_ends_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """One broker, at the address that it announces.

    Args:
        problem: why it did not answer at all; None: it did.
        refusals: the queries that it did not answer, and why.
        queried_at_ms: our clock, in the middle of the request for its run-time values.
        health: its health document; Java's gives none.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    problem: str | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    queried_at_ms: int = 0
    runtime: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    groups: Mapping[str, GroupConfig] = field(default_factory=dict)
    health: Mapping[str, Any] | None = None
    certificate_ends_ms: int | None = None

    @property
    def is_master(self) -> bool:
        """Whether it takes messages."""
        return self.broker_id == 0

    @property
    def subject(self) -> str:
        """Return what issues call it."""
        return f"broker {self.name}" if self.is_master else f"broker {self.name} (id {self.broker_id})"

    def runtime_number(self, key: str) -> float | None:
        """Return a run-time value as a number; of several in one text the first. None: it is none, or has over 64 bits."""
        try:
            number = float(self.runtime.get(key, "").split()[0])
        except (IndexError, ValueError):
            return None
        return number if abs(number) < 2**63 else None

    def kept_hours(self, topic: str | None = None) -> float:
        """Return how long its log keeps messages (fileReservedTime), or, where that is less, for how long those of a topic are shown."""
        try:
            hours = float(self.settings.get("fileReservedTime", _RESERVED_HOURS))
        except ValueError:
            hours = _RESERVED_HOURS
        shown = retention_hours(self.topics.get(topic)) if topic else 0
        return min(hours, shown) if shown else hours


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One consumer group.

    Args:
        are_members_known: every master has reported which members are online; else the status lacks some.
        clients: the state that each client reports, by client id; those that do not answer are missing.
        delays: how old the next message for it is, in ms, of each queue in which one waits; empty where there is no lag.
    """

    status: GroupStatus
    are_members_known: bool = True
    clients: Mapping[str, RunningInfo] = field(default_factory=dict)
    delays: Mapping[MessageQueue, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The answers of all servers at one time.

    Args:
        taken_at_ms: our clock.
        routes: of every topic, as the first NameServer that answered knows them.
        queues: where each queue begins and ends.
        committed: what each group has committed.
        left_out: what was not queried, because there is too much of it.
        silent: names of masters that left a query unanswered, or were lost, sorted: lags are without their part.
    """

    taken_at_ms: int
    name_servers: Sequence[NameServerFacts] = ()
    brokers: Sequence[BrokerFacts] = ()
    controllers: Sequence[ControllerFacts] = ()
    routes: Mapping[str, TopicRoute] = field(default_factory=dict)
    queues: Mapping[MessageQueue, QueueStats] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    committed: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    silent: Sequence[str] = ()

    def masters(self) -> Iterator[BrokerFacts]:
        """Yield the masters that answered."""
        return (broker for broker in self.brokers if broker.is_master and broker.problem is None)

    def members(self) -> dict[str, list[BrokerFacts]]:
        """Return all brokers by name, the master first."""
        found: dict[str, list[BrokerFacts]] = {}
        for broker in sorted(self.brokers, key=lambda broker: (broker.name, broker.broker_id)):
            found.setdefault(broker.name, []).append(broker)
        return found

    def user_topics(self) -> dict[str, list[MessageQueue]]:
        """Return the queues of each topic that a user made, sorted."""
        own = topics_named_after({broker.cluster for broker in self.brokers}, {broker.name for broker in self.brokers})
        found: dict[str, list[MessageQueue]] = {}
        for queue in sorted(self.queues):
            if kind_of(queue.topic, own) == "user":
                found.setdefault(queue.topic, []).append(queue)
        return found

    def used_offsets(self, group: str) -> dict[MessageQueue, int]:
        """Return what a group has committed and goes on from.

        Offsets stay at brokers when the members leave a topic, or read it as broadcasting from then on. Of a group that is
        offline, or whose members are assigned queues and subscribe to nothing, all of them count.
        """
        committed, facts = self.committed.get(group, {}), self.groups.get(group)
        if facts is None or not facts.status.clients:
            return dict(committed)
        if facts.status.message_model is MessageModel.BROADCASTING:
            return {}
        retries = RETRY_PREFIX + group
        topics = set(facts.status.subscriptions) | {
            subscription.topic for client in facts.clients.values() for subscription in client.subscriptions
        }
        if topics <= {retries}:
            return dict(committed)
        # POP has a retry topic for each topic, to which no member subscribes.
        return {
            queue: offset
            for queue, offset in committed.items()
            if queue.topic in topics or queue.topic.startswith(retries)
        }

    def lag(self, group: str) -> int:
        """Return how many messages a group has still to read; those that are deleted do not count."""
        return sum(
            unread_count(offset, stats.min_offset, stats.max_offset)
            for queue, offset in self.used_offsets(group).items()
            if (stats := self.queues.get(queue)) is not None
        )
