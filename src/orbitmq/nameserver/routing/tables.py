"""The NameServer's whole state, with every question about it and every elementary change of it. Pure.

State: topics -> queues by broker name, broker names -> groups, clusters -> broker names, brokers -> leases,
brokers -> filter servers, topics -> static-topic mappings by broker name.

Each elementary change keeps all tables in step, gives the broker name a new revision, and records a `RouteChange`. When to make
which of them is for `route_table.RouteTable` to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orbitmq.model.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute
from orbitmq.nameserver.routing.events import ChangeKind, QueueChange, QueueChanges, RouteChange, Trigger
from orbitmq.nameserver.routing.leases import Lease, Leases
from orbitmq.nameserver.routing.values import NO_MASTER, BrokerKey, MasterAddresses
from orbitmq.wire.slices import Slices

PermRule = Callable[[int], int]

LIST_SLICE = 20_000
"""Topics that a list looks at in one slice."""

_NO_QUEUES: Mapping[str, QueueData] = {}


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


class Tables:
    """Topics, broker groups, clusters, leases, filter servers and static-topic mappings."""

    def __init__(self) -> None:
        self.leases = Leases()
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._groups: dict[str, BrokerGroup] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._filter_servers: dict[BrokerKey, tuple[str, ...]] = {}
        # By topic and by the broker name that a mapping names; each with the broker name that brought it.
        self._mappings: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = {}
        # Their topics and names, by each broker name that they go with.
        self._mapped: dict[str, dict[tuple[str, str], None]] = {}
        self._changes: list[RouteChange] = []
        self._ended: list[BrokerKey] = []
        self._last_revision = 0

    # Questions of clients and administrators.

    def lookup(self, topic: str) -> TopicRoute | None:
        """Return where a topic's queues are; None when no known broker has any."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        groups = self._groups
        names = [name for name in queues if groups[name].addresses]  # the others are leaving, topic by topic
        if not names:
            return None
        brokers = tuple(groups[name].data for name in names)
        mappings = self._mappings.get(topic)
        return TopicRoute(
            queues=tuple(queues[name] for name in names),
            brokers=brokers,
            filter_servers=self._filter_servers_of(brokers) if self._filter_servers else {},
            queue_mappings={name: mapping for name, (_, mapping) in mappings.items()} if mappings else None,
        )

    def cluster_info(self) -> ClusterInfo:
        """Return all brokers of all clusters."""
        return ClusterInfo(
            brokers={name: group.data for name, group in self._groups.items() if group.addresses},
            clusters={
                cluster: tuple(name for name in names if self._groups[name].addresses)
                for cluster, names in self._clusters.items()
            },
        )

    def member_group(self, broker_name: str) -> Mapping[int, str]:
        """Return a broker name's addresses by id; empty when it is not known."""
        group = self._groups.get(broker_name)
        return dict(group.addresses) if group is not None else {}

    def topics(self) -> tuple[str, ...]:
        """Return every topic."""
        return tuple(self._topics)

    def topics_of_cluster(self, cluster: str) -> Slices[Iterable[str]]:
        """Return every topic that a cluster's brokers have, looking at some thousands in one slice."""
        topics: dict[str, None] = {}
        work = 0
        for name in tuple(self._clusters.get(cluster, ())):
            group = self._groups.get(name)
            if group is None:  # it has left between two slices
                continue
            topics.update(group.topics)
            work += len(group.topics)
            if work > LIST_SLICE:
                work = 0
                yield
        return topics

    def topics_by_flag(self, has: int, has_not: int = 0) -> Slices[Iterable[str]]:
        """Return the topics whose first queues have all bits of `has` and none of `has_not` in their system flag.

        Some thousands are looked at in one slice.
        """
        found: list[str] = []
        known = self._topics
        topics = tuple(known)
        for start in range(0, len(topics), LIST_SLICE):
            if start:
                yield
            for topic in topics[start : start + LIST_SLICE]:
                if topic in known:  # it may have gone between two slices
                    flag = next(iter(known[topic].values())).topic_sys_flag
                    if flag & has == has and not flag & has_not:
                        found.append(topic)
        return found

    @property
    def broker_count(self) -> int:
        """Brokers with a lease."""
        return len(self.leases)

    @property
    def topic_count(self) -> int:
        """Topics known."""
        return len(self._topics)

    # Questions of registrations.

    def group_of(self, broker_name: str) -> BrokerGroup | None:
        """Return a broker name's group, None when it is not known."""
        return self._groups.get(broker_name)

    def broker_names_of(self, topic: str, cluster: str | None = None) -> list[str]:
        """Return the broker names that have a topic, in one cluster or in any."""
        names = list(self._topics.get(topic, ()))
        return names if cluster is None else [name for name in names if name in self._clusters.get(cluster, ())]

    def lease_of(self, key: BrokerKey) -> Lease | None:
        """Return a broker's lease, None when it is not registered. Not to be changed by the caller."""
        return self.leases.get(key)

    def revision_of(self, broker_name: str) -> int:
        """Return a number that is another one after every change that concerns the broker name; 0: unknown."""
        group = self._groups.get(broker_name)
        return group.revision if group is not None else 0

    def master_of(self, broker_name: str, broker_id: int, cluster: str) -> MasterAddresses:
        """Return what a slave is told of its master, if that is alive."""
        group = self._groups.get(broker_name)
        master = group.addresses.get(MASTER_ID) if group is not None and broker_id != MASTER_ID else None
        lease = self.leases.get(BrokerKey(cluster, broker_name, master)) if master is not None else None
        return MasterAddresses(lease.ha_address, master) if lease is not None else NO_MASTER

    def agrees_with(self, broker_name: str, queues: Mapping[str, QueueData]) -> bool:
        """Return True if the table holds these topics of a broker name just so."""
        known, nothing = self._topics, _NO_QUEUES
        for topic, queue in queues.items():
            held = known.get(topic, nothing).get(broker_name)
            if held is not queue and held != queue:
                return False
        return True

    def differences(self, broker_name: str, queues: Mapping[str, QueueData]) -> list[QueueChange]:
        """Return the changes after which the table holds these topics of a broker name just so."""
        # A broker's topics share few QueueData values (most are configured alike), and registrations get the very same
        # objects again: `is not` spares the comparison of most of tens of thousands.
        known, nothing = self._topics, _NO_QUEUES
        return [
            QueueChange(topic, before, queue)
            for topic, queue in queues.items()
            if (before := known.get(topic, nothing).get(broker_name)) is not queue and before != queue
        ]

    def removals(self, group: BrokerGroup, topics: Iterable[str]) -> list[QueueChange]:
        """Return the changes that take topics from a group that has them."""
        return [QueueChange(topic, self._topics[topic][group.broker_name], None) for topic in topics]

    # Elementary changes.

    def take_changes(self) -> list[RouteChange]:
        """Return the changes since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def take_ended(self) -> list[BrokerKey]:
        """Return the brokers that have lost their leases since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def record(self, group: BrokerGroup, change: RouteChange) -> None:
        """Record a change of a group."""
        self._last_revision += 1
        group.revise(self._last_revision)
        self._changes.append(change)

    def enter_group(self, broker_name: str, cluster: str) -> BrokerGroup:
        """Return a broker name's group, a new one where there is none, and list it in a cluster."""
        group = self._groups.get(broker_name)
        if group is None:
            group = self._groups[broker_name] = BrokerGroup(cluster, broker_name)
        self._clusters.setdefault(cluster, {})[broker_name] = None
        group.clusters[cluster] = None
        return group

    def change_queues(self, group: BrokerGroup, changes: Sequence[QueueChange], trigger: Trigger) -> None:
        """Put a group's queues into the topic table, or take them out."""
        if not changes:
            return
        broker_name, topics = group.broker_name, self._topics
        for topic, _, after in changes:
            if after is None:
                # Both directions are kept: topic to brokers for routes, broker to topics for its removal.
                del topics[topic][broker_name]
                del group.topics[topic]
                if not topics[topic]:
                    del topics[topic]
            elif topic in topics:
                topics[topic][broker_name] = after
                group.topics[topic] = None
            else:
                topics[topic] = {broker_name: after}
                group.topics[topic] = None
        queues = QueueChanges.of(changes)
        self.record(
            group,
            RouteChange(
                kind=ChangeKind.TOPICS_CHANGED,
                trigger=trigger,
                cluster=group.cluster,
                broker_name=broker_name,
                queues=queues,
                topics=queues.topics,
            ),
        )

    def change_perms(self, group: BrokerGroup, topics: Iterable[str], perm_of: PermRule, trigger: Trigger) -> None:
        """Give topics of a group the permission that a rule makes of their present one."""
        found = ((topic, self._topics[topic][group.broker_name]) for topic in topics)
        changes = [
            QueueChange(topic, before, with_perm(before, perm_of(before.perm)))
            for topic, before in found
            if perm_of(before.perm) != before.perm
        ]
        self.change_queues(group, changes, trigger)

    def set_filter_servers(self, key: BrokerKey, servers: tuple[str, ...]) -> bool:
        """Set a broker's filter servers. False: it has these already."""
        before = self._filter_servers.get(key, ())
        if servers:
            self._filter_servers[key] = servers
        else:
            self._filter_servers.pop(key, None)
        return before != servers

    def set_mapping(self, group: BrokerGroup, topic: str, broker_name: str, mapping: Mapping[str, Any]) -> None:
        """Set a static topic's mapping of a broker name, as a group says it; it stays as long as both do."""
        self._drop_mapping(topic, broker_name)
        self._mappings.setdefault(topic, {})[broker_name] = group.broker_name, mapping
        for name in (group.broker_name, broker_name):
            self._mapped.setdefault(name, {})[topic, broker_name] = None

    def _drop_mapping(self, topic: str, broker_name: str) -> None:
        mappings = self._mappings.get(topic, {})
        if broker_name not in mappings:
            return
        owner, _ = mappings.pop(broker_name)
        if not mappings:
            del self._mappings[topic]
        for name in {owner, broker_name}:
            mapped = self._mapped[name]
            del mapped[topic, broker_name]
            if not mapped:
                del self._mapped[name]

    def end_lease(self, key: BrokerKey) -> None:
        """Take a broker's lease and filter servers away, if it has any."""
        self.leases.end(key)
        self._ended.append(key)
        self._filter_servers.pop(key, None)

    def end_leases_at(self, group: BrokerGroup, address: str) -> None:
        """Take the leases of an address in a group, in whatever cluster."""
        for cluster in group.clusters:
            self.end_lease(BrokerKey(cluster, group.broker_name, address))

    def drop_group(self, group: BrokerGroup, trigger: Trigger) -> None:
        """Take a group out of all tables."""
        broker_name = group.broker_name
        self._drop_mappings(group, trigger)
        self.change_queues(group, self.removals(group, group.topics), trigger)
        del self._groups[broker_name]
        _drop_from_each(self._clusters, broker_name)

    def _drop_mappings(self, group: BrokerGroup, trigger: Trigger) -> None:
        """Drop the mappings that a group brought, and those of its own name, also of topics that it does not hold."""
        gone = group.broker_name
        dropped = tuple(self._mapped.get(gone, ()))
        for topic, name in dropped:
            self._drop_mapping(topic, name)
        others = dict.fromkeys(topic for topic, _ in dropped if topic not in group.topics)
        if others:
            self.record(
                group,
                RouteChange(
                    kind=ChangeKind.BROKER_UPDATED,
                    trigger=trigger,
                    cluster=group.cluster,
                    broker_name=gone,
                    topics=tuple(others),
                    detail="static topic mappings",
                ),
            )

    def _filter_servers_of(self, brokers: Iterable[BrokerData]) -> dict[str, tuple[str, ...]]:
        return {
            address: servers
            for broker in brokers
            for address in broker.addresses.values()
            if (servers := self._filter_servers.get(BrokerKey(broker.cluster, broker.broker_name, address)))
        }


def with_perm(queue: QueueData, perm: int) -> QueueData:
    """Return the queues with another permission."""
    return queue if queue.perm == perm else replace(queue, perm=perm)


def _drop_from_each(tables: dict[str, dict[str, Any]], broker_name: str) -> None:
    """Take a broker name out of every inner table, and the inner tables that are empty then."""
    for key in [key for key, inner in tables.items() if broker_name in inner]:
        del tables[key][broker_name]
        if not tables[key]:
            del tables[key]
