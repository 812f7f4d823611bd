"""The NameServer's settings: RocketMQ's own keys, typed, with ranges.

A field's name is its key in snake case (`scanNotActiveBrokerInterval` is `scan_not_active_broker_interval`); the
defaults are those of Java 5.3.3. Keys that exist in Java for its thread pools are accepted and have no effect.

Source: Java NamesrvConfig, NettyServerConfig; docs/compatibility.md.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.net.address import parse_address
from orbitmq.net.properties import read_properties

log = logging.getLogger(__name__)

TLS_MODES = ("disabled", "permissive", "enforcing")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """What a NameServer is told at start. Every value is checked here, so that nobody else has to."""

    # Where it listens. Port 0 means: choose one.
    bind_address: str = "0.0.0.0"
    listen_port: int = 9876

    # What it keeps on disk.
    kv_config_path: Path = Path("~/namesrv/kvConfig.json")
    config_store_path: Path = Path("~/namesrv/namesrv.properties")

    # Brokers. Intervals in milliseconds.
    scan_not_active_broker_interval: int = 5_000
    delete_topic_with_broker_registration: bool = False
    return_order_topic_config_to_broker: bool = True
    notify_min_broker_id_changed: bool = False

    # Route answers.
    order_message_enable: bool = False
    support_acting_master: bool = False
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    cluster_test: bool = False
    product_env_name: str = "center"
    product_name_servers: str = ""
    """Ours: whom `clusterTest` asks for topics that are not known here, host:port, several joined with ;"""

    # Remote configuration: keys that a request must not touch, beside those that it never may.
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    # Ours: who may ask. The accounts file is described in `access.py`, the modes in `net.tls`.
    acl_enable: bool = False
    """Administration and insight need a signature."""
    acl_registration: bool = False
    """Brokers need one, too."""
    acl_file: Path = Path("~/namesrv/accounts.json")
    tls_server_mode: str = "disabled"
    """disabled, permissive (both kinds of connections on one port) or enforcing."""
    tls_server_cert_path: str = ""
    tls_server_key_path: str = ""
    tls_server_trust_cert_path: str = ""
    tls_server_need_client_auth: bool = False

    # Limits of connections; 0 means none.
    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1_024
    shutdown_wait_time_seconds: int = 30
    frame_deadline_seconds: int = 30
    """Ours: a frame that began to arrive must be whole after this long."""
    write_buffer_max: int = 64 * 1024 * 1024
    """Ours: bytes that may wait for a client that does not read."""
    connections_max: int = 0
    """Ours: open connections."""
    connections_per_address_max: int = 0
    """Ours: open connections from one IP address."""
    requests_per_second_max: int = 0
    """Ours: requests per second on one connection."""

    # Ours: what operators see.
    metrics_port: int = -1
    """HTTP port of /metrics, /healthz and /readyz; 0 chooses one, -1 has none."""
    metrics_address: str = "127.0.0.1"
    """Where the HTTP port listens."""
    shadow_address: str = ""
    """Another NameServer, host:port, whose routes are compared with ours; empty: none."""
    shadow_interval_seconds: int = 30
    """Between two comparisons."""
    route_history_size: int = 50_000
    """Changes of routes that are remembered; each topic of a change counts."""

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(java_key(name), value, f"{low} to {high}")
        for name in _PATHS:
            object.__setattr__(self, name, Path(getattr(self, name)).expanduser())
        if self.tls_server_mode not in TLS_MODES:
            raise ConfigError("tlsServerMode", self.tls_server_mode, " or ".join(TLS_MODES))
        for address in self.product_addresses:
            parse_address(address)
        if self.shadow_address:
            parse_address(self.shadow_address)
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if isinstance(value, str) and not value.isprintable():
                raise ConfigError(java_key(spec.name), value, "printable characters")

    @property
    def product_addresses(self) -> tuple[str, ...]:
        """The NameServers of `product_name_servers`."""
        return tuple(address.strip() for address in self.product_name_servers.split(";") if address.strip())

    @classmethod
    def from_properties(cls, path: Path | str, **overrides: Any) -> NameServerConfig:
        """Read a properties file, which is also where remote changes are saved; `overrides` (by field) win over it.

        Raises:
            ConfigError: the file cannot be read, or a key holds a value that is not allowed.
        """
        return cls.from_mapping(read_properties(path), **{"config_store_path": Path(path), **overrides})

    @classmethod
    def from_mapping(cls, properties: Mapping[str, str], **overrides: Any) -> NameServerConfig:
        """Build the settings from RocketMQ's keys and text values. Unknown keys are named in the log.

        Raises:
            ConfigError: a key holds a value that is not allowed.
        """
        values: dict[str, Any] = {}
        for key, text in properties.items():
            if key in _FIELDS:
                values[_FIELDS[key].name] = parse_value(key, text)
            elif key not in WITHOUT_EFFECT:
                log.warning("the setting %s is not known and has no effect", key)
        return cls(**{**values, **overrides})

    def changed_by(self, properties: Mapping[str, str]) -> NameServerConfig:
        """Return the settings with RocketMQ's keys and text values put over them; unknown keys are left out.

        Raises:
            ConfigError: a key holds a value that is not allowed.
        """
        values = {_FIELDS[key].name: parse_value(key, text) for key, text in properties.items() if key in _FIELDS}
        return dataclasses.replace(self, **values)

    def to_properties(self) -> dict[str, str]:
        """Return RocketMQ's keys with the values in use, sorted."""
        found = {java_key(spec.name): _format(getattr(self, spec.name)) for spec in dataclasses.fields(self)}
        return dict(sorted(found.items()))


def java_key(name: str) -> str:
    """Return RocketMQ's key for a field's name."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def parse_value(key: str, text: str) -> Any:
    """Parse the text of one key.

    Raises:
        ConfigError: it is not what the key needs.
    """
    kind, text = _FIELDS[key].type, text.strip()
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ConfigError(key, text, "true or false")
        return text.lower() == "true"
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise ConfigError(key, text, "a whole number") from None
    return text


def _format(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_FIELDS = {java_key(spec.name): spec for spec in dataclasses.fields(NameServerConfig)}
_PATHS = ("kv_config_path", "config_store_path", "acl_file")
_DAY_SECONDS = 86_400
_RANGES: dict[str, tuple[int, int]] = {
    "listen_port": (0, 65_535),
    "scan_not_active_broker_interval": (10, 600_000),
    "wait_seconds_for_service": (0, 3_600),
    "server_channel_max_idle_time_seconds": (1, _DAY_SECONDS),
    "server_socket_backlog": (1, 65_535),
    "shutdown_wait_time_seconds": (0, 3_600),
    "frame_deadline_seconds": (0, 3_600),
    "write_buffer_max": (0, 2**31 - 1),
    "connections_max": (0, 10_000_000),
    "connections_per_address_max": (0, 10_000_000),
    "requests_per_second_max": (0, 10_000_000),
    "metrics_port": (-1, 65_535),
    "shadow_interval_seconds": (1, 86_400),
    "route_history_size": (0, 10_000_000),
}
WITHOUT_EFFECT = frozenset(
    [
        "rocketmqHome",
        "clientRequestThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "defaultThreadPoolNums",
        "defaultThreadPoolQueueCapacity",
        "unRegisterBrokerQueueCapacity",
        "enableControllerInNamesrv",
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
"""Keys of Java's thread pools and sockets: accepted, without a meaning here."""
