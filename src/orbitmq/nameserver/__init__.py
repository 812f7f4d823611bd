"""The NameServer. Read `routing.route_table` first, then `service`, `handlers` and `app`."""

from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig

__all__ = ["NameServer", "NameServerConfig"]
