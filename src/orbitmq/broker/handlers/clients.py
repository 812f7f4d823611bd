"""Clients in their groups: heartbeats (34), leaving (35), members of a group (38, 203, 204), checking a subscription (46)."""

from __future__ import annotations

from orbitmq.broker.groups.configs import GROUP_LENGTH_MAX
from orbitmq.broker.groups.members import GroupMember, HeartbeatSource
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.topic import check_name
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.bodies.groups import ClientConnection, encode_consumer_connections, encode_producer_connections
from orbitmq.wire.bodies.heartbeat import decode_heartbeat, decode_subscription_check, encode_consumer_list
from orbitmq.wire.headers import (
    CheckClientConfig,
    GetConsumerConnections,
    GetConsumerList,
    GetProducerConnections,
    HeartbeatRequest,
    HeartbeatResponse,
    UnregisterClient,
)

handlers: Handlers[BrokerService] = Handlers()

CONSUMER_NOT_ONLINE_REMARK = "the consumer group[{group}] not online"


@handlers.on(HeartbeatRequest)
def heartbeat(broker: BrokerService, call: Call[HeartbeatRequest]) -> Reply | Later:
    """Keep a client in its groups; tell the groups that it joined. New groups are made first."""
    beat = decode_heartbeat(call.command.body)
    _check_names(beat)
    groups = [consumer.group for consumer in beat.consumers]
    if broker.tables.auto_creation.are_known(groups):
        return _join(broker, call, beat)

    def answer(refusal: Rejected | None) -> None:
        call.answer(_join(broker, call, beat) if refusal is None else Reply(refusal.code, remark=refusal.remark))

    broker.tables.auto_creation.admit(call.connection, groups, call.now_ms, answer, size=len(call.command.body))
    return LATER


def _join(broker: BrokerService, call: Call[HeartbeatRequest], beat: Heartbeat) -> Reply:
    peer = HeartbeatSource(call.connection, call.command.language, call.command.version)
    outcome = broker.clients.membership.heartbeat(beat, peer)
    # A heartbeat without a fingerprint is one with all subscriptions: its client is told to go on with such.
    is_sub_change = not beat.fingerprint or outcome.needs_subscriptions
    return Reply(header=HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=is_sub_change))


def _check_names(beat: Heartbeat) -> None:
    if not beat.client_id:
        raise Rejected(ResponseCode.INVALID_PARAMETER, "a heartbeat without a client id")
    try:
        for name in beat.producer_groups:
            check_name("producer group", name, GROUP_LENGTH_MAX)
        for consumer in beat.consumers:
            check_name("consumer group", consumer.group, GROUP_LENGTH_MAX)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None


@handlers.on(UnregisterClient)
def unregister_client(broker: BrokerService, call: Call[UnregisterClient]) -> Reply:
    """Take a client out of its groups, and notify the others."""
    header = call.header
    broker.clients.membership.unregister(
        header.client_id, header.producer_group, header.consumer_group, call.connection
    )
    return Reply()


@handlers.on(GetConsumerList)
def get_consumer_list(broker: BrokerService, call: Call[GetConsumerList]) -> Reply:
    """Answer with the client ids of a group: what every member computes its share from."""
    client_ids = broker.clients.members.consumer_ids(call.header.consumer_group)
    if not client_ids:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {call.header.consumer_group}")
    return Reply(body=encode_consumer_list(client_ids))


@handlers.on(CheckClientConfig)
def check_client_config(broker: BrokerService, call: Call[CheckClientConfig]) -> Reply:
    """Return True if this broker can filter as a subscription asks; nothing is wrong with none at all."""
    if call.command.body:
        broker.delivery.filters.check(decode_subscription_check(call.command.body).subscription, call.now_ms)
    return Reply()


@handlers.on(GetConsumerConnections)
def get_consumer_connections(broker: BrokerService, call: Call[GetConsumerConnections]) -> Reply:
    """Answer with a consumer group's clients and subscriptions."""
    name = call.header.consumer_group
    group = broker.clients.members.find(name)
    if group is None:
        raise Rejected(ResponseCode.CONSUMER_NOT_ONLINE, CONSUMER_NOT_ONLINE_REMARK.format(group=name))
    info = ConsumerInfo(
        group=name,
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from=group.consume_from,
        subscriptions=tuple(group.subscriptions.values()),
    )
    return Reply(body=encode_consumer_connections(map(_connection, group.members.values()), info))


@handlers.on(GetProducerConnections)
def get_producer_connections(broker: BrokerService, call: Call[GetProducerConnections]) -> Reply:
    """Answer with a producer group's clients."""
    name = call.header.producer_group
    members = broker.clients.members.producers.get(name)
    if members is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return Reply(body=encode_producer_connections(map(_connection, members.values())))


def _connection(member: GroupMember[Peer]) -> ClientConnection:
    return ClientConnection(member.client_id, member.connection.remote, member.language, member.version)
