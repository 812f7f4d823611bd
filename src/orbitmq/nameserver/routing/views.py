"""Views of one route for different askers: with acting masters, or with one zone's brokers alone. Pure."""

from __future__ import annotations

from dataclasses import replace

from orbitmq.model.route import MASTER_ID, BrokerData, TopicRoute
from orbitmq.model.topic import Perm

SYNC_GROUP_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics that brokers use to learn of each other: answered as they are (Java: SYNC_BROKER_MEMBER_GROUP_PREFIX)."""


def show_acting_masters(topic: str, route: TopicRoute) -> TopicRoute:
    """Show the smallest slave id of a read-only group without master as its master.

    Source: Java RouteInfoManager.pickupTopicRouteData with supportActingMaster.
    """
    if topic.startswith(SYNC_GROUP_TOPIC_PREFIX):
        return route
    read_only = {queue.broker_name for queue in route.queues if not queue.perm & Perm.WRITE}
    return replace(route, brokers=tuple(_with_acting_master(broker, read_only) for broker in route.brokers))


def keep_zone(route: TopicRoute, zone_name: str) -> TopicRoute:
    """Leave out the masters of other zones, with their slaves, queues and filter servers.

    Source: Java ZoneRouteRPCHook.
    """
    wanted = zone_name.casefold()
    kept = tuple(
        broker
        for broker in route.brokers
        if MASTER_ID not in broker.addresses or (broker.zone_name or "").casefold() == wanted
    )
    gone = [broker for broker in route.brokers if broker not in kept]
    gone_names = {broker.broker_name for broker in gone}
    gone_addresses = {address for broker in gone for address in broker.addresses.values()}
    return replace(
        route,
        queues=tuple(queue for queue in route.queues if queue.broker_name not in gone_names),
        brokers=kept,
        filter_servers={
            address: servers for address, servers in route.filter_servers.items() if address not in gone_addresses
        },
    )


def _with_acting_master(broker: BrokerData, read_only: set[str]) -> BrokerData:
    if not broker.addresses or MASTER_ID in broker.addresses or not broker.enable_acting_master:
        return broker
    if broker.broker_name not in read_only:
        return broker
    smallest = min(broker.addresses)
    others = {broker_id: address for broker_id, address in broker.addresses.items() if broker_id != smallest}
    return replace(broker, addresses={MASTER_ID: broker.addresses[smallest], **others})
