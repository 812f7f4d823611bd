"""Settings: shown (26), and changed while the broker runs (25).

Source: Java AdminBrokerProcessor.updateBrokerConfig, getBrokerConfig.
"""

from __future__ import annotations

import logging

from orbitmq.broker.settings.changes import RunTimeSettings, format_settings
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, Rejected
from orbitmq.masking import masked_settings
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.registration import encode_data_version
from orbitmq.wire.headers import GetBrokerConfig, GetBrokerConfigResponse, UpdateBrokerConfig

log = logging.getLogger(__name__)

PROPERTIES_SIZE_MAX = 32 * 1024
"""Bytes of a request's properties: all keys that Java's broker knows have less than 20,000."""

handlers: Handlers[RunTimeSettings] = Handlers()


@handlers.on(GetBrokerConfig)
def get_broker_config(settings: RunTimeSettings, call: Call[GetBrokerConfig]) -> Reply:
    """Answer with every key that Java shows, as Java properties text."""
    version = GetBrokerConfigResponse(version=encode_data_version(settings.version).decode())
    return Reply(header=version, body=format_settings(settings))


@handlers.on(UpdateBrokerConfig, body_size_max=PROPERTIES_SIZE_MAX)
def update_broker_config(settings: RunTimeSettings, call: Call[UpdateBrokerConfig]) -> Reply | Later:
    """Change settings, all or none. Answered when they are kept, and count."""
    properties = _parse(call.command.body)
    if not properties:
        return Reply()
    try:
        change = settings.change(properties, call.now_ms, lambda remark: call.answer(Reply(remark=remark)))
    except ConfigError as error:
        raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
    log.info("%s has changed the settings %s", call.connection.remote, masked_settings(properties))
    if change.remark is not None:
        log.warning("of these settings were %s", change.remark)
    return LATER


def _parse(body: bytes) -> dict[str, str]:
    import javaproperties  # it loads an XML parser: only changes of settings pay

    try:
        return dict(javaproperties.loads(body.decode()))
    except ValueError:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
