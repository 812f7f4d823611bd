"""The handler of route queries."""

from __future__ import annotations

from typing import Literal

from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import Rejected
from orbitmq.nameserver.routing.views import keep_zone
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import GetRouteInfo

handlers: Handlers[NameServerService] = Handlers()

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
        service.unknown_topics.note(header.topic, call.now_ms, call.connection.remote)
        remark = f"No topic route info in name server for the topic: {header.topic}\n{_FAQ}"
        if service.upstream is None:
            raise Rejected(ResponseCode.TOPIC_NOT_EXIST, remark)
        service.upstream.answer(call, Reply(ResponseCode.TOPIC_NOT_EXIST, remark))
        return LATER
    if header.zone_mode and header.zone_name and header.zone_name.strip():
        route = service.find_route(header.topic)
        assert route is not None, "the topic has an answer"
        # Java's zone hook writes bare broker ids, whoever asks.
        body = encode_route(keep_zone(route, header.zone_name), standard=False)
    return Reply(body=body)
