"""Requests about settings: read and changed from afar.

Typed and range-checked keys of a white list may be changed: numbers and booleans. No remote value is a path or a text,
so none can smuggle anything into the file that they are saved in.
"""

from __future__ import annotations

import asyncio
import logging

from orbitmq.codes import ResponseCode
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.service import ControllerService
from orbitmq.errors import ConfigError, Rejected
from orbitmq.files import replace_file
from orbitmq.masking import masked_settings
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.net.security.server_settings import requested_changes
from orbitmq.wire.headers import GetControllerConfig, UpdateControllerConfig

log = logging.getLogger(__name__)

handlers: Handlers[ControllerService] = Handlers()

CHANGEABLE = frozenset(
    [
        "scanNotActiveBrokerInterval",
        "scanInactiveMasterInterval",
        "enableElectUncleanMaster",
        "notifyBrokerRoleChanged",
    ]
)
"""Every key that a request may change."""
PROPERTIES_SIZE_MAX = 8 * 1024


@handlers.on(UpdateControllerConfig, body_size_max=PROPERTIES_SIZE_MAX)
def update_config(service: ControllerService, call: Call[UpdateControllerConfig]) -> Later:
    """Save settings and change them; one forbidden key refuses the whole request. Answered when they count."""
    config = service.config
    known, ignored = requested_changes(call.command.body, config, CHANGEABLE, config.config_black_list)
    if ignored:
        log.info("%s sent %d settings that have no effect", call.connection.remote, len(ignored))

    async def answer() -> Reply:
        async with service.config_lock:
            try:
                changed = service.config.changed_by(known)
                await asyncio.to_thread(_save, changed)
            except (ConfigError, OSError) as error:
                raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
            service.reconfigure(changed)
        log.info("%s changed the settings %s", call.connection.remote, masked_settings(known))
        return Reply()

    return service.answer(call, answer() if known else _nothing())


@handlers.on(GetControllerConfig)
def get_config(service: ControllerService, call: Call[GetControllerConfig]) -> Reply:
    """List the settings in use."""
    properties = service.config.to_properties()
    return Reply(body="".join(f"{key}={value}\n" for key, value in properties.items()).encode())


async def _nothing() -> Reply:
    return Reply()


def _save(config: ControllerConfig) -> None:
    import javaproperties  # it loads an XML parser: only changes of settings pay

    config.config_store_path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(config.config_store_path, javaproperties.dumps(config.to_properties()).encode())
