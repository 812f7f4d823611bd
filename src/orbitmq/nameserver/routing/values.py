"""Values of registrations: a broker with its topics, and what it is told of its master. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orbitmq.model.route import QueueData
from orbitmq.model.topic import DataVersion

LEASE_MS = 120_000
"""How long a broker may be silent when its registration does not say (Java: DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""


class BrokerKey(NamedTuple):
    """A broker; the same address may stand for several, in other clusters or under other names."""

    cluster: str
    broker_name: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker with its topics.

    `acting_master` None is a broker before 5.0. `queues` are by topic; `left_out` is how many topics it listed besides,
    with names that are not legal. `filter_servers` None leaves them as they are.
    `queue_mappings` are static-topic mappings by topic, passed on as they came.
    """

    key: BrokerKey
    broker_id: int
    ha_address: str = ""
    lease_ms: int = LEASE_MS
    acting_master: bool | None = None
    zone_name: str | None = None
    data_version: DataVersion = DataVersion()
    queues: Mapping[str, QueueData] = field(default_factory=dict)
    left_out: int = 0
    filter_servers: tuple[str, ...] | None = None
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class MasterAddresses(NamedTuple):
    """What a slave learns from its registration; both None for a master or without one."""

    ha_address: str | None = None
    master_address: str | None = None


NO_MASTER = MasterAddresses()
