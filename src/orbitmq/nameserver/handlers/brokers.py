"""Brokers come, stay and go."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from functools import lru_cache
from itertools import repeat
from typing import Literal

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.route import QueueData
from orbitmq.nameserver.registration.queue import Concerns
from orbitmq.nameserver.routing.events import Cause, Origin
from orbitmq.nameserver.routing.route_table import SLICE_TOPICS
from orbitmq.nameserver.routing.validation import check_registered_name, illegal_names
from orbitmq.nameserver.routing.values import LEASE_MS, BrokerKey, MasterAddresses, Registration
from orbitmq.nameserver.service import ORDER_TOPIC_NAMESPACE, Registry
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.bodies.kv import encode_kv_table
from orbitmq.wire.bodies.registration import (
    RegisterBrokerBody,
    decode_data_version,
    encode_data_version,
    read_registration,
)
from orbitmq.wire.bodies.route import encode_member_group
from orbitmq.wire.bodies.topic_table import RegisteredTopic
from orbitmq.wire.headers import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
)
from orbitmq.wire.slices import Slices, finish, parts_of

log = logging.getLogger(__name__)

handlers: Handlers[Registry] = Handlers()

LEASE_MS_MAX = 24 * 3_600_000
ADDRESS_LENGTH_MAX = 255
QUEUE_DATA_MAX = 65_536
"""Queue settings that brokers' topics share: most topics of a broker differ by their names alone."""


@handlers.on(RegisterBroker)
def register_broker(registry: Registry, call: Call[RegisterBroker]) -> Reply | Literal[Later.LATER]:
    """Enter a broker with its topics, or renew its lease; thousands of topics in slices."""
    unfinished = registry.unfinished
    if unfinished and unfinished.is_before(concerns := _concerns(registry, call.header)):
        return unfinished.append(call, concerns, _renew_or_register(registry, call))
    master = _renew_unchanged(registry, call)
    if master is not None:
        return _registered(registry, master)
    return unfinished.take(call, _concerns(registry, call.header), _register(registry, call))


@handlers.on(UnregisterBroker)
def unregister_broker(registry: Registry, call: Call[UnregisterBroker]) -> Reply:
    """Take a broker out, unless it has registered anew through a later connection."""
    header = call.header
    key = BrokerKey(header.cluster_name, header.broker_addr)
    with registry.changing(Cause.UNREGISTRATION, call.now_ms, call.connection.remote) as origin:
        registry.table.unregister(key, header.broker_name, origin, owner=call.connection.id)
    registry.unchanged.forget(key)
    return Reply()


@handlers.on(QueryDataVersion)
def query_data_version(registry: Registry, call: Call[QueryDataVersion]) -> Reply:
    """Answer whether a broker's topics have changed since it registered, and renew its lease."""
    header = call.header
    key = BrokerKey(header.cluster_name, header.broker_addr)
    theirs = decode_data_version(call.command.body) if call.command.body else None
    lease = registry.table.lease_of(key)
    registry.table.renew(key, call.now_ms, call.connection.id)
    changed = lease is None or lease.data_version != theirs
    body = b"" if lease is None else encode_data_version(lease.data_version)
    return Reply(header=QueryDataVersionResponse(changed=changed), body=body)


@handlers.on(BrokerHeartbeat)
def broker_heartbeat(registry: Registry, call: Call[BrokerHeartbeat]) -> Reply:
    """Renew a lease and nothing else; a broker that is not registered stays so."""
    key = BrokerKey(call.header.cluster_name, call.header.broker_addr)
    registry.table.renew(key, call.now_ms, call.connection.id)
    return Reply()


@handlers.on(GetBrokerMemberGroup)
def get_broker_member_group(registry: Registry, call: Call[GetBrokerMemberGroup]) -> Reply:
    """List a broker name's addresses; the cluster is echoed, as in Java."""
    header = call.header
    addresses = registry.table.member_group(header.broker_name)
    return Reply(body=encode_member_group(header.cluster_name, header.broker_name, addresses))


def _renew_unchanged(registry: Registry, call: Call[RegisterBroker]) -> MasterAddresses | None:
    """Renew the lease of a broker that says nearly what it said last time; None: look at it closely."""
    header, table = call.header, registry.table
    key = BrokerKey(header.cluster_name, header.broker_addr)
    body = call.command.body
    known = registry.unchanged.recognise(key, header, call.command.version, body, table.revision_of(header.broker_name))
    if known is None:
        return None
    if known.checksum != header.body_crc32:
        _check_body(header, body)
    if known.topics:
        changed = RegisterBrokerBody(data_version=known.data_version, topics=known.topics, filter_servers=None)
        return _apply(registry, call, changed, is_partial=True)
    if not table.renew(key, call.now_ms, call.connection.id, known.data_version):
        return None
    return table.master_of(header.broker_name, header.broker_id, header.cluster_name)


def _concerns(registry: Registry, header: RegisterBroker) -> Concerns:
    key = BrokerKey(header.cluster_name, header.broker_addr)
    lease = registry.table.lease_of(key)
    former_name = header.broker_name if lease is None else lease.broker_name
    return frozenset((key, header.broker_name, former_name))


def _renew_or_register(registry: Registry, call: Call[RegisterBroker]) -> Slices[Reply]:
    master = _renew_unchanged(registry, call)
    if master is not None:
        return _registered(registry, master)
    return (yield from _register(registry, call))


def _register(registry: Registry, call: Call[RegisterBroker]) -> Slices[Reply]:
    header, command = call.header, call.command
    _check_body(header, command.body)
    _check_names(header)
    body = yield from read_registration(command.body, compressed=header.compressed, version=command.version)
    return _registered(registry, (yield from _applying(registry, call, body, is_partial=False)))


def _registered(registry: Registry, master: MasterAddresses) -> Reply:
    return Reply(
        header=RegisterBrokerResponse(ha_server_addr=master.ha_address, master_addr=master.master_address),
        body=_order_topics(registry),
    )


def _apply(
    registry: Registry, call: Call[RegisterBroker], body: RegisterBrokerBody, *, is_partial: bool
) -> MasterAddresses:
    return finish(_applying(registry, call, body, is_partial=is_partial))


def _applying(
    registry: Registry, call: Call[RegisterBroker], body: RegisterBrokerBody, *, is_partial: bool
) -> Slices[MasterAddresses]:
    """Register a broker with all its topics, or with those that differ from its last registration."""
    header, table, remote = call.header, registry.table, call.connection.remote
    queues = yield from _to_queues(header.broker_name, body.topics, remote)
    registration = _to_registration(header, body, queues)
    origin = Origin(Cause.REGISTRATION, call.now_ms, remote)
    registering = table.registering(registration, origin, call.connection.id, is_partial=is_partial)
    master = yield from registry.changing_in_slices(registering)
    if table.lease_of(registration.key) is None:
        return master
    is_applied = not body.queue_mappings
    for part in parts_of(queues, SLICE_TOPICS):
        is_applied = is_applied and table.agrees_with(header.broker_name, part)
        if part is not queues:
            yield
    registry.unchanged.remember(
        registration.key,
        header,
        call.command.version,
        call.command.body,
        body.data_version,
        table.revision_of(header.broker_name),
        topic_count=None if is_partial else len(body.topics),
        is_applied=is_applied,
    )
    return master


def _check_body(header: RegisterBroker, body: bytes) -> None:
    if header.body_crc32 and zlib.crc32(body) & 0x7FFFFFFF != header.body_crc32:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "crc32 not match")


def _check_names(header: RegisterBroker) -> None:
    check_registered_name("clusterName", header.cluster_name)
    check_registered_name("brokerName", header.broker_name)
    check_registered_name("brokerAddr", header.broker_addr.replace("[", "").replace("]", ""))


def _to_registration(header: RegisterBroker, body: RegisterBrokerBody, queues: Mapping[str, QueueData]) -> Registration:
    lease_ms = header.heartbeat_timeout_millis
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        lease_ms=LEASE_MS if lease_ms is None else min(max(lease_ms, 0), LEASE_MS_MAX),
        acting_master=header.enable_acting_master,
        zone_name=header.zone_name,
        data_version=body.data_version,
        queues=queues,
        filter_servers=body.filter_servers,
        queue_mappings=body.queue_mappings,
    )


def _to_queues(broker_name: str, topics: Mapping[str, RegisteredTopic], remote: str) -> Slices[Mapping[str, QueueData]]:
    queues: dict[str, QueueData] = {}
    illegal_count = 0
    for part in parts_of(topics, SLICE_TOPICS):
        queues.update(zip(part, map(_queue_data, repeat(broker_name), part.values()), strict=False))
        illegal = illegal_names(part)
        for topic in illegal:
            del queues[topic]
        illegal_count += len(illegal)
        if part is not topics:
            yield
    if illegal_count:
        log.warning("%s at %s: left out %d topics with illegal names", broker_name, remote, illegal_count)
    return queues


@lru_cache(maxsize=QUEUE_DATA_MAX)
def _queue_data(broker_name: str, topic: RegisteredTopic) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_count=topic.read_queue_count,
        write_queue_count=topic.write_queue_count,
        perm=topic.perm,
        topic_sys_flag=topic.topic_sys_flag,
    )


def _order_topics(registry: Registry) -> bytes:
    if not registry.config.return_order_topic_config_to_broker:
        return b""
    table = registry.kv.namespace(ORDER_TOPIC_NAMESPACE)
    return b"" if table is None else encode_kv_table(table)
