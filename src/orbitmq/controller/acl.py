"""The role that each request of a controller needs, where access control is switched on.

Brokers need the role admin for all that they tell, administrators for all that they change; looking needs the role reader.
"""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.controller.config import ControllerConfig
from orbitmq.net.security.accounts import Role
from orbitmq.net.security.server_security import ServerSecurity

_ROLES: dict[int, Role] = {
    **dict.fromkeys(
        (
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            RequestCode.CONTROLLER_ELECT_MASTER,
            RequestCode.CONTROLLER_REGISTER_BROKER,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            RequestCode.BROKER_HEARTBEAT,
            RequestCode.UPDATE_CONTROLLER_CONFIG,
            RequestCode.CLEAN_BROKER_DATA,
        ),
        Role.ADMIN,
    ),
    **dict.fromkeys(
        (
            RequestCode.CONTROLLER_GET_REPLICA_INFO,
            RequestCode.CONTROLLER_GET_METADATA_INFO,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
            RequestCode.GET_CONTROLLER_CONFIG,
            RequestCode.ORBITMQ_HEALTH,
        ),
        Role.READER,
    ),
}


def make_server_security(config: ControllerConfig) -> ServerSecurity:
    """Return what protects a controller's port: signatures with roles, and TLS.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """
    return ServerSecurity(config, _ROLES.get, danger="decide who leads a broker group")
