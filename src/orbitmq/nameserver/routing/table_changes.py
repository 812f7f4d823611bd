"""The elementary changes of the NameServer's tables. Pure.

Each of them keeps all tables in step with one another, notes what became different as a `Change`, and gives the broker name
a new revision. `route_table.RouteTable` knows when to make them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from orbitmq.model.route import QueueData
from orbitmq.nameserver.routing.events import Change, ChangeKind, MinIdNotice, Origin, QueueChange, QueueChanges
from orbitmq.nameserver.routing.tables import Group, Tables
from orbitmq.nameserver.routing.values import BrokerKey

PermRule = Callable[[int], int]


class ChangingTables(Tables):
    """Tables that tell their changes."""

    def __init__(self) -> None:
        super().__init__()
        self._changes: list[Change] = []
        self._notices: list[MinIdNotice] = []
        self._next_revision = 1

    def take_changes(self) -> list[Change]:
        """Return the changes since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def take_notices(self) -> list[MinIdNotice]:
        """Return the notices since the last call, in order."""
        notices, self._notices = self._notices, []
        return notices

    def _end_lease(self, key: BrokerKey) -> None:
        self._leases.end(key)
        self._filter_servers.pop(key, None)

    def _apply(self, broker_name: str, group: Group, queues: Sequence[QueueChange], origin: Origin) -> None:
        """Put queues into the topic table, or take them out, and say so."""
        if not queues:
            return
        topics = self._topics
        for topic, _, after in queues:
            if after is None:
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
        self._touch(group)
        self._changes.append(
            Change(
                kind=ChangeKind.TOPICS_CHANGED,
                origin=origin,
                cluster=group.cluster,
                broker_name=broker_name,
                queues=QueueChanges.of(queues),
            )
        )

    def _set_perms(self, broker_name: str, group: Group, origin: Origin, perm_of: PermRule) -> None:
        found = ((topic, self._topics[topic][broker_name]) for topic in group.topics)
        changes = [
            QueueChange(topic, before, with_perm(before, perm_of(before.perm)))
            for topic, before in found
            if perm_of(before.perm) != before.perm
        ]
        self._apply(broker_name, group, changes, origin)

    def _drop_group(self, broker_name: str, group: Group, origin: Origin) -> None:
        gone = [QueueChange(topic, self._topics[topic][broker_name], None) for topic in group.topics]
        self._apply(broker_name, group, gone, origin)
        del self._groups[broker_name]
        for cluster in [cluster for cluster, names in self._clusters.items() if broker_name in names]:
            del self._clusters[cluster][broker_name]
            if not self._clusters[cluster]:
                del self._clusters[cluster]
        for topic in [topic for topic, mappings in self._mappings.items() if broker_name in mappings]:
            del self._mappings[topic][broker_name]
            if not self._mappings[topic]:
                del self._mappings[topic]

    def _touch(self, group: Group) -> None:
        group.data = None
        group.revision = self._next_revision
        self._next_revision += 1


def drop_address(group: Group, address: str, except_id: int | None = None) -> None:
    """An address has one id: take it from every other one."""
    for broker_id in [known for known, found in group.addresses.items() if found == address and known != except_id]:
        del group.addresses[broker_id]


def with_perm(queue: QueueData, perm: int) -> QueueData:
    """Return the queues with another permission."""
    return queue if queue.perm == perm else replace(queue, perm=perm)
