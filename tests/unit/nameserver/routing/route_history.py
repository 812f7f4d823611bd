"""Random histories of the route table and of its sequential model, compared after each step.

Also held: every change of a route is told (a listener to changes alone knows which routes are old).

State: the table, the model, the time. In: operations with arguments from `ARGUMENTS`, chosen by hypothesis or by a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from random import Random
from typing import Any

from orbitmq.errors import Rejected
from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.nameserver.routing.events import Cause
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.wire.slices import finish

from ..support import at, broker, queue
from .sequential_model import SequentialModel

TOPICS = ("t0", "t1", "t2", "t3")
NAMES = ("a", "b")
CLUSTERS = ("c", "d")
ADDRESSES = ("x:1", "y:1", "z:1")
CONNECTIONS = (1, 2, 3, 4)


def _some_of(options: Sequence[str], count_max: int) -> tuple[tuple[str, ...], ...]:
    return tuple(chosen for count in range(count_max + 1) for chosen in permutations(options, count))


ARGUMENTS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "register": {
        "name": NAMES,
        "listed": _some_of(TOPICS, 4),
        "broker_id": (0, 1, 2),
        "address": ADDRESSES,
        "cluster": CLUSTERS,
        "version": (1, 2, 3),
        "state": (0, 1),
        "acting": (None, False, True),
        "count": (1, 2),
        "lease_ms": (10, 50),
        "connection": CONNECTIONS,
    },
    "unregister": {"name": NAMES, "address": ADDRESSES, "cluster": CLUSTERS, "connection": CONNECTIONS},
    "renew": {"name": NAMES, "address": ADDRESSES, "cluster": CLUSTERS},
    "disconnect": {"connection": CONNECTIONS},
    "expire": {"elapsed": range(41)},
    "wipe": {"name": NAMES},
    "add": {"name": NAMES},
    "delete": {"topic": TOPICS, "cluster": (None, *CLUSTERS)},
    "register_topic": {"topic": TOPICS, "on": _some_of(NAMES, 2), "count": (1, 2)},
}
"""Every operation, and what each of its arguments may be; the simplest first."""


class History:
    """A route table and its model, to which the same happens."""

    def begin(self, deletes_missing_topics: bool) -> None:
        self.table = RouteTable(Tables(), deletes_missing_topics=deletes_missing_topics, slice_topics=1)
        self.model = SequentialModel(deletes_missing_topics)
        self.now = 0
        self.shown: dict[str, Any] = {}

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
        before = self._queues()
        seen: list[Mapping[tuple[str, str], QueueData | None]] = []

        def register() -> tuple[str | None, str | None] | None:
            slices = self.table.register(new, at(self.now), connection, now_ms=self.now)
            while True:
                try:
                    next(slices)
                except StopIteration as end:
                    return end.value and tuple(end.value)
                seen.append(self._queues())

        assert _told(register) == _told(lambda: self.model.register(new, self.now, connection))
        after = self._queues()
        for found in seen:  # by a client that asked between two slices
            assert all(found[place] in (before[place], after[place]) for place in before)

    def unregister(self, name: str, address: str, cluster: str, connection: int) -> None:
        key = BrokerKey(cluster, name, address)
        finish(self.table.unregister(key, at(self.now, Cause.UNREGISTRATION), connection))
        self.model.unregister(key, connection)

    def renew(self, name: str, address: str, cluster: str) -> None:
        self.table.tables.leases.renew(BrokerKey(cluster, name, address), self.now)
        self.model.renew(BrokerKey(cluster, name, address), self.now)

    def disconnect(self, connection: int) -> None:
        finish(self.table.disconnect(connection, at(self.now, Cause.CONNECTION_CLOSED)))
        self.model.disconnect(connection)

    def expire(self, elapsed: int) -> None:
        self.now += elapsed
        expire_all(self.table, self.now)
        self.model.expire(self.now)

    def wipe(self, name: str) -> None:
        assert finish(self.table.wipe_write_perm(name, at())) == self.model.set_perms(name, lambda perm: perm & ~2)

    def add(self, name: str) -> None:
        assert finish(self.table.add_write_perm(name, at())) == self.model.set_perms(name, lambda perm: 6)

    def delete(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, at(), cluster)
        self.model.delete_topic(topic, cluster)

    def register_topic(self, topic: str, on: Sequence[str], count: int) -> None:
        queues = [queue(name, count=count) for name in on]
        finish(self.table.register_topic(topic, queues, at()))
        self.model.register_topic(topic, queues)

    def compare(self) -> None:
        """Hold the table to its model: routes, lists, leases, and what it told of its changes."""
        self._routes_are_equal()
        self._lists_are_equal()
        self._leases_are_equal()
        self._the_changes_say_which_routes_are_old()

    def _queues(self) -> dict[tuple[str, str], QueueData | None]:
        """Return every topic's queues on every broker name."""
        found: dict[tuple[str, str], QueueData | None] = {(topic, name): None for topic in TOPICS for name in NAMES}
        for topic in TOPICS:
            route = self.table.tables.lookup(topic)
            found |= {(topic, queue.broker_name): queue for queue in route.queues} if route is not None else {}
        return found

    def _routes_are_equal(self) -> None:
        for topic in TOPICS:
            assert _look(self.table.tables.lookup(topic)) == self.model.route(topic)

    def _lists_are_equal(self) -> None:
        info = self.table.tables.cluster_info()
        assert {name: dict(found.addresses) for name, found in info.brokers.items()} == self.model.groups
        assert {cluster: set(found) for cluster, found in info.clusters.items()} == self.model.clusters
        assert set(self.table.tables.topics()) == set(self.model.topics)
        assert self.table.tables.broker_count == len(self.model.live)

    def _leases_are_equal(self) -> None:
        for key, expected in self.model.live.items():
            lease = self.table.tables.lease_of(key)
            assert lease is not None
            assert [lease.renewed_at_ms, lease.lease_ms, lease.data_version, list(lease.owners)] == expected[:4]

    def _the_changes_say_which_routes_are_old(self) -> None:
        for change in self.table.tables.take_changes():
            for topic in change.topics:
                self.shown.pop(topic, None)
        for topic in TOPICS:
            route = _look(self.table.tables.lookup(topic))
            assert self.shown.setdefault(topic, route) == route


def expire_all(table: RouteTable, now_ms: int) -> list[BrokerKey]:
    """Take out every broker whose lease is over; return them."""
    over = [key for key, _ in table.tables.leases.over(now_ms)]
    for key in over:
        finish(table.expire(key, at(now_ms, Cause.LEASE_EXPIRED), now_ms))
    return over


def play(seed: str, step_count: int) -> None:
    """Live one history that follows from its seed; what went wrong is told with the steps that led there."""
    random, history, steps = Random(seed), History(), list[tuple[str, dict[str, Any]]]()
    deletes_missing_topics = random.random() < 0.5
    # Some operations come often and some not at all: a history of all alike seldom gets far from empty.
    weights = [random.choice((0, 1, 1, 4)) for _ in ARGUMENTS]
    weights[0] += 1
    operations = random.choices(list(ARGUMENTS), weights, k=step_count)
    try:
        history.begin(deletes_missing_topics)
        for operation in operations:
            choices = {name: random.choice(options) for name, options in ARGUMENTS[operation].items()}
            steps.append((operation, choices))
            getattr(history, operation)(**choices)
            history.compare()
    except Exception as error:
        error.add_note(f"seed {seed!r}: begin({deletes_missing_topics}), then")
        for operation, choices in steps:
            error.add_note(f"{operation}({', '.join(f'{name}={value!r}' for name, value in choices.items())})")
        raise


def _told(register) -> Any:
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
