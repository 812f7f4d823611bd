"""Handlers of brokers that renew their leases and leave; they register in `registration.pipeline`."""

from __future__ import annotations

from typing import Literal

from orbitmq.nameserver.routing.events import Cause, Trigger
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.bodies.registration import decode_data_version, encode_data_version
from orbitmq.wire.bodies.route import encode_member_group
from orbitmq.wire.headers import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
    QueryDataVersionResponse,
    UnregisterBroker,
)
from orbitmq.wire.slices import Slices

handlers: Handlers[NameServerService] = Handlers()


@handlers.on(UnregisterBroker)
def unregister_broker(service: NameServerService, call: Call[UnregisterBroker]) -> Reply | Literal[Later.LATER]:
    """Take a broker out, unless it has registered anew through a later connection."""
    header = call.header
    key = BrokerKey(header.cluster_name, header.broker_name, header.broker_addr)

    def leaving(trigger: Trigger) -> Slices[Reply]:
        yield from service.route_table.unregistering(key, trigger, owner=call.connection.id)
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
