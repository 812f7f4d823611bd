"""The NameServer: read `route_table` first, then `handlers`, then `app`."""

from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig

__all__ = ["NameServer", "NameServerConfig"]
