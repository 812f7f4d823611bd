"""Handlers of brokers and clusters: leases, unregistration, lists of brokers, permissions of their topics."""

from __future__ import annotations

from typing import Literal

from orbitmq.nameserver.routing.events import Cause, Trigger
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.bodies.registration import decode_data_version, encode_data_version
from orbitmq.wire.bodies.route import encode_cluster_info, encode_member_group
from orbitmq.wire.bodies.topics import encode_topic_list
from orbitmq.wire.headers import (
    AddWritePerm,
    AddWritePermResponse,
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    GetClusterInfo,
    GetSystemTopics,
    QueryDataVersion,
    QueryDataVersionResponse,
    UnregisterBroker,
    WipeWritePerm,
    WipeWritePermResponse,
)
from orbitmq.wire.slices import Slices

handlers: Handlers[NameServerService] = Handlers()


@handlers.on(UnregisterBroker)
def unregister_broker(service: NameServerService, call: Call[UnregisterBroker]) -> Reply | Literal[Later.LATER]:
    """Take a broker out, unless it has registered again through a later connection; one that was lost is no longer missed."""
    header = call.header
    key = BrokerKey(header.cluster_name, header.broker_name, header.broker_addr)

    def leaving(trigger: Trigger) -> Slices[Reply]:
        yield from service.route_table.unregister(key, trigger, owner=call.connection.id)
        service.forget_lost(header.broker_name, header.broker_id)
        return Reply()

    return service.change(call, Cause.UNREGISTRATION, frozenset([header.broker_name]), leaving)


@handlers.on(QueryDataVersion)
def query_data_version(service: NameServerService, call: Call[QueryDataVersion]) -> Reply:
    """Answer whether a broker's topics have changed since it registered, and renew its lease."""
    header = call.header
    key = BrokerKey(header.cluster_name, header.broker_name, header.broker_addr)
    theirs = decode_data_version(call.command.body) if call.command.body else None
    lease = service.tables.lease_of(key)
    service.tables.leases.renew(key, service.lease_clock())
    changed = lease is None or lease.data_version != theirs
    body = b"" if lease is None else encode_data_version(lease.data_version)
    return Reply(header=QueryDataVersionResponse(changed=changed), body=body)


@handlers.on(BrokerHeartbeat)
def broker_heartbeat(service: NameServerService, call: Call[BrokerHeartbeat]) -> Reply:
    """Renew a lease and nothing else; a broker that is not registered stays so."""
    key = BrokerKey(call.header.cluster_name, call.header.broker_name, call.header.broker_addr)
    service.tables.leases.renew(key, service.lease_clock())
    return Reply()


@handlers.on(GetBrokerMemberGroup)
def get_broker_member_group(service: NameServerService, call: Call[GetBrokerMemberGroup]) -> Reply:
    """List a broker name's addresses; the cluster is echoed, as in Java."""
    header = call.header
    addresses = service.tables.member_group(header.broker_name)
    return Reply(body=encode_member_group(header.cluster_name, header.broker_name, addresses))


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
        count = yield from service.route_table.wipe_write_perm(name, trigger)
        return Reply(header=WipeWritePermResponse(wipe_topic_count=count))

    return service.change(call, Cause.WIPE_WRITE_PERM, frozenset([name]), wiping)


@handlers.on(AddWritePerm)
def add_write_perm(service: NameServerService, call: Call[AddWritePerm]) -> Reply | Literal[Later.LATER]:
    """Let every topic of a broker name be written again."""
    name = call.header.broker_name

    def adding(trigger: Trigger) -> Slices[Reply]:
        count = yield from service.route_table.add_write_perm(name, trigger)
        return Reply(header=AddWritePermResponse(add_topic_count=count))

    return service.change(call, Cause.ADD_WRITE_PERM, frozenset([name]), adding)
