"""The NameServer's settings: RocketMQ's own keys, typed, with ranges.

A field's name is its key in snake case (`scanNotActiveBrokerInterval` is `scan_not_active_broker_interval`); the
defaults are those of Java 5.3.3. Keys that exist in Java for its thread pools are accepted and have no effect.

Source: Java NamesrvConfig, NettyServerConfig; docs/compatibility.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.controller.config import KEYS as CONTROLLER_KEYS
from orbitmq.errors import ConfigError
from orbitmq.net.security.server_settings import NETTY_KEYS, ServerSettings
from orbitmq.settings import (
    fields_by_key,
    note_unknown_keys,
    parse_addresses,
    read_properties,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig(ServerSettings):
    """The settings of a NameServer. Every value is checked here, and nowhere else."""

    # Where it listens. Port 0 means: choose one.
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
    """Ours: the NameServers that `clusterTest` asks for topics that are not known here, host:port, several joined with ;"""

    # Remote configuration: keys that a request must not touch, besides those that it never may.
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    # Ours: access, besides what every server has for that. With `aclEnable` administration and insight need a signature.
    acl_registration: bool = False
    """Brokers need one, too."""
    acl_file: Path = Path("~/namesrv/accounts.json")

    # Limits of connections; 0 means none.
    shutdown_wait_time_seconds: int = 30
    frame_deadline_seconds: int = 30
    """Ours: a frame that began to arrive must be whole after this long."""
    write_buffer_max: int = 64 * 1024 * 1024
    """Ours: bytes that may wait for a client that does not read."""
    partial_frames_max: int = 128 * 1024 * 1024
    """Ours: bytes of the unfinished frames of all connections; one address may have three quarters of it."""
    connections_per_address_max: int = 0
    """Ours: open connections from one IP address."""
    requests_per_second_max: int = 0
    """Ours: requests per second on one connection."""

    # Ours: what operators see.
    shadow_address: str = ""
    """Another NameServer, host:port, whose routes are compared with ours; empty: none."""
    enable_controller_in_namesrv: bool = False
    """A controller runs in the same process, with the settings of controllers in the same file."""
    shadow_interval_seconds: int = 30
    """Between two comparisons."""
    route_history_size: int = 50_000
    """Changes of routes that are remembered; each topic of a change counts."""

    def __post_init__(self) -> None:
        self.check(_RANGES)
        for name in _PATHS:
            object.__setattr__(self, name, Path(getattr(self, name)).expanduser())
        parse_addresses("productNameServers", self.product_name_servers)
        shadow = parse_addresses("shadowAddress", self.shadow_address)
        if len(shadow) > 1:
            raise ConfigError("shadowAddress", self.shadow_address, "one host:port")
        object.__setattr__(self, "shadow_address", "".join(shadow))

    @property
    def product_addresses(self) -> tuple[str, ...]:
        """The NameServers of `product_name_servers`."""
        return parse_addresses("productNameServers", self.product_name_servers)

    @classmethod
    def from_properties(cls, path: Path | str, *, strict: bool = False, **overrides: Any) -> NameServerConfig:
        """Read a properties file, which is also where remote changes are saved; `overrides` (by field) win over it.

        Raises:
            ConfigError: the file cannot be read, or a key holds a value that is not allowed.
        """
        return cls.from_mapping(read_properties(path), strict=strict, **{"config_store_path": Path(path), **overrides})

    @classmethod
    def from_mapping(cls, properties: Mapping[str, str], *, strict: bool = False, **overrides: Any) -> NameServerConfig:
        """Build the settings from RocketMQ's keys and text values. Unknown keys are named in the log.

        Raises:
            ConfigError: a key holds a value that is not allowed; or, with `strict`, is unknown.
        """
        found = cls(**{**cls.parse(properties), **overrides})
        known = fields_by_key(cls).keys() | WITHOUT_EFFECT
        if found.enable_controller_in_namesrv:
            known |= CONTROLLER_KEYS
        note_unknown_keys(properties.keys() - known, known, strict=strict)
        return found


_PATHS = ("kv_config_path", "config_store_path", "acl_file")
_RANGES: dict[str, tuple[int, int]] = {
    "listen_port": (0, 65_535),
    "scan_not_active_broker_interval": (10, 600_000),
    "wait_seconds_for_service": (0, 3_600),
    "shutdown_wait_time_seconds": (0, 3_600),
    "frame_deadline_seconds": (0, 3_600),
    "write_buffer_max": (0, 2**31 - 1),
    "partial_frames_max": (0, 2**40),
    "connections_per_address_max": (0, 10_000_000),
    "requests_per_second_max": (0, 10_000_000),
    "shadow_interval_seconds": (1, 86_400),
    "route_history_size": (0, 10_000_000),
}
WITHOUT_EFFECT = NETTY_KEYS | frozenset(
    [
        "rocketmqHome",
        "clientRequestThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "defaultThreadPoolNums",
        "defaultThreadPoolQueueCapacity",
        "unRegisterBrokerQueueCapacity",
    ]
)
"""Keys of Java's thread pools and sockets: accepted, without a meaning here."""
