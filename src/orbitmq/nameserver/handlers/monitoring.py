"""What only orbitmq's NameServer can tell: its health, and what happened to its routes."""

from __future__ import annotations

import orjson

from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.service import Registry
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import GetHealth, GetRouteDifference, GetRouteHistory

handlers: Handlers[Registry] = Handlers()

EVENTS_MAX = 1_000
"""Events of one answer."""


@handlers.on(GetHealth)
def get_health(registry: Registry, call: Call[GetHealth]) -> Reply:
    """Say how the NameServer is doing."""
    return Reply(body=orjson.dumps(registry.health()))


@handlers.on(GetRouteHistory)
def get_route_history(registry: Registry, call: Call[GetRouteHistory]) -> Reply:
    """List what happened, newest first."""
    header = call.header
    if not 1 <= header.count_max <= EVENTS_MAX:
        raise InvalidArgument("maxNum", header.count_max, f"1 to {EVENTS_MAX}")
    events = registry.history.events(
        topic=header.topic, broker_name=header.broker_name, since_ms=header.since_ms, count_max=header.count_max
    )
    return Reply(body=orjson.dumps(events))


@handlers.on(GetRouteDifference)
def get_route_difference(registry: Registry, call: Call[GetRouteDifference]) -> Reply:
    """Say what is different now from how it was."""
    return Reply(body=orjson.dumps(registry.history.difference(call.header.at_ms)))
