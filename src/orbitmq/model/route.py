"""Routes: the brokers that hold the queues of a topic. A NameServer answers with them, clients follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MASTER_ID = 0
"""The broker id of a group's master; slaves have greater ids (Java: MixAll.MASTER_ID)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData:
    """The queues of one topic on one broker group."""

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    perm: int
    topic_sys_flag: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData:
    """One broker group: a master and its slaves.

    `addresses` maps broker id (0 is the master) to host:port.
    """

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    zone_name: str | None = None
    enable_acting_master: bool = False

    @property
    def first_address(self) -> str:
        """The master's address, of a group without one the slave's with the least id; empty without any."""
        return self.addresses[min(self.addresses)] if self.addresses else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """Everything a client needs to reach a topic (Java: TopicRouteData).

    `queue_mappings` (broker name to static-topic mapping) is passed on as it came; None without static topics.
    """

    queues: tuple[QueueData, ...] = ()
    brokers: tuple[BrokerData, ...] = ()
    order_topic_conf: str | None = None
    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queue_mappings: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """The address to ask of each broker group that has one, by its name (`BrokerData.first_address`)."""
        return {broker.broker_name: broker.first_address for broker in self.brokers if broker.addresses}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """All broker groups by name, and the names of each cluster's groups (Java: ClusterInfo)."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, tuple[str, ...]]


class MessageQueue(NamedTuple):
    """One queue of one topic on one broker group; sorts as Java's MessageQueue does."""

    topic: str
    broker_name: str
    queue_id: int
