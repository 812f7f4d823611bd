"""Handlers of clusters: lists of brokers, and the permissions of a broker's topics."""

from __future__ import annotations

from typing import Literal

from orbitmq.nameserver.routing.events import Cause, Trigger
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
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
from orbitmq.wire.slices import Slices

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
def wipe_write_perm(service: NameServerService, call: Call[WipeWritePerm]) -> Reply | Literal[Later.LATER]:
    """Take the write bit from every topic of a broker name."""
    name = call.header.broker_name

    def wiping(trigger: Trigger) -> Slices[Reply]:
        count = yield from service.route_table.wiping_write_perm(name, trigger)
        return Reply(header=WipeWritePermResponse(wipe_topic_count=count))

    return service.change(call, Cause.WIPE_WRITE_PERM, frozenset([name]), wiping)


@handlers.on(AddWritePerm)
def add_write_perm(service: NameServerService, call: Call[AddWritePerm]) -> Reply | Literal[Later.LATER]:
    """Let every topic of a broker name be written again."""
    name = call.header.broker_name

    def adding(trigger: Trigger) -> Slices[Reply]:
        count = yield from service.route_table.adding_write_perm(name, trigger)
        return Reply(header=AddWritePermResponse(add_topic_count=count))

    return service.change(call, Cause.ADD_WRITE_PERM, frozenset([name]), adding)
