"""Handlers of clusters: lists of brokers, and the permissions of a broker's topics."""

from __future__ import annotations

from orbitmq.nameserver.routing.events import Cause
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.route import encode_cluster_info
from orbitmq.wire.bodies.topics import encode_topic_list
from orbitmq.wire.headers import (
    AddWritePerm,
    AddWritePermResponse,
    GetClusterInfo,
    GetSystemTopics,
    WipeWritePerm,
    WipeWritePermResponse,
)

handlers: Handlers[NameServerService] = Handlers()


@handlers.on(GetClusterInfo)
def get_cluster_info(service: NameServerService, call: Call[GetClusterInfo]) -> Reply:
    """List all brokers of all clusters."""
    return Reply(body=encode_cluster_info(service.tables.cluster_info()))


@handlers.on(GetSystemTopics)
def get_system_topics(service: NameServerService, call: Call[GetSystemTopics]) -> Reply:
    """List the names of clusters and brokers, which are topics, and one broker that knows more."""
    info = service.tables.cluster_info()
    names = dict.fromkeys(name for cluster, brokers in info.clusters.items() for name in (cluster, *brokers))
    addresses = (address for broker in info.brokers.values() for address in broker.addresses.values())
    return Reply(body=encode_topic_list(names, next(addresses, None)))


@handlers.on(WipeWritePerm)
def wipe_write_perm(service: NameServerService, call: Call[WipeWritePerm]) -> Reply:
    """Take the write bit from every topic of a broker name."""
    with service.changing(Cause.WIPE_WRITE_PERM, call.now_ms, call.connection.remote) as trigger:
        count = service.route_table.wipe_write_perm(call.header.broker_name, trigger)
    return Reply(header=WipeWritePermResponse(wipe_topic_count=count))


@handlers.on(AddWritePerm)
def add_write_perm(service: NameServerService, call: Call[AddWritePerm]) -> Reply:
    """Let every topic of a broker name be written again."""
    with service.changing(Cause.ADD_WRITE_PERM, call.now_ms, call.connection.remote) as trigger:
        count = service.route_table.add_write_perm(call.header.broker_name, trigger)
    return Reply(header=AddWritePermResponse(add_topic_count=count))
