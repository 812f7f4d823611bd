"""The routes that a client knows, and the brokers that they name.

State: one route per topic. Answers of NameServers come in, routes and addresses go out. Pure.

Source: Java MQClientInstance (topicRouteTable, brokerAddrTable), TopicRouteData.topicRouteDataChanged.
"""

from __future__ import annotations

from collections.abc import Set

from orbitmq.client.routing.route_queues import leaders
from orbitmq.model.route import MASTER_ID, BrokerData, MessageQueue, QueueData, TopicRoute


class RouteCache:
    """Known routes by topic, and broker groups by name."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRoute] = {}
        """The known route of each topic; to be read, not changed."""
        self.brokers: dict[str, BrokerData] = {}
        """Every broker group that some known route names; to be read, not changed."""
        self.leaders: dict[MessageQueue, str] = {}
        """The broker that leads each logical queue of the known static topics; to be read, not changed."""
        self._teachers: dict[str, str] = {}
        self._naming: dict[str, dict[str, BrokerData]] = {}
        """What the routes say of each broker name, by topic, the latest last."""
        self._forgotten: dict[str, TopicRoute] = {}

    def teacher(self, broker_name: str) -> str | None:
        """Return the NameServer that named a broker last."""
        return self._teachers.get(broker_name)

    def topics_of(self, broker_name: str) -> Set[str]:
        """Return the topics whose known routes name a broker."""
        return self._naming.get(broker_name, {}).keys() & self.routes.keys()

    def learn(self, topic: str, route: TopicRoute, teacher: str) -> bool:
        """Keep the route that a NameServer told; False when it says what is known already."""
        if is_same_route(self.routes.get(topic), route):
            return False
        self.forget(topic)
        for forgotten, old in self._forgotten.items():
            self._drop(forgotten, old)
        self._forgotten.clear()
        self.routes[topic] = route
        # Where two routes give a broker different addresses, the latest wins.
        for broker in route.brokers:
            self._naming.setdefault(broker.broker_name, {})[topic] = broker
            self.brokers[broker.broker_name] = broker
            self._teachers[broker.broker_name] = teacher
        self.leaders |= leaders(topic, route)
        return True

    def forget(self, topic: str) -> None:
        """Drop a topic's route. Its brokers stay known until another route changes: requests to them may be under way."""
        route = self.routes.pop(topic, None)
        if route is not None:
            self._forgotten[topic] = route

    def _drop(self, topic: str, route: TopicRoute) -> None:
        """Forget what one route says of brokers and leaders; of a broker the latest of the other routes counts."""
        for name in {broker.broker_name for broker in route.brokers}:
            naming = self._naming[name]
            del naming[topic]
            if naming:
                self.brokers[name] = next(reversed(naming.values()))
            else:
                del self._naming[name], self.brokers[name]
        for queue in leaders(topic, route):
            self.leaders.pop(queue, None)


def address_of(broker: BrokerData, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
    """Return the address of one member of a broker group, None when there is none.

    Args:
        broker_id: the preferred member; 0 is the master.
        only_this: None rather than the member of the smallest id when the preferred one is not there.
    """
    address = broker.addresses.get(broker_id)
    if address is not None or only_this or not broker.addresses:
        return address
    return broker.addresses[min(broker.addresses)]


def is_same_route(old: TopicRoute | None, new: TopicRoute | None) -> bool:
    """True when both say the same, in whatever order their lists come. Nothing equals a route that is missing."""
    if old is None or new is None:
        return False
    return old == new or _in_order(old) == _in_order(new)


def _in_order(route: TopicRoute) -> tuple[object, ...]:
    brokers = sorted(route.brokers, key=lambda broker: (broker.broker_name, broker.cluster))
    return (
        sorted(route.queues, key=_queue_data_order),
        [(b.cluster, b.broker_name, dict(b.addresses), b.zone_name, b.enable_acting_master) for b in brokers],
        route.order_topic_conf,
        {address: tuple(sorted(servers)) for address, servers in route.filter_servers.items()},
        route.queue_mappings or {},
    )


def _queue_data_order(data: QueueData) -> tuple[str, int, int, int]:
    return data.broker_name, data.read_queue_count, data.write_queue_count, data.perm
