"""The rules by which the NameServer's tables change. Pure: no clock, no socket, no lock.

In: registrations, un-registrations, administrative changes, the time. Out: what the asker is told, a `RouteChange` for
everything that became different, and a `MinIdNotice` for every group whose smallest broker id is another one.

Every operation is whole: it is refused before it touches anything, or it is applied to all tables. Those that may change
thousands of topics do it in slices; a caller that wants all of it immediately says `finish(table.register(...))`.

Source: docs/explain/nameserver.md; Java RouteInfoManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import MASTER_ID, QueueData
from orbitmq.model.topic import DataVersion, Perm
from orbitmq.nameserver.routing.events import ChangeKind, MinIdNotice, QueueChange, RouteChange, Trigger
from orbitmq.nameserver.routing.leases import Lease
from orbitmq.nameserver.routing.tables import BrokerGroup, GroupState, PermRule, Tables, with_perm
from orbitmq.nameserver.routing.values import NO_MASTER, BrokerKey, MasterAddresses, Registration
from orbitmq.wire.slices import Slices, finish, parts_of

T = TypeVar("T")

SLICE_TOPICS = 1_000
SLICE_BROKERS = 125
"""Broker names that are changed in one slice: each of them is told as a change of its own."""
_NOT_WRITABLE = ~int(Perm.WRITE)


class RouteTable:
    """Changes topics, brokers, clusters, leases and filter servers, always as one.

    Args:
        tables: the state; changed only here, but for leases that heartbeats renew.
        on_change: are told of every change of the tables when `publish` is called, in this order; more may be appended.
        on_end: is told of every broker that lost its lease, before the changes.
        on_notice: is told of every group whose smallest broker id is another one.
        deletes_missing_topics: a registration removes the broker's topics that it does not list
            (`deleteTopicWithBrokerRegistration`); may be set to something else later.
        slice_topics: how many topics a registration enters in one slice.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        on_change: Sequence[Callable[[RouteChange], None]] = (),
        on_end: Callable[[BrokerKey], None] = lambda key: None,
        on_notice: Callable[[MinIdNotice], None] = lambda notice: None,
        deletes_missing_topics: bool = False,
        slice_topics: int = SLICE_TOPICS,
    ) -> None:
        self.tables = tables
        self.deletes_missing_topics = deletes_missing_topics
        self.on_change = list(on_change)
        self._on_end = on_end
        self._on_notice = on_notice
        self._slice_topics = slice_topics
        self._notices: list[MinIdNotice] = []
        self.revision_of = tables.revision_of  # asked with every registration: as it is, without a call more

    def publish(self) -> None:
        """Tell the listeners what has changed since the last call."""
        notices, ended, changes = self.take_notices(), self.tables.take_ended(), self.tables.take_changes()
        for key in ended:
            self._on_end(key)
        for tell in self.on_change:
            for change in changes:
                tell(change)
        for notice in notices:
            self._on_notice(notice)

    def publishing(self, slices: Slices[T]) -> Slices[T]:
        """Tell the listeners what each slice has changed before any other task has a turn."""
        while True:
            try:
                next(slices)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.publish()
            yield

    def take_notices(self) -> list[MinIdNotice]:
        """Return the notices since the last call, in order."""
        notices, self._notices = self._notices, []
        return notices

    # Registration and leases.

    def register(
        self, broker: Registration, trigger: Trigger, owner: int = 0, *, now_ms: int = 0, is_partial: bool = False
    ) -> Slices[MasterAddresses | None]:
        """Enter a broker, its topics and its lease, or renew them; thousands of topics in slices.

        After each slice every topic's queues on a broker name are either as before or as after. Nothing else may change
        anything about the broker name until the last one, but for its lease, which may be renewed.

        Args:
            owner: the number of the connection that it came through.
            now_ms: the pause-aware clock's time, from which the lease counts.
            is_partial: `broker.queues` are only those that differ from the broker's last registration.

        Returns:
            What the broker is told of its master. None: it is outdated, was left out, and has no lease any more.

        Raises:
            Rejected: a new broker id that lists exactly one topic: a broker that knows its topics lists more.
        """
        tables, key = self.tables, broker.key
        name = key.broker_name
        known = tables.group_of(name)
        previous_address = known.addresses.get(broker.broker_id) if known is not None else None
        if previous_address is None and len(broker.queues) + broker.left_out == 1:
            raise Rejected(ResponseCode.SYSTEM_ERROR, "register broker failed")
        group = tables.enter_group(name, key.cluster)
        smallest_before = group.smallest_id
        if not self._enter_broker(broker, group, previous_address, trigger):
            return None
        try:
            yield from self._register_topics(broker, group, previous_address is None, trigger, is_partial)
        except Exception:
            # In the routes without a lease it would stay for ever: neither its time nor its connection's end takes it out.
            if tables.leases.get(key) is None:
                finish(self.unregister(key, trigger))
            raise
        # The lease comes last: a broker lives when all its topics are there.
        lease = Lease(now_ms, broker.lease_ms, broker.data_version, broker.ha_address, (owner,))
        tables.leases.begin(key, lease)
        if broker.broker_id < smallest_before:
            self._notices.append(_smallest_joined(broker, group))
        return tables.master_of(name, broker.broker_id, key.cluster)

    def renew(
        self, key: BrokerKey, broker_id: int, data_version: DataVersion, owner: int, now_ms: int
    ) -> MasterAddresses | None:
        """Renew the lease of a broker that registers with the topics that it had; return what `register` would.

        Returns:
            None when the broker has no lease.
        """
        if not self.tables.leases.register(key, now_ms, owner, data_version):
            return None
        if broker_id == MASTER_ID:
            return NO_MASTER
        return self.tables.master_of(key.broker_name, broker_id, key.cluster)

    def holds(self, broker: Registration, queues: Mapping[str, QueueData]) -> bool:
        """Return True if the table holds some of a registered broker's queues just as `register` enters them."""
        group = self.tables.group_of(broker.key.broker_name)
        return group is not None and self.tables.agrees_with(group.broker_name, _as_entered(broker, group, queues))

    def unregister(self, key: BrokerKey, trigger: Trigger, owner: int | None = None) -> Slices[bool]:
        """Take a broker out of all tables, thousands of topics in slices.

        With the first one the broker is gone from routes. Nothing else may change anything about the broker name until
        the last one.

        Args:
            owner: the connection that asks; None: none. A late request through an older connection than the
                one that registered the broker is ignored.

        Returns:
            False when nothing was there, or the request came too late.
        """
        tables = self.tables
        lease = tables.leases.get(key)
        if lease is not None and owner is not None and owner < lease.owner:
            return False
        tables.end_lease(key)
        group = tables.group_of(key.broker_name)
        broker_id = group.id_of(key.address) if group is not None else None
        if group is None or broker_id is None:
            return lease is not None
        yield from self._leave_group(key, group, broker_id, trigger)
        return True

    def disconnect(self, owner: int, trigger: Trigger) -> Slices[tuple[BrokerKey, ...]]:
        """Take out every broker whose lease goes with the connection `owner` (see `leases`); return them.

        Nothing else may change anything about these brokers between two slices.
        """
        gone = self.tables.leases.release(owner)
        for number, key in enumerate(gone):
            if number:
                yield
            yield from self.unregister(key, trigger)
        return gone

    def expire(self, key: BrokerKey, trigger: Trigger, now_ms: int) -> Slices[Lease | None]:
        """Take out a broker if its lease is over; return the lease, None when it is not.

        Args:
            now_ms: the pause-aware clock's time.
        """
        lease = self.tables.leases.get(key)
        if lease is None or not lease.is_over(now_ms):
            return None
        yield from self.unregister(key, trigger)
        return lease

    # Administration. Nothing else may change the broker names of an operation between two of its slices.

    def wipe_write_perm(self, broker_name: str, trigger: Trigger) -> Slices[int]:
        """Take the write bit from every topic of a broker name; return how many topics it has."""
        return self._change_perms(broker_name, trigger, lambda perm: perm & _NOT_WRITABLE)

    def add_write_perm(self, broker_name: str, trigger: Trigger) -> Slices[int]:
        """Let every topic of a broker name be read and written; return how many topics it has."""
        return self._change_perms(broker_name, trigger, lambda perm: int(Perm.READ_WRITE))

    def delete_topic(self, topic: str, trigger: Trigger, cluster: str | None = None) -> None:
        """Remove a topic, wholly or on one cluster's brokers."""
        for name in self.tables.broker_names_of(topic, cluster):
            group = self.tables.group_of(name)
            assert group is not None, "a broker name with topics has a group"
            self.tables.change_queues(group, self.tables.removals(group, [topic]), trigger)

    def register_topic(self, topic: str, queues: Sequence[QueueData], trigger: Trigger) -> Slices[bool]:
        """Add one topic's queues. False: one of the broker names is not known, and nothing was done."""
        groups = [self.tables.group_of(queue.broker_name) for queue in queues]
        if None in groups:
            return False
        for number, (group, queue) in enumerate(zip(groups, queues, strict=True), 1):
            if number % SLICE_BROKERS == 0:
                yield
            assert group is not None, "all of them were looked at"
            changes = self.tables.differences(queue.broker_name, {topic: queue})
            self.tables.change_queues(group, changes, trigger)
        return True

    # The steps of a registration.

    def _enter_broker(
        self, broker: Registration, group: BrokerGroup, previous_address: str | None, trigger: Trigger
    ) -> bool:
        """Put a broker's address and what routes show of it into its group. False: it is outdated, and was left out."""
        before = group.state
        group.acting_master = bool(broker.acting_master)
        group.zone_name = broker.zone_name
        # One address has one id: a broker that changed its role comes back under another one.
        group.drop_address(broker.key.address, except_id=broker.broker_id)
        # An old master that returns after an election must not take the id back.
        if self._is_outdated(broker, previous_address):
            self.tables.end_lease(broker.key)
            self._record_group(broker, group, before, trigger)
            return False
        # The new process has taken the id: the lease of the old address would otherwise end the group's entry later.
        if previous_address not in (None, broker.key.address):
            self.tables.end_leases_at(group, previous_address)
        group.addresses[broker.broker_id] = broker.key.address
        servers = broker.filter_servers
        has_filter_change = servers is not None and self.tables.set_filter_servers(broker.key, servers)
        self._record_group(broker, group, before, trigger, has_filter_change)
        return True

    def _is_outdated(self, broker: Registration, holder: str | None) -> bool:
        """Another process holds the broker id and knows of a later state (an election that the newcomer missed)."""
        if holder is None or holder == broker.key.address:
            return False
        lease = self.tables.leases.get(broker.key._replace(address=holder))
        return lease is not None and lease.data_version.state_version > broker.data_version.state_version

    def _register_topics(
        self, broker: Registration, group: BrokerGroup, is_first: bool, trigger: Trigger, is_partial: bool
    ) -> Slices[None]:
        # Slaves repeat their master's topics; only one that acts for a lost master enters its own.
        if not (broker.broker_id == MASTER_ID or _is_prime_slave(broker, group)):
            return
        lease = self.tables.leases.get(broker.key)
        is_changed = is_first or lease is None or lease.data_version != broker.data_version
        # A part of a registration says nothing about the topics of the other parts.
        missing = self._missing_topics(broker, group) if self.deletes_missing_topics and not is_partial else []
        # Large removals go in slices of their own; the rest goes together with the first additions.
        while len(missing) > self._slice_topics:
            self.tables.change_queues(group, missing[: self._slice_topics], trigger)
            del missing[: self._slice_topics]
            yield
        for number, part in enumerate(parts_of(broker.queues, self._slice_topics)):
            if number:
                yield
            queues = _as_entered(broker, group, part)
            self.tables.change_queues(group, missing + self._different_topics(group, queues, is_changed), trigger)
            missing = []
        if is_changed and broker.queue_mappings:
            self._set_mappings(broker, group, trigger)

    def _different_topics(
        self, group: BrokerGroup, queues: Mapping[str, QueueData], is_changed: bool
    ) -> list[QueueChange]:
        if is_changed:
            return self.tables.differences(group.broker_name, queues)
        # Under an unchanged version only what went missing meanwhile comes back.
        return [QueueChange(topic, None, queue) for topic, queue in queues.items() if topic not in group.topics]

    def _missing_topics(self, broker: Registration, group: BrokerGroup) -> list[QueueChange]:
        if broker.queue_mappings:  # static topics do not live by registrations
            return []
        return self.tables.removals(group, (topic for topic in group.topics if topic not in broker.queues))

    def _set_mappings(self, broker: Registration, group: BrokerGroup, trigger: Trigger) -> None:
        for topic, mapping in broker.queue_mappings.items():
            self.tables.set_mapping(group, topic, mapping.get("bname") or broker.key.broker_name, mapping)
        change = _change_of(broker.key, broker.broker_id, ChangeKind.BROKER_UPDATED, trigger, broker.queue_mappings)
        self.tables.record(group, replace(change, detail="static topic mappings"))

    def _record_group(
        self,
        broker: Registration,
        group: BrokerGroup,
        before: GroupState,
        trigger: Trigger,
        has_filter_change: bool = False,
    ) -> None:
        """Record what a registration changed of the group itself, if anything."""
        addresses, *_ = before
        # Repeated registrations, some 99 % of them, change nothing and are not history.
        if group.state == before and not has_filter_change:
            return
        is_new = broker.key.address not in addresses.values()
        kind = ChangeKind.BROKER_JOINED if is_new else ChangeKind.BROKER_UPDATED
        change = _change_of(broker.key, broker.broker_id, kind, trigger, group.topics)
        self.tables.record(group, replace(change, previous_address=addresses.get(broker.broker_id)))

    # The steps of leaving.

    def _leave_group(self, key: BrokerKey, group: BrokerGroup, broker_id: int, trigger: Trigger) -> Slices[None]:
        """Take a broker out of its group, and the group out of the tables when it was the last one."""
        was_smallest = broker_id == group.smallest_id
        group.drop_address(key.address)
        self.tables.record(group, _change_of(key, broker_id, ChangeKind.BROKER_LEFT, trigger, group.topics))
        # The last broker of a group takes its topics along.
        if not group.addresses:
            while len(group.topics) > self._slice_topics:
                topics = tuple(islice(group.topics, self._slice_topics))
                self.tables.change_queues(group, self.tables.removals(group, topics), trigger)
                yield
            self.tables.drop_group(group, trigger)
            return
        # A slave that acts as master serves reads: its queues stay in routes without the write permission.
        if group.acting_master and MASTER_ID not in group.addresses:
            yield from self._change_perms(group.broker_name, trigger, lambda perm: perm & _NOT_WRITABLE)
        if was_smallest:
            self._notices.append(_smallest_left(group, key.address))

    def _change_perms(self, broker_name: str, trigger: Trigger, perm_of: PermRule) -> Slices[int]:
        group = self.tables.group_of(broker_name)
        if group is None:
            return 0
        all_topics = tuple(group.topics)
        for start in range(0, len(all_topics), self._slice_topics):
            if start:
                yield
            self.tables.change_perms(group, all_topics[start : start + self._slice_topics], perm_of, trigger)
        return len(group.topics)


def _change_of(
    key: BrokerKey, broker_id: int, kind: ChangeKind, trigger: Trigger, topics: Iterable[str]
) -> RouteChange:
    """Return a change of a broker itself; `topics` are those whose routes show it."""
    return RouteChange(
        kind=kind,
        trigger=trigger,
        cluster=key.cluster,
        broker_name=key.broker_name,
        broker_id=broker_id,
        address=key.address,
        topics=tuple(topics),
    )


def _is_prime_slave(broker: Registration, group: BrokerGroup) -> bool:
    """Return True if a broker speaks for its group although it is not a master."""
    return broker.broker_id != MASTER_ID and broker.acting_master is not None and broker.broker_id == group.smallest_id


def _as_entered(broker: Registration, group: BrokerGroup, queues: Mapping[str, QueueData]) -> Mapping[str, QueueData]:
    """Return the queues as the table takes them: an acting master stands in for reading only."""
    if not (group.acting_master and _is_prime_slave(broker, group)):
        return queues
    return {topic: with_perm(queue, queue.perm & _NOT_WRITABLE) for topic, queue in queues.items()}


def _smallest_joined(broker: Registration, group: BrokerGroup) -> MinIdNotice:
    others = tuple(address for broker_id, address in group.addresses.items() if broker_id != broker.broker_id)
    return MinIdNotice(
        broker_name=broker.key.broker_name,
        min_broker_id=broker.broker_id,
        min_broker_address=broker.key.address,
        offline_address=None,
        ha_address=broker.ha_address,
        targets=others or (broker.key.address,),
        needs_acting_master=False,
    )


def _smallest_left(group: BrokerGroup, gone: str) -> MinIdNotice:
    smallest = group.smallest_id
    return MinIdNotice(
        broker_name=group.broker_name,
        min_broker_id=smallest,
        min_broker_address=group.addresses[smallest],
        offline_address=gone,
        ha_address=None,
        targets=tuple(group.addresses.values()),
        needs_acting_master=group.acting_master,
    )
