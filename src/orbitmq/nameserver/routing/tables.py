"""The NameServer's whole state, and every question about it. Pure.

State: topics -> queues by broker name, broker names -> addresses by id, clusters -> broker names, brokers -> leases,
brokers -> filter servers. `route_table.RouteTable` changes them, always all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbitmq.model.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute
from orbitmq.nameserver.routing.leases import Lease, Leases
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses

NO_QUEUES: Mapping[str, QueueData] = {}

Look = tuple[dict[int, str], bool, str | None]
"""What routes show of a group: addresses by id, acting master, zone."""


@dataclass(slots=True)
class Group:
    """A broker name: master and slaves by id. `data` is how routes show it, made when first asked for after a change."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    acting_master: bool = False
    topics: dict[str, None] = field(default_factory=dict)
    revision: int = 0
    data: BrokerData | None = None

    @property
    def look(self) -> Look:
        """What routes show of the group, as a value to compare with a later one."""
        return dict(self.addresses), self.acting_master, self.zone_name


class Tables:
    """Topics, brokers, clusters, leases and filter servers, to be looked at."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._groups: dict[str, Group] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._leases = Leases()
        self._filter_servers: dict[BrokerKey, tuple[str, ...]] = {}
        self._mappings: dict[str, dict[str, Mapping[str, Any]]] = {}

    def lookup(self, topic: str) -> TopicRoute | None:
        """Return where a topic's queues are; None when no known broker has any."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        brokers = tuple(map(self._broker_data, queues))
        mappings = self._mappings.get(topic)
        return TopicRoute(
            queues=tuple(queues.values()),
            brokers=brokers,
            filter_servers=self._filter_servers_of(brokers) if self._filter_servers else {},
            queue_mappings=dict(mappings) if mappings else None,
        )

    def cluster_info(self) -> ClusterInfo:
        """Return all brokers of all clusters."""
        return ClusterInfo(
            brokers={name: self._broker_data(name) for name in self._groups},
            clusters={cluster: tuple(names) for cluster, names in self._clusters.items()},
        )

    def member_group(self, broker_name: str) -> Mapping[int, str]:
        """Return a broker name's addresses by id; empty when it is not known."""
        group = self._groups.get(broker_name)
        return dict(group.addresses) if group is not None else {}

    def topics(self) -> tuple[str, ...]:
        """Return every topic."""
        return tuple(self._topics)

    def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        """Return every topic that a cluster's brokers have."""
        names = self._clusters.get(cluster, {})
        return tuple(dict.fromkeys(topic for name in names for topic in self._groups[name].topics))

    def topics_by_flag(self, has: int, has_not: int = 0) -> tuple[str, ...]:
        """Return the topics whose first queues have all bits of `has` and none of `has_not` in their system flag."""
        firsts = ((topic, next(iter(queues.values()))) for topic, queues in self._topics.items())
        return tuple(
            topic for topic, first in firsts if first.topic_sys_flag & has == has and not first.topic_sys_flag & has_not
        )

    def agrees_with(self, broker_name: str, queues: Mapping[str, QueueData]) -> bool:
        """Tell whether the table holds these topics of a broker name just so."""
        known, nothing = self._topics, NO_QUEUES
        for topic, queue in queues.items():
            held = known.get(topic, nothing).get(broker_name)
            if held is not queue and held != queue:
                return False
        return True

    def lease_of(self, key: BrokerKey) -> Lease | None:
        """Return a broker's lease, None when it is not registered. Not to be changed by the caller."""
        return self._leases.get(key)

    def revision_of(self, broker_name: str) -> int:
        """Return a number that is another one after every change that concerns the broker name; 0: unknown."""
        group = self._groups.get(broker_name)
        return group.revision if group is not None else 0

    def master_of(self, broker_name: str, broker_id: int, cluster: str) -> MasterAddresses:
        """Return what a slave is told of its master, if that is alive."""
        group = self._groups.get(broker_name)
        master = group.addresses.get(MASTER_ID) if group is not None and broker_id != MASTER_ID else None
        lease = self._leases.get(BrokerKey(cluster, master)) if master is not None else None
        return MasterAddresses(lease.ha_address, master) if lease is not None else MasterAddresses()

    def has_silent(self, now_ms: int) -> bool:
        """Tell whether any broker's lease is over."""
        return bool(self._leases.over(now_ms))

    def owns_leases(self, owner: int) -> bool:
        """Tell whether any broker speaks through a connection."""
        return bool(self._leases.owned_by(owner))

    @property
    def broker_count(self) -> int:
        """Brokers with a lease."""
        return len(self._leases)

    @property
    def topic_count(self) -> int:
        """Topics known."""
        return len(self._topics)

    def _broker_data(self, broker_name: str) -> BrokerData:
        group = self._groups[broker_name]
        if group.data is None:
            group.data = BrokerData(
                cluster=group.cluster,
                broker_name=broker_name,
                addresses=dict(group.addresses),
                zone_name=group.zone_name,
                enable_acting_master=group.acting_master,
            )
        return group.data

    def _filter_servers_of(self, brokers: Iterable[BrokerData]) -> dict[str, tuple[str, ...]]:
        return {
            address: servers
            for broker in brokers
            for address in broker.addresses.values()
            if (servers := self._filter_servers.get(BrokerKey(broker.cluster, address)))
        }
