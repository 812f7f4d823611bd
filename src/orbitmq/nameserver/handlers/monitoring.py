"""Handlers of requests that only orbitmq knows: the NameServer's health, and what happened to its routes."""

from __future__ import annotations

from typing import Literal

import orjson

from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.monitoring.journal import EVENTS_MAX
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.headers import GetHealth, GetRouteDifference, GetRouteHistory
from orbitmq.wire.slices import Slices

handlers: Handlers[NameServerService] = Handlers()


@handlers.on(GetHealth)
def get_health(service: NameServerService, call: Call[GetHealth]) -> Reply:
    """Say how the NameServer is doing."""
    return Reply(body=orjson.dumps(service.health()))


@handlers.on(GetRouteHistory)
def get_route_history(service: NameServerService, call: Call[GetRouteHistory]) -> Reply:
    """List what happened, newest first."""
    header = call.header
    if not 1 <= header.count_max <= EVENTS_MAX:
        raise InvalidArgument("maxNum", header.count_max, f"1 to {EVENTS_MAX}")
    events = service.journal.events(
        topic=header.topic, broker_name=header.broker_name, since_ms=header.since_ms, count_max=header.count_max
    )
    return Reply(body=orjson.dumps(events))


@handlers.on(GetRouteDifference)
def get_route_difference(service: NameServerService, call: Call[GetRouteDifference]) -> Reply | Literal[Later.LATER]:
    """Say what is different now from how it was."""

    def looking() -> Slices[Reply]:
        return Reply(body=(yield from service.journal.difference(call.header.at_ms)))

    return service.answer_in_slices(call, looking())
