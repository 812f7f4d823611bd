"""Handlers of settings, and of requests that only orbitmq knows: health, and the history of routes.

What may be changed is a white list of typed, range-checked keys. No remote value is a path, and none is text, so none
can smuggle anything into the file that they are saved in (CVE-2023-33246, CVE-2023-37582).
"""

from __future__ import annotations

import logging
import re
from typing import Literal

import orjson

from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, InvalidArgument, Rejected
from orbitmq.masking import masked_settings
from orbitmq.nameserver.config import WITHOUT_EFFECT, NameServerConfig
from orbitmq.nameserver.monitoring.route_history import EVENTS_MAX
from orbitmq.nameserver.persistence.group_commit import answer_when_saved
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.security.server_settings import requested_changes
from orbitmq.wire.headers import (
    GetHealth,
    GetNameServerConfig,
    GetRouteDifference,
    GetRouteHistory,
    UpdateNameServerConfig,
)
from orbitmq.wire.slices import Slices

log = logging.getLogger(__name__)

handlers: Handlers[NameServerService] = Handlers()

CHANGEABLE = frozenset(
    [
        "scanNotActiveBrokerInterval",
        "deleteTopicWithBrokerRegistration",
        "returnOrderTopicConfigToBroker",
        "notifyMinBrokerIdChanged",
        "orderMessageEnable",
        "supportActingMaster",
        "needWaitForService",
        "waitSecondsForService",
        "enableAllTopicList",
        "enableTopicList",
    ]
)
"""Every key that a request may change; all of them are numbers or booleans."""
PROPERTIES_SIZE_MAX = 8 * 1024
"""Bytes of a request's properties. All settings together have less than 2,000, and a byte takes a microsecond."""
_PLAIN = re.compile(r"-?[0-9]{1,19}|true|false", re.ASCII | re.IGNORECASE)
"""What Java's keys that have no effect here hold, too: other text is an attack or a mistake."""


@handlers.on(UpdateNameServerConfig, body_size_max=PROPERTIES_SIZE_MAX)
def update_config(service: NameServerService, call: Call[UpdateNameServerConfig]) -> Reply | Literal[Later.LATER]:
    """Save settings and change them; one forbidden key refuses the whole request. Answered when they count."""
    config = service.config
    known, others = requested_changes(call.command.body, config, CHANGEABLE, config.config_black_list)
    for key in others.keys() & WITHOUT_EFFECT:
        if _PLAIN.fullmatch(others[key]) is None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"{key}: a number, true or false is expected")
    if ignored := others.keys() - WITHOUT_EFFECT:
        log.info("%s sent %d unknown settings, which are ignored", call.connection.remote, len(ignored))
    if not known:
        return Reply()
    try:
        service.config_store.change(known, answer_when_saved(call))
    except ConfigError as error:
        raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
    log.info("%s changes the settings %s", call.connection.remote, masked_settings(known))
    return LATER


@handlers.on(GetNameServerConfig)
def get_config(service: NameServerService, call: Call[GetNameServerConfig]) -> Reply:
    """List the settings in use."""
    return Reply(body=format_properties(service.config).encode())


def format_properties(config: NameServerConfig) -> str:
    """Return settings as lines of `key=value`, sorted by key, as `-p` prints them."""
    return "".join(f"{key}={value}\n" for key, value in config.to_properties().items())


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
    events = service.route_history.events(
        topic=header.topic, broker_name=header.broker_name, since_ms=header.since_ms, count_max=header.count_max
    )
    return Reply(body=orjson.dumps(events))


@handlers.on(GetRouteDifference)
def get_route_difference(service: NameServerService, call: Call[GetRouteDifference]) -> Reply | Literal[Later.LATER]:
    """Say what is different now from how it was."""

    def looking() -> Slices[Reply]:
        return Reply(body=(yield from service.route_history.difference(call.header.at_ms)))

    return service.answer_in_slices(call, looking())
