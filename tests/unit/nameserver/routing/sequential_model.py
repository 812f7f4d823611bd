"""The NameServer as Java writes it: five plain tables and full scans, no index, no cache. What the route table is held to."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.errors import Rejected
from orbitmq.model.route import QueueData
from orbitmq.nameserver.routing.values import BrokerKey, Registration


class SequentialModel:
    """Every operation in the words of the specification. `live` values: [time, lease, version, connection, ha]."""

    def __init__(self, deletes_missing_topics: bool) -> None:
        self.deletes_missing_topics = deletes_missing_topics
        self.topics: dict[str, dict[str, QueueData]] = {}
        self.groups: dict[str, dict[int, str]] = {}
        self.acting: dict[str, bool] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[BrokerKey, list] = {}

    def register(self, new: Registration, now: int, connection: int) -> tuple[str | None, str | None] | None:
        name = new.key.broker_name
        if new.broker_id not in self.groups.get(name, {}) and len(new.queues) == 1:
            raise Rejected(1, "register broker failed")
        group = self.groups.setdefault(name, {})
        self.clusters.setdefault(new.key.cluster, set()).add(name)
        self.acting[name] = bool(new.acting_master)
        for other in [
            other for other, address in group.items() if address == new.key.address and other != new.broker_id
        ]:
            del group[other]
        holder = group.get(new.broker_id)
        if holder is not None and holder != new.key.address:
            living = self.live.get(BrokerKey(new.key.cluster, name, holder))
            if living is not None and living[2].state_version > new.data_version.state_version:
                self.live.pop(new.key, None)
                return None
            # In whatever cluster that lists the name; a lease that outlived an earlier group of it ends by itself.
            for key in [key for key in self.live if key[1:] == (name, holder)]:
                if name in self.clusters.get(key.cluster, ()):
                    del self.live[key]
        group[new.broker_id] = new.key.address
        self._register_topics(new, group, first=holder is None)
        owners = [other for other in self.live[new.key][3] if other != connection] if new.key in self.live else []
        owners.append(connection)
        self.live[new.key] = [now, new.lease_ms, new.data_version, owners, new.ha_address]
        master = self.live.get(BrokerKey(new.key.cluster, name, group.get(0, "")))
        return (None, None) if new.broker_id == 0 or master is None else (master[4], group[0])

    def _register_topics(self, new: Registration, group: dict[int, str], first: bool) -> None:
        prime = new.acting_master is not None and new.broker_id != 0 and new.broker_id == min(group)
        if new.broker_id != 0 and not prime:
            return
        name, lease = new.key.broker_name, self.live.get(new.key)
        changed = first or lease is None or lease[2] != new.data_version
        if self.deletes_missing_topics:
            for topic in [topic for topic in self.topics if topic not in new.queues]:
                self._drop(topic, name)
        for topic, queue in new.queues.items():
            if changed or name not in self.topics.get(topic, {}):
                perm = queue.perm & ~2 if prime and self.acting[name] else queue.perm
                self.topics.setdefault(topic, {})[name] = _perm(queue, perm)

    def unregister(self, key: BrokerKey, connection: int) -> None:
        lease = self.live.get(key)
        if lease is None or connection >= lease[3][-1]:
            self._remove(key)

    def _remove(self, key: BrokerKey) -> None:
        name = key.broker_name
        self.live.pop(key, None)
        group = self.groups.get(name, {})
        held = [broker_id for broker_id, address in group.items() if address == key.address]
        for broker_id in held:
            del group[broker_id]
        if not held:
            return
        if not group:
            del self.groups[name]
            for cluster in list(self.clusters):
                self.clusters[cluster].discard(name)
                if not self.clusters[cluster]:
                    del self.clusters[cluster]
            for topic in list(self.topics):
                self._drop(topic, name)
        elif self.acting[name] and 0 not in group:
            self.set_perms(name, lambda perm: perm & ~2)

    def disconnect(self, connection: int) -> None:
        for key, lease in list(self.live.items()):
            if connection == lease[3][-1] == max(lease[3]):
                self._remove(key)
            elif connection in lease[3]:
                lease[3].remove(connection)

    def expire(self, now: int) -> None:
        for key, lease in list(self.live.items()):
            if lease[0] + lease[1] < now:
                self._remove(key)

    def renew(self, key: BrokerKey, now: int) -> None:
        if key in self.live:
            self.live[key][0] = now

    def set_perms(self, name: str, rule) -> int:
        found = [topic for topic, queues in self.topics.items() if name in queues]
        for topic in found:
            self.topics[topic][name] = _perm(self.topics[topic][name], rule(self.topics[topic][name].perm))
        return len(found)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        for name in list(self.topics.get(topic, {})):
            if cluster is None or name in self.clusters.get(cluster, ()):
                self._drop(topic, name)

    def register_topic(self, topic: str, queues: Sequence[QueueData]) -> None:
        if all(queue.broker_name in self.groups for queue in queues):
            for queue in queues:
                self.topics.setdefault(topic, {})[queue.broker_name] = queue

    def route(self, topic: str) -> tuple | None:
        queues = self.topics.get(topic)
        return None if not queues else (queues, {name: self.groups[name] for name in queues})

    def _drop(self, topic: str, name: str) -> None:
        self.topics[topic].pop(name, None)
        if not self.topics[topic]:
            del self.topics[topic]


def _perm(queue: QueueData, perm: int) -> QueueData:
    return QueueData(
        broker_name=queue.broker_name,
        read_queue_count=queue.read_queue_count,
        write_queue_count=queue.write_queue_count,
        perm=perm,
        topic_sys_flag=queue.topic_sys_flag,
    )
