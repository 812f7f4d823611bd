"""How commands sign and encrypt: as the file says that --security or ORBITMQ_SECURITY names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient


def admin_client(name_servers: str, timeout_ms: int, security: Path | None) -> AdminClient:
    """Return an administrator's client of these NameServers.

    Raises:
        ConfigError: the file cannot be used.
    """
    from orbitmq.admin import AdminClient
    from orbitmq.net.security.client_security import load_client_security

    return AdminClient(name_servers, timeout_ms=timeout_ms, **load_client_security(security)._asdict())
