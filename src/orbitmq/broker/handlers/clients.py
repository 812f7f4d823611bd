"""Clients: heartbeats (34), leaving (35), who consumes in a group (38, 203, 204), checking a subscription (46)."""

from __future__ import annotations

from orbitmq.broker.groups.clients import HeartbeatSource, Member
from orbitmq.broker.groups.settings import GROUP_LENGTH_MAX
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.topic import check_name
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
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
def heartbeat(service: BrokerService, call: Call[HeartbeatRequest]) -> Reply:
    """Keep a client in its groups; tell the groups that it joined."""
    beat = decode_heartbeat(call.command.body)
    _check_names(beat)
    service.admit_groups((consumer.group for consumer in beat.consumers), call.now_ms)
    peer = HeartbeatSource(call.connection, call.command.language, call.command.version)
    outcome = service.clients.heartbeat(beat, peer, call.now_ms)
    service.tell_members(outcome.changed_groups)
    return Reply(header=HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=outcome.needs_subscriptions))


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
def unregister_client(service: BrokerService, call: Call[UnregisterClient]) -> Reply:
    """Take a client out of its groups, and tell those who stay."""
    header = call.header
    service.tell_members(service.clients.unregister(header.client_id, header.producer_group, header.consumer_group))
    return Reply()


@handlers.on(GetConsumerList)
def get_consumer_list(service: BrokerService, call: Call[GetConsumerList]) -> Reply:
    """Answer with the client ids of a group: what every member computes its share from."""
    client_ids = service.clients.consumer_ids(call.header.consumer_group)
    if not client_ids:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {call.header.consumer_group}")
    return Reply(body=encode_consumer_list(client_ids))


@handlers.on(CheckClientConfig)
def check_client_config(service: BrokerService, call: Call[CheckClientConfig]) -> Reply:
    """Say whether this broker can filter as a subscription asks."""
    subscription = decode_subscription_check(call.command.body).subscription
    if subscription.expression_type not in ("", "TAG"):
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {subscription.expression_type:.20}",
        )
    return Reply()


@handlers.on(GetConsumerConnections)
def get_consumer_connections(service: BrokerService, call: Call[GetConsumerConnections]) -> Reply:
    """Answer with a consumer group's clients and subscriptions."""
    name = call.header.consumer_group
    group = service.clients.find(name)
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
def get_producer_connections(service: BrokerService, call: Call[GetProducerConnections]) -> Reply:
    """Answer with a producer group's clients."""
    name = call.header.producer_group
    members = service.clients.producers.get(name)
    if members is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return Reply(body=encode_producer_connections(map(_connection, members.values())))


def _connection(member: Member[Peer]) -> ClientConnection:
    return ClientConnection(member.client_id, member.connection.remote, member.language, member.version)
