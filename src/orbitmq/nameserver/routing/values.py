"""Values of registrations: a broker with its topics, and broker groups with the addresses of their members. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orbitmq.model.route import MASTER_ID, BrokerData, QueueData
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

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    lease_ms: int = LEASE_MS
    acting_master: bool | None = None
    zone_name: str | None = None
    data_version: DataVersion = DataVersion()
    queues: Mapping[str, QueueData] = field(default_factory=dict)
    left_out: int = 0
    filter_servers: tuple[str, ...] | None = None
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def key(self) -> BrokerKey:
        """The broker that registers."""
        return BrokerKey(self.cluster, self.broker_name, self.address)


class MasterAddresses(NamedTuple):
    """What a slave learns from its registration; both None for a master or without one."""

    ha_address: str | None = None
    master_address: str | None = None


NO_MASTER = MasterAddresses()


GroupState = tuple[dict[int, str], bool, str | None]
"""What routes show of a group: addresses by id, acting master, zone."""


@dataclass(slots=True)
class BrokerGroup:
    """The brokers of one name, the topics that they hold, and a revision that grows with every change of any of it.

    `cluster` is the first one whose broker brought the name, `clusters` are all that list it.
    """

    cluster: str
    broker_name: str
    addresses: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    acting_master: bool = False
    topics: dict[str, None] = field(default_factory=dict)
    clusters: dict[str, None] = field(default_factory=dict)
    revision: int = 0
    # A group of hundreds of topics stands in hundreds of routes: they share one value until the next change.
    _data: BrokerData | None = None

    @property
    def state(self) -> GroupState:
        """What routes show of the group, as a value to compare with a later one."""
        return dict(self.addresses), self.acting_master, self.zone_name

    @property
    def smallest_id(self) -> int:
        """The smallest broker id; the master's in an empty group."""
        return min(self.addresses, default=MASTER_ID)

    @property
    def data(self) -> BrokerData:
        """The group as routes show it."""
        if self._data is None:
            self._data = BrokerData(
                cluster=self.cluster,
                broker_name=self.broker_name,
                addresses=dict(self.addresses),
                zone_name=self.zone_name,
                enable_acting_master=self.acting_master,
            )
        return self._data

    def id_of(self, address: str) -> int | None:
        """Return the id of a broker, None when it is not in the group."""
        return next((broker_id for broker_id, found in self.addresses.items() if found == address), None)

    def drop_address(self, address: str, *, except_id: int | None = None) -> None:
        """Take an address from every id but one: a process has one id at a time."""
        held = [broker_id for broker_id, found in self.addresses.items() if found == address]
        for broker_id in held:
            if broker_id != except_id:
                del self.addresses[broker_id]

    def revise(self, revision: int) -> None:
        """Note that something about the group has changed."""
        self._data = None
        self.revision = revision
