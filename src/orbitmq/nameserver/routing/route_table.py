"""Every rule about the NameServer's state (`tables.py` has the state itself). Pure: no clock, no socket, no lock.

In: registrations, un-registrations, administrative changes, the time. Out: routes and lists,
and a `Change` for everything that became different.

Every operation is whole: it is refused before it touches anything, or it is applied to all tables.

Source: docs/explain/nameserver.md; Java RouteInfoManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import MASTER_ID, QueueData
from orbitmq.model.topic import DataVersion, Perm
from orbitmq.nameserver.routing.events import Change, ChangeKind, MinIdNotice, Origin, QueueChange
from orbitmq.nameserver.routing.leases import Lease
from orbitmq.nameserver.routing.table_changes import ChangingTables, PermRule, drop_address, with_perm
from orbitmq.nameserver.routing.tables import NO_QUEUES, Group, Look
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses, Registration
from orbitmq.wire.slices import Slices, finish, parts_of

SLICE_TOPICS = 2_000
_NOT_WRITABLE = ~int(Perm.WRITE)


class RouteTable(ChangingTables):
    """Topics, brokers, clusters, leases and filter servers, changed only as one.

    Args:
        deletes_missing_topics: a registration removes the broker's topics that it does not list
            (`deleteTopicWithBrokerRegistration`).
        slice_topics: how many topics a registration enters at once.
    """

    def __init__(self, *, deletes_missing_topics: bool = False, slice_topics: int = SLICE_TOPICS) -> None:
        super().__init__()
        self.deletes_missing_topics = deletes_missing_topics
        self._slice_topics = slice_topics

    # Registration and leases.

    def register(
        self, broker: Registration, origin: Origin, owner: int = 0, *, is_partial: bool = False
    ) -> MasterAddresses:
        """Enter a broker, its topics and its lease, or renew them.

        Args:
            owner: the number of the connection that it came through.
            is_partial: `broker.queues` are only those that differ from the broker's last registration.

        Raises:
            Rejected: a new broker id that lists exactly one topic: a broker that knows its topics lists more.
        """
        return finish(self.registering(broker, origin, owner, is_partial=is_partial))

    def registering(
        self, broker: Registration, origin: Origin, owner: int = 0, *, is_partial: bool = False
    ) -> Slices[MasterAddresses]:
        """Do what `register` does, thousands of topics in slices.

        After each slice every topic's queues on a broker name are either as before or as after. Nothing else may change
        anything about the broker name until the last one, but for its lease, which may be renewed.
        """
        group = self._groups.get(broker.broker_name)
        previous_address = group.addresses.get(broker.broker_id) if group is not None else None
        if previous_address is None and len(broker.queues) == 1:
            raise Rejected(ResponseCode.SYSTEM_ERROR, "register broker failed")
        self._forget_former_name(broker, origin)
        group = self._groups.get(broker.broker_name)
        if group is None:
            group = self._groups[broker.broker_name] = Group(broker.cluster)
        self._clusters.setdefault(broker.cluster, {})[broker.broker_name] = None
        before = group.look
        smallest_before = min(group.addresses, default=MASTER_ID)
        group.acting_master = bool(broker.acting_master)
        group.zone_name = broker.zone_name
        drop_address(group, broker.address, except_id=broker.broker_id)
        if self._is_outdated(broker, previous_address):
            self._leases.end(broker.key)
            self._note_group(broker, group, before, origin)
            return MasterAddresses()
        if previous_address not in (None, broker.address):
            self._end_lease(BrokerKey(broker.cluster, previous_address))
        group.addresses[broker.broker_id] = broker.address
        has_filter_change = self._keep_filter_servers(broker)
        self._note_group(broker, group, before, origin, has_filter_change)
        yield from self._register_topics(broker, group, previous_address is None, origin, is_partial)
        lease = Lease(broker.broker_name, origin.at_ms, broker.lease_ms, broker.data_version, broker.ha_address, owner)
        self._leases.begin(broker.key, lease)
        if broker.broker_id < smallest_before:
            self._notices.append(_smallest_joined(broker, group))
        return self.master_of(broker.broker_name, broker.broker_id, broker.cluster)

    def renew(self, key: BrokerKey, now_ms: int, owner: int = 0, data_version: DataVersion | None = None) -> bool:
        """Renew a lease, and note the version of an otherwise unchanged registration. False: no such broker."""
        return self._leases.renew(key, now_ms, owner, data_version)

    def unregister(self, key: BrokerKey, broker_name: str, origin: Origin, owner: int | None = None) -> bool:
        """Take a broker out of all tables.

        Args:
            owner: the connection that asks; None: nobody's. A late request through an older connection than the
                one that registered the broker is ignored.

        Returns:
            False when nothing was there, or the request came too late.
        """
        lease = self._leases.get(key)
        if lease is not None and owner is not None and owner < lease.owner:
            return False
        if lease is not None and lease.broker_name != broker_name:  # it has another name by now
            return False
        self._end_lease(key)
        group = self._groups.get(broker_name)
        if group is None or key.address not in group.addresses.values():
            return lease is not None
        gone_id = next(broker_id for broker_id, address in group.addresses.items() if address == key.address)
        was_smallest = gone_id == min(group.addresses)
        drop_address(group, key.address)
        self._touch(group)
        self._changes.append(
            Change(
                kind=ChangeKind.BROKER_LEFT,
                origin=origin,
                cluster=key.cluster,
                broker_name=broker_name,
                broker_id=gone_id,
                address=key.address,
                topics=tuple(group.topics),
            )
        )
        if not group.addresses:
            self._drop_group(broker_name, group, origin)
            return True
        if group.acting_master and MASTER_ID not in group.addresses:
            self._set_perms(broker_name, group, origin, lambda perm: perm & _NOT_WRITABLE)
        if was_smallest:
            self._notices.append(_smallest_left(broker_name, group, key.address))
        return True

    def disconnect(self, owner: int, origin: Origin) -> tuple[BrokerKey, ...]:
        """Take out every broker whose newest connection is `owner`; return whom."""
        gone = self._leases.owned_by(owner)
        for key in gone:
            self._unregister(key, origin)
        return gone

    def expire(self, origin: Origin) -> list[tuple[BrokerKey, Lease]]:
        """Take out every broker whose lease is over; return whom, with the lease that each had."""
        over = self._leases.over(origin.at_ms)
        for key, _ in over:
            self._unregister(key, origin)
        return over

    # Administration.

    def wipe_write_perm(self, broker_name: str, origin: Origin) -> int:
        """Take the write bit from every topic of a broker name; return how many topics it has."""
        return self._set_all_perms(broker_name, origin, lambda perm: perm & _NOT_WRITABLE)

    def add_write_perm(self, broker_name: str, origin: Origin) -> int:
        """Let every topic of a broker name be read and written; return how many topics it has."""
        return self._set_all_perms(broker_name, origin, lambda perm: int(Perm.READ_WRITE))

    def delete_topic(self, topic: str, origin: Origin, cluster: str | None = None) -> None:
        """Forget a topic, wholly or on one cluster's brokers."""
        names = list(self._topics.get(topic, ()))
        if cluster is not None:
            names = [name for name in names if name in self._clusters.get(cluster, ())]
        for name in names:
            self._apply(name, self._groups[name], [QueueChange(topic, self._topics[topic][name], None)], origin)

    def register_topic(self, topic: str, queues: Sequence[QueueData], origin: Origin) -> bool:
        """Add one topic's queues. False: one of the broker names is not known, and nothing was done."""
        if any(queue.broker_name not in self._groups for queue in queues):
            return False
        for queue in queues:
            before = self._topics.get(topic, {}).get(queue.broker_name)
            if before != queue:
                change = QueueChange(topic, before, queue)
                self._apply(queue.broker_name, self._groups[queue.broker_name], [change], origin)
        return True

    # The steps of a registration.

    def _forget_former_name(self, broker: Registration, origin: Origin) -> None:
        lease = self._leases.get(broker.key)
        if lease is not None and lease.broker_name != broker.broker_name:
            self._unregister(broker.key, origin)

    def _is_outdated(self, broker: Registration, holder: str | None) -> bool:
        """Another process holds the broker id and knows of a later state (an election that the newcomer missed)."""
        if holder is None or holder == broker.address:
            return False
        lease = self._leases.get(BrokerKey(broker.cluster, holder))
        return lease is not None and lease.data_version.state_version > broker.data_version.state_version

    def _register_topics(
        self, broker: Registration, group: Group, is_first: bool, origin: Origin, is_partial: bool
    ) -> Slices[None]:
        is_prime_slave = (
            broker.acting_master is not None
            and broker.broker_id != MASTER_ID
            and broker.broker_id == min(group.addresses)
        )
        if broker.broker_id != MASTER_ID and not is_prime_slave:
            return
        name, lease = broker.broker_name, self._leases.get(broker.key)
        is_changed = is_first or lease is None or lease.data_version != broker.data_version
        perm_mask = _NOT_WRITABLE if is_prime_slave and group.acting_master else -1  # it stands in for reading only
        missing = self._missing_topics(broker, group) if self.deletes_missing_topics and not is_partial else []
        while len(missing) > self._slice_topics:
            self._apply(name, group, missing[: self._slice_topics], origin)
            del missing[: self._slice_topics]
            yield
        for number, part in enumerate(parts_of(broker.queues, self._slice_topics)):
            if number:
                yield
            queues = part
            if perm_mask != -1:
                queues = {topic: with_perm(queue, queue.perm & perm_mask) for topic, queue in part.items()}
            self._apply(name, group, missing + self._different_topics(name, group, queues, is_changed), origin)
            missing = []
        if is_changed and broker.queue_mappings:
            self._keep_mappings(broker, group, origin)

    def _different_topics(
        self, broker_name: str, group: Group, queues: Mapping[str, QueueData], is_changed: bool
    ) -> list[QueueChange]:
        if not is_changed:  # only what went missing meanwhile comes back
            return [QueueChange(topic, None, queue) for topic, queue in queues.items() if topic not in group.topics]
        known, nothing = self._topics, NO_QUEUES
        return [
            QueueChange(topic, before, queue)
            for topic, queue in queues.items()
            if (before := known.get(topic, nothing).get(broker_name)) is not queue and before != queue
        ]

    def _missing_topics(self, broker: Registration, group: Group) -> list[QueueChange]:
        if broker.queue_mappings:  # static topics do not live by registrations
            return []
        name = broker.broker_name
        return [
            QueueChange(topic, self._topics[topic][name], None) for topic in group.topics if topic not in broker.queues
        ]

    def _keep_mappings(self, broker: Registration, group: Group, origin: Origin) -> None:
        for topic, mapping in broker.queue_mappings.items():
            self._mappings.setdefault(topic, {})[mapping.get("bname") or broker.broker_name] = mapping
        self._touch(group)
        self._changes.append(
            Change(
                kind=ChangeKind.BROKER_UPDATED,
                origin=origin,
                cluster=broker.cluster,
                broker_name=broker.broker_name,
                broker_id=broker.broker_id,
                address=broker.address,
                topics=tuple(broker.queue_mappings),
                detail="static topic mappings",
            )
        )

    def _keep_filter_servers(self, broker: Registration) -> bool:
        if broker.filter_servers is None:
            return False
        before = self._filter_servers.get(broker.key, ())
        if broker.filter_servers:
            self._filter_servers[broker.key] = broker.filter_servers
        else:
            self._filter_servers.pop(broker.key, None)
        return before != broker.filter_servers

    def _note_group(
        self,
        broker: Registration,
        group: Group,
        before: Look,
        origin: Origin,
        has_filter_change: bool = False,
    ) -> None:
        """Say what a registration changed of the broker group itself."""
        addresses, *_ = before
        if group.look == before and not has_filter_change:
            return
        is_new = broker.address not in addresses.values()
        self._touch(group)
        self._changes.append(
            Change(
                kind=ChangeKind.BROKER_JOINED if is_new else ChangeKind.BROKER_UPDATED,
                origin=origin,
                cluster=broker.cluster,
                broker_name=broker.broker_name,
                broker_id=broker.broker_id,
                address=broker.address,
                previous_address=addresses.get(broker.broker_id),
                topics=tuple(group.topics),
            )
        )

    def _unregister(self, key: BrokerKey, origin: Origin) -> None:
        lease = self._leases.get(key)
        assert lease is not None, "only living brokers are taken out by their key"
        self.unregister(key, lease.broker_name, origin)

    def _set_all_perms(self, broker_name: str, origin: Origin, perm_of: PermRule) -> int:
        group = self._groups.get(broker_name)
        if group is None:
            return 0
        self._set_perms(broker_name, group, origin, perm_of)
        return len(group.topics)


def _smallest_joined(broker: Registration, group: Group) -> MinIdNotice:
    others = tuple(address for broker_id, address in group.addresses.items() if broker_id != broker.broker_id)
    return MinIdNotice(
        broker_name=broker.broker_name,
        min_broker_id=broker.broker_id,
        min_broker_address=broker.address,
        offline_address=None,
        ha_address=broker.ha_address,
        targets=others or (broker.address,),
        needs_acting_master=False,
    )


def _smallest_left(broker_name: str, group: Group, gone: str) -> MinIdNotice:
    smallest = min(group.addresses)
    return MinIdNotice(
        broker_name=broker_name,
        min_broker_id=smallest,
        min_broker_address=group.addresses[smallest],
        offline_address=gone,
        ha_address=None,
        targets=tuple(group.addresses.values()),
        needs_acting_master=group.acting_master,
    )
