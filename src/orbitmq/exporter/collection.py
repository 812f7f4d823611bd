"""Values of one collection: brokers, topics, groups, and how far each group is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.model.group import MessageModel
from orbitmq.model.route import MASTER_ID
from orbitmq.wire.bodies.groups import ClientConnection
from orbitmq.wire.bodies.stats import BrokerStatsItem


class BrokerKey(NamedTuple):
    """One broker of a cluster."""

    cluster: str
    broker: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        """True for the broker that takes messages."""
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerValues:
    """One broker that answered.

    Args:
        runtime: its run-time values, by Java's names.
        put: messages that it took in the last minute; None: none yet, or it is a slave.
        got: messages that it gave.
        topic_count: topics that it has; None where it was not asked.
        group_count: consumer groups that it has settings of.
        producers: how many producers of each producer group are connected.
    """

    runtime: Mapping[str, str]
    put: BrokerStatsItem | None = None
    got: BrokerStatsItem | None = None
    topic_count: int | None = None
    group_count: int | None = None
    producers: Mapping[str, int]


class TopicKey(NamedTuple):
    """One topic on one master."""

    cluster: str
    broker: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicValues:
    """All queues of one topic on one master.

    Args:
        begin: the sum of the queues' first offsets.
        end: the sum of the offsets behind their last messages.
        put: messages that came in the last minute; None: none were counted.
        put_size: bytes of them.
    """

    begin: int
    end: int
    put: BrokerStatsItem | None = None
    put_size: BrokerStatsItem | None = None


class ReaderKey(NamedTuple):
    """One group in one topic on one master."""

    cluster: str
    broker: str
    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderValues:
    """How far a group is in all queues of one topic on one master. Offsets are sums over the queues.

    Args:
        end: behind the last messages.
        committed: up to where the group has consumed.
        pulled: up to where its consumers have got messages.
        gone: messages behind the committed offsets that are deleted.
        waiting_since_ms: when the first message was stored that waits to be consumed; 0: none waits; None: it was not found.
        got: messages that the group got in the last minute; None: none were counted.
        got_size: bytes of them.
        sent_back: messages that its consumers sent back to be delivered again, in the last minute.
    """

    end: int
    committed: int
    pulled: int
    gone: int = 0
    waiting_since_ms: int | None = 0
    got: BrokerStatsItem | None = None
    got_size: BrokerStatsItem | None = None
    sent_back: BrokerStatsItem | None = None

    @property
    def lag(self) -> int:
        """Messages that are not consumed yet."""
        return max(0, self.end - self.committed - self.gone)

    @property
    def in_flight(self) -> int:
        """Messages of the lag that consumers have got."""
        return max(0, min(self.end, self.pulled) - self.committed - self.gone)


class GroupValues(NamedTuple):
    """The consumers of a group that are online at any broker."""

    clients: tuple[ClientConnection, ...] = ()
    message_model: MessageModel = MessageModel.CLUSTERING


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What one collection found, without what did not answer.

    Args:
        at_ms: when it ended, in ms since 1970.
        seconds: how long it took.
        known: every broker that NameServers name; those that did not answer are not in `brokers`.
        silent: masters that left a question unanswered; sums over all brokers are not known then.
    """

    at_ms: int
    seconds: float
    known: tuple[BrokerKey, ...]
    brokers: Mapping[BrokerKey, BrokerValues]
    topics: Mapping[TopicKey, TopicValues]
    readers: Mapping[ReaderKey, ReaderValues]
    groups: Mapping[str, GroupValues]
    silent: frozenset[BrokerKey] = frozenset()
