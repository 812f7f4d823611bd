"""The route table against a plain sequential model, by random histories (N6).

Also held: every change of a route is told (a replica that only hears of changes stays equal), and the revision of a
broker name moves whenever something about it does.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orbitmq.errors import Rejected
from orbitmq.model.route import TopicRoute
from orbitmq.nameserver.changes import Cause
from orbitmq.nameserver.registration import BrokerKey
from orbitmq.nameserver.route_table import RouteTable

from .model import SequentialModel
from .support import at, broker, queue

TOPICS = ("t0", "t1", "t2", "t3")
NAMES = ("a", "b")
CLUSTERS = ("c", "d")
ADDRESSES = ("x:1", "y:1", "z:1")

names, topics, clusters, addresses = map(st.sampled_from, (NAMES, TOPICS, CLUSTERS, ADDRESSES))
connections = st.integers(1, 4)
# The long form is `ORBITMQ_MODEL_STEPS=1000000`.
STEPS = int(os.environ.get("ORBITMQ_MODEL_STEPS", "6000"))
STEPS_PER_RUN = 60


class RouteTableHistory(RuleBasedStateMachine):
    @initialize(deletes_missing_topics=st.booleans())
    def begin(self, deletes_missing_topics: bool) -> None:
        self.table = RouteTable(deletes_missing_topics=deletes_missing_topics)
        self.model = SequentialModel(deletes_missing_topics)
        self.now = 0
        self.shown: dict[str, Any] = {}

    @rule(
        name=names,
        listed=st.lists(topics, max_size=4, unique=True),
        broker_id=st.integers(0, 2),
        address=addresses,
        cluster=clusters,
        version=st.integers(1, 3),
        state=st.integers(0, 1),
        acting=st.sampled_from([None, False, True]),
        count=st.integers(1, 2),
        lease_ms=st.sampled_from([10, 50]),
        connection=connections,
    )
    def register(self, name, listed, broker_id, address, cluster, version, state, acting, count, lease_ms, connection):
        new = broker(
            name,
            *listed,
            broker_id=broker_id,
            address=address,
            cluster=cluster,
            version=version,
            state=state,
            count=count,
            lease_ms=lease_ms,
            acting_master=acting,
        )
        assert self._told(lambda: tuple(self.table.register(new, at(self.now), connection))) == self._told(
            lambda: self.model.register(new, self.now, connection)
        )

    @rule(name=names, address=addresses, cluster=clusters, connection=connections)
    def unregister(self, name: str, address: str, cluster: str, connection: int) -> None:
        key = BrokerKey(cluster, address)
        self.table.unregister(key, name, at(self.now, Cause.UNREGISTRATION), connection)
        self.model.unregister(key, name, connection)

    @rule(address=addresses, cluster=clusters, connection=connections)
    def renew(self, address: str, cluster: str, connection: int) -> None:
        self.table.renew(BrokerKey(cluster, address), self.now, connection)
        self.model.renew(BrokerKey(cluster, address), self.now, connection)

    @rule(connection=connections)
    def disconnect(self, connection: int) -> None:
        self.table.disconnect(connection, at(self.now, Cause.CONNECTION_CLOSED))
        self.model.disconnect(connection)

    @rule(elapsed=st.integers(0, 40))
    def expire(self, elapsed: int) -> None:
        self.now += elapsed
        self.table.expire(at(self.now, Cause.LEASE_EXPIRED))
        self.model.expire(self.now)

    @rule(name=names)
    def wipe(self, name: str) -> None:
        assert self.table.wipe_write_perm(name, at()) == self.model.set_perms(name, lambda perm: perm & ~2)

    @rule(name=names)
    def add(self, name: str) -> None:
        assert self.table.add_write_perm(name, at()) == self.model.set_perms(name, lambda perm: 6)

    @rule(topic=topics, cluster=st.one_of(st.none(), clusters))
    def delete(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, at(), cluster)
        self.model.delete_topic(topic, cluster)

    @rule(topic=topics, on=st.lists(names, max_size=2, unique=True), count=st.integers(1, 2))
    def register_topic(self, topic: str, on: list[str], count: int) -> None:
        queues = [queue(name, count=count) for name in on]
        self.table.register_topic(topic, queues, at())
        self.model.register_topic(topic, queues)

    @invariant()
    def routes_are_equal(self) -> None:
        for topic in TOPICS:
            assert _look(self.table.lookup(topic)) == self.model.route(topic)

    @invariant()
    def lists_are_equal(self) -> None:
        info = self.table.cluster_info()
        assert {name: dict(found.addresses) for name, found in info.brokers.items()} == self.model.groups
        assert {cluster: set(found) for cluster, found in info.clusters.items()} == self.model.clusters
        assert set(self.table.topics()) == set(self.model.topics)
        assert self.table.broker_count == len(self.model.live)

    @invariant()
    def leases_are_equal(self) -> None:
        for key, expected in self.model.live.items():
            lease = self.table.lease_of(key)
            assert lease is not None
            assert [lease.renewed_at_ms, lease.lease_ms, lease.data_version, lease.owner] == expected[:4]

    @invariant()
    def whoever_hears_the_changes_knows_which_routes_are_old(self) -> None:
        for change in self.table.take_changes():
            for topic in change.affected_topics:
                self.shown.pop(topic, None)
        for topic in TOPICS:
            route = _look(self.table.lookup(topic))
            assert self.shown.setdefault(topic, route) == route

    def _told(self, register) -> Any:
        try:
            return register()
        except Rejected as refusal:
            return refusal.remark


def _look(route: TopicRoute | None) -> Any:
    if route is None:
        return None
    return (
        {found.broker_name: found for found in route.queues},
        {found.broker_name: dict(found.addresses) for found in route.brokers},
    )


TestRouteTableHistory = RouteTableHistory.TestCase
TestRouteTableHistory.settings = settings(
    max_examples=max(1, STEPS // STEPS_PER_RUN), stateful_step_count=STEPS_PER_RUN, deadline=None
)
