"""How commands sign and encrypt: as the file says that ORBITMQ_SECURITY names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient
    from orbitmq.net.security import Security

SECURITY_VARIABLE = "ORBITMQ_SECURITY"


def read_security() -> Security:
    """Return what ORBITMQ_SECURITY says; nothing is signed or encrypted without it.

    Raises:
        ConfigError: the file cannot be used.
    """
    from orbitmq.net.security import load_security

    return load_security(os.environ.get(SECURITY_VARIABLE))


def admin_client(name_servers: str, timeout_ms: int) -> AdminClient:
    """Return an administrator's client of these NameServers."""
    from orbitmq.admin import AdminClient

    return AdminClient(name_servers, timeout_ms=timeout_ms, **read_security()._asdict())
