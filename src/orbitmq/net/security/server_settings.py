"""Settings that every server has: its port, who may use it, and what operators see; and what a file or a request says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, Rejected
from orbitmq.net.limits import CONNECTIONS_MAX
from orbitmq.net.security.tls import TlsMode
from orbitmq.settings import check_bind_address, check_values, fields_by_key, format_values, parse_value

NETTY_KEYS = frozenset(
    [
        "serverWorkerThreads",
        "serverCallbackExecutorThreads",
        "serverSelectorThreads",
        "serverOnewaySemaphoreValue",
        "serverAsyncSemaphoreValue",
        "serverSocketSndBufSize",
        "serverSocketRcvBufSize",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
        "serverNettyWorkerGroupEnable",
        "serverPooledByteBufAllocatorEnable",
        "enableShutdownGracefully",
        "useEpollNativeSelector",
    ]
)
"""Keys of the threads and sockets of Java's servers: accepted, without a meaning here. Source: Java NettyServerConfig."""
_RANGES = {
    "server_channel_max_idle_time_seconds": (0, 86_400),
    "server_socket_backlog": (1, 65_535),
    "connections_max": (0, 10_000_000),
    "metrics_port": (-1, 65_535),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings that every server has, by RocketMQ's keys in snake case; a server's own settings extend them."""

    bind_address: str = "0.0.0.0"

    acl_enable: bool = False
    """Ours: requests need a signature; which ones is the server's to say."""
    acl_file: Path
    """Ours: the accounts that may sign (`net.security.accounts`)."""
    tls_server_mode: str = "permissive"
    """disabled, permissive (both kinds of connections on one port) or enforcing."""
    tls_server_cert_path: str = ""
    """Without it and its key the server makes a certificate for itself when the first client asks."""
    tls_server_key_path: str = ""
    tls_server_trust_cert_path: str = ""
    tls_server_need_client_auth: bool = False
    security_file: str = ""
    """Ours: a file that says how this server signs and encrypts what it asks of others (`net.security.client_security`)."""

    # Limits of connections; 0 means none.
    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1_024
    connections_max: int = CONNECTIONS_MAX
    """Ours: open connections. Never more than half of the file descriptors."""

    # Ours: what operators see.
    metrics_port: int = -1
    """HTTP port of /metrics, /healthz and /readyz; 0 chooses one, -1 has none."""
    metrics_address: str = "127.0.0.1"
    """Where the HTTP port listens."""

    def check(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        """Check the values above, every number against its range and every text.

        Args:
            ranges: of the server's own numbers, by field.

        Raises:
            ConfigError: names the key, its value and what is allowed.
        """
        check_values(self, {**_RANGES, **ranges})
        check_bind_address("bindAddress", self.bind_address)
        check_bind_address("metricsAddress", self.metrics_address)
        if self.tls_server_mode not in list(TlsMode):
            raise ConfigError("tlsServerMode", self.tls_server_mode, " or ".join(TlsMode))

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of known keys by field; unknown keys are left out.

        Raises:
            ConfigError: a key holds a value of another type.
        """
        known = fields_by_key(cls)
        return {
            spec.name: parse_value(key, properties[key], spec.type) for key, spec in known.items() if key in properties
        }

    def changed_by(self, properties: Mapping[str, str]) -> Self:
        """Return the settings with RocketMQ's keys and text values put over them; unknown keys are left out.

        Raises:
            ConfigError: a key holds a value that is not allowed.
        """
        return dataclasses.replace(self, **self.parse(properties))

    def to_properties(self) -> dict[str, str]:
        """Return RocketMQ's keys with the values in use, sorted."""
        return format_values(self)


def requested_changes(
    body: bytes, settings: ServerSettings, changeable: Collection[str], black_list: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys and values of a request to change settings: those that may be changed, and those that mean nothing here.

    Args:
        changeable: the keys that a request may change.
        black_list: keys that it may not, joined with ;, besides all others of these settings.

    Raises:
        Rejected: 16, it names a key that it may not change: nothing is to be changed then; 1, it cannot be read.
    """
    import javaproperties  # it loads an XML parser: only changes of settings pay

    try:
        properties = dict(javaproperties.loads(body.decode()))
    except ValueError:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
    forbidden = {*settings.to_properties(), "rocketmqHome"} - {*changeable}
    forbidden |= {key.strip() for key in black_list.split(";")}
    if forbidden & properties.keys():
        raise Rejected(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    known = {key: text for key, text in properties.items() if key in changeable}
    return known, {key: text for key, text in properties.items() if key not in known}
