"""Handlers of topics: routes, lists of topics, and one topic registered or deleted at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import Rejected
from orbitmq.nameserver.registration.queue import EVERYTHING, Concerns
from orbitmq.nameserver.routing.events import Cause, Trigger
from orbitmq.nameserver.routing.validation import check_registered_name
from orbitmq.nameserver.routing.views import keep_zone
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.route import decode_route, encode_route
from orbitmq.wire.bodies.topics import encode_topic_list
from orbitmq.wire.headers import (
    DeleteTopicInNameServer,
    GetAllTopics,
    GetRouteInfo,
    GetTopicsByCluster,
    GetUnitSubscriptionTopics,
    GetUnitSubscriptionUnunitTopics,
    GetUnitTopics,
    RegisterTopicInNameServer,
)
from orbitmq.wire.slices import Slices

handlers: Handlers[NameServerService] = Handlers()

Answer = Reply | Literal[Later.LATER]

ROUTE_SIZE_MAX = 128 * 1024
"""Bytes of the queues of one topic that is registered by itself: more than 1,000 brokers'."""

UNIT = 0b01
UNIT_SUBSCRIPTION = 0b10
"""Bits of a topic's system flag (Java: TopicSysFlag)."""


@handlers.on(GetAllTopics)
def get_all_topics(service: NameServerService, call: Call[GetAllTopics]) -> Reply:
    """List every topic."""
    if not service.config.enable_all_topic_list:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "disable")
    return Reply(body=encode_topic_list(service.tables.topics()))


@handlers.on(GetTopicsByCluster)
def get_topics_by_cluster(service: NameServerService, call: Call[GetTopicsByCluster]) -> Answer:
    """List the topics of a cluster; none for an unknown one."""
    return _list(service, call, service.tables.topics_of_cluster(call.header.cluster))


@handlers.on(GetUnitTopics)
def get_unit_topics(service: NameServerService, call: Call[GetUnitTopics]) -> Answer:
    """List the topics with the unit flag."""
    return _list(service, call, service.tables.topics_by_flag(UNIT))


@handlers.on(GetUnitSubscriptionTopics)
def get_unit_subscription_topics(service: NameServerService, call: Call[GetUnitSubscriptionTopics]) -> Answer:
    """List the topics with the unit-subscription flag."""
    return _list(service, call, service.tables.topics_by_flag(UNIT_SUBSCRIPTION))


@handlers.on(GetUnitSubscriptionUnunitTopics)
def get_unit_subscription_ununit_topics(
    service: NameServerService, call: Call[GetUnitSubscriptionUnunitTopics]
) -> Answer:
    """List the topics with the unit-subscription flag and without the unit flag."""
    return _list(service, call, service.tables.topics_by_flag(UNIT_SUBSCRIPTION, UNIT))


@handlers.on(RegisterTopicInNameServer, body_size_max=ROUTE_SIZE_MAX)
def register_topic(service: NameServerService, call: Call[RegisterTopicInNameServer]) -> Answer:
    """Add one topic's queues on known brokers; ignored as a whole when one of them is not known."""
    check_registered_name("topic", call.header.topic)
    body = call.command.body
    queues = decode_route(body, size_max=ROUTE_SIZE_MAX).queues if body else ()

    def registering(trigger: Trigger) -> Slices[Reply]:
        yield from service.route_table.register_topic(call.header.topic, queues, trigger)
        return Reply()

    return service.change(call, Cause.TOPIC_REGISTRATION, frozenset(queue.broker_name for queue in queues), registering)


@handlers.on(DeleteTopicInNameServer)
def delete_topic(service: NameServerService, call: Call[DeleteTopicInNameServer]) -> Answer:
    """Remove a topic, wholly or on one cluster's brokers."""
    header = call.header
    cluster = header.cluster_name or None
    concerns: Concerns = frozenset(service.tables.broker_names_of(header.topic, cluster))
    if service.queue.has_before(concerns):
        # A broker that registers the topic in between was earlier, too: nothing may begin until then.
        concerns = EVERYTHING

    def deleting(trigger: Trigger) -> Slices[Reply]:
        service.route_table.delete_topic(header.topic, trigger, cluster)
        return Reply()
        yield  # one slice: a topic has as many queues as there are broker names

    return service.change(call, Cause.TOPIC_DELETION, concerns, deleting)


def _list(service: NameServerService, call: Call[Any], slices: Slices[Iterable[str]]) -> Answer:
    if not service.config.enable_topic_list:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "disable")

    def listing() -> Slices[Reply]:
        topics = yield from slices
        return Reply(body=encode_topic_list(topics))

    return service.answer_in_slices(call, listing())


_FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@handlers.on(GetRouteInfo)
def get_route_info(service: NameServerService, call: Call[GetRouteInfo]) -> Reply | Literal[Later.LATER]:
    """Answer where a topic's queues are, in the JSON dialect that the peer reads."""
    if not service.is_ready(call.now_ms):
        raise Rejected(ResponseCode.SYSTEM_ERROR, "name server not ready")
    header = call.header
    standard = call.command.version >= Version.V4_9_4 or header.accept_standard_json_only is True
    body = service.routes.get(header.topic, standard)
    if body is None:
        is_refused = service.upstream is None
        service.unknown_topics.note(header.topic, call.now_ms, call.connection.remote, is_refused=is_refused)
        remark = f"No topic route info in name server for the topic: {header.topic}\n{_FAQ}"
        if service.upstream is None:
            raise Rejected(ResponseCode.TOPIC_NOT_EXIST, remark)
        service.upstream.answer(call, Reply(ResponseCode.TOPIC_NOT_EXIST, remark))
        return LATER
    if header.zone_mode and header.zone_name and header.zone_name.strip():
        route = service.find_route(header.topic)
        assert route is not None, "the topic has an answer"
        # Java's zone hook writes bare broker ids to every client.
        body = encode_route(keep_zone(route, header.zone_name), standard=False)
    return Reply(body=body)
