"""The role that each request of a NameServer needs, where access control is switched on.

Route queries and lists are for everybody, as upstream. Administration needs the role admin, looking into settings, stored
values and history the role reader; registration needs the role admin where that is switched on.
"""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.security.accounts import Role
from orbitmq.net.security.server_security import ServerSecurity

_ROLES: dict[int, Role] = {
    RequestCode.PUT_KV_CONFIG: Role.ADMIN,
    RequestCode.DELETE_KV_CONFIG: Role.ADMIN,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Role.ADMIN,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Role.ADMIN,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Role.ADMIN,
    RequestCode.UPDATE_NAMESRV_CONFIG: Role.ADMIN,
    RequestCode.GET_NAMESRV_CONFIG: Role.READER,
    RequestCode.GET_KV_CONFIG: Role.READER,
    RequestCode.GET_KVLIST_BY_NAMESPACE: Role.READER,
    RequestCode.ORBITMQ_HEALTH: Role.READER,
    RequestCode.ORBITMQ_ROUTE_HISTORY: Role.READER,
    RequestCode.ORBITMQ_ROUTE_DIFFERENCE: Role.READER,
}
_REGISTRATION: dict[int, Role] = dict.fromkeys(
    (
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
    ),
    Role.ADMIN,
)


def make_server_security(config: NameServerConfig) -> ServerSecurity:
    """Return what protects a NameServer's port: signatures with roles, and TLS.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """
    roles = _ROLES | _REGISTRATION if config.acl_registration else _ROLES
    warnings = []
    if config.acl_enable and not config.acl_registration:
        warnings.append("brokers register without a signature (aclRegistration=false)")
    return ServerSecurity(config, roles.get, danger="change routes", warnings=warnings)
