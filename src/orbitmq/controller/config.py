"""A controller's settings: RocketMQ's own keys, typed, with ranges.

A field's name is its key in snake case (`enableElectUncleanMaster` is `enable_elect_unclean_master`); the defaults are those
of Java 5.3.3 except where a field says otherwise. Keys that exist in Java for its thread pools, for jRaft or for its
exporters of metrics are accepted and have no effect.

Source: Java ControllerConfig, NettyServerConfig; docs/reference/controller.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.address import parse_address
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.net.security.server_settings import NETTY_KEYS, ServerSettings
from orbitmq.settings import (
    fields_by_key,
    note_unknown_keys,
    read_properties,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(ServerSettings):
    """The settings of a controller. Every value is checked here, and nowhere else."""

    # The controllers. This one listens on the port that it has among the peers.
    controller_d_leger_group: str = "controllers"
    """Java has no default."""
    controller_d_leger_peers: str = "n0-127.0.0.1:9878"
    """Every controller as name-host:port, joined with ;. Java has no default."""
    controller_d_leger_self_id: str = "n0"
    """Which of the peers this one is. Java has no default."""

    controller_type: str = "DLedger"
    """DLedger or jRaft: orbitmq's own Raft, within the controllers; etcd: what they agree upon is kept in etcd."""

    # Ours: etcd, where controllerType=etcd.
    etcd_endpoints: str = ""
    """The members of one etcd cluster as http://host:port or https://host:port, joined with ;."""
    etcd_prefix: str = "/orbitmq/"
    """What the keys begin with; the name of the controllers' group comes after it."""
    etcd_lease_seconds: int = 2
    """An active controller that is silent for so long is replaced; etcd may grant more, never less than its own election takes."""
    etcd_user: str = ""
    """For etcd's access control."""
    etcd_password_file: str = ""
    """A file with the password of that user alone: settings are shown to whom may read them, this file is not."""
    etcd_trust_cert_path: str = ""
    """The authorities (PEM) that https:// endpoints are believed by; empty: those of the system."""
    etcd_cert_path: str = ""
    """The certificate that etcd is shown, where it asks for one."""
    etcd_key_path: str = ""

    # What it keeps on disk.
    controller_store_path: Path = Path("~/DLedgerController")
    config_store_path: Path = Path("~/controller/controller.properties")

    # Elections. Intervals in milliseconds.
    scan_not_active_broker_interval: int = 100
    """Between two looks for brokers that are silent; Java: 5000."""
    scan_inactive_master_interval: int = 500
    """Between two looks for groups whose master is lost; Java: 5000."""
    incomplete_election_wait_ms: int = 60_000
    """Ours: how long an election waits for members of the sync set, when the log of each that is here may lack what it
    acknowledged: its machine stopped, without SYNC_FLUSH."""
    enable_elect_unclean_master: bool = False
    """A broker that lacks confirmed messages may lead when no other can."""
    notify_broker_role_changed: bool = True

    # Remote configuration: keys that a request must not touch, besides those that it never may.
    config_black_list: str = "configBlackList;configStorePath"

    acl_file: Path = Path("~/controller/accounts.json")

    def __post_init__(self) -> None:
        self.check(_RANGES)
        for name in _PATHS:
            object.__setattr__(self, name, Path(getattr(self, name)).expanduser())
        if not self.controller_d_leger_group:
            raise ConfigError("controllerDLegerGroup", "", "a name")
        if self.controller_d_leger_self_id not in self.peers:
            names = ", ".join(self.peers)
            raise ConfigError("controllerDLegerSelfId", self.controller_d_leger_self_id, f"one of the peers: {names}")
        if self.controller_type not in CONTROLLER_TYPES:
            raise ConfigError("controllerType", self.controller_type, " or ".join(CONTROLLER_TYPES))
        if self.uses_etcd:
            self._check_etcd()

    @property
    def peers(self) -> dict[str, str]:
        """Every controller's address, host:port, by its name.

        Raises:
            ConfigError: the text is none of `name-host:port;name-host:port`.
        """
        text, found = self.controller_d_leger_peers, {}
        for part in filter(None, (part.strip() for part in text.split(";"))):
            name, dash, address = part.partition("-")
            try:
                parse_address(address)
            except InvalidArgument:
                dash = ""
            if not name or not dash or name in found:
                raise ConfigError("controllerDLegerPeers", text, "name-host:port;name-host:port, each name once")
            found[name] = address
        if len(set(found.values())) != len(found):
            raise ConfigError("controllerDLegerPeers", text, "each host:port once")
        return found

    @property
    def address(self) -> str:
        """Where brokers and the other controllers reach this one, host:port."""
        return self.peers[self.controller_d_leger_self_id]

    @property
    def uses_etcd(self) -> bool:
        """Whether what controllers agree upon is kept in etcd."""
        return self.controller_type == "etcd"

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The members of the etcd cluster as http://host:port.

        Raises:
            ConfigError: the text is none of `http://host:port;https://host:port`.
        """
        allowed = "http://host:port or https://host:port, joined with ;"
        found = []
        for part in filter(None, (part.strip().rstrip("/") for part in self.etcd_endpoints.split(";"))):
            scheme, _, address = part.partition("://")
            try:
                parse_address(address)
            except InvalidArgument:
                scheme = ""
            if scheme not in ("http", "https"):
                raise ConfigError("etcdEndpoints", self.etcd_endpoints, allowed)
            found.append(part)
        if not found:
            raise ConfigError("etcdEndpoints", self.etcd_endpoints, allowed)
        return tuple(dict.fromkeys(found))

    def _check_etcd(self) -> None:
        _ = self.endpoints
        if not self.etcd_prefix.isascii() or not self.etcd_prefix.endswith("/"):
            raise ConfigError("etcdPrefix", self.etcd_prefix, "ASCII that ends with /")
        if "/" in self.controller_d_leger_group:
            raise ConfigError(
                "controllerDLegerGroup", self.controller_d_leger_group, "a name without / for a key of etcd"
            )
        if self.etcd_user and not self.etcd_password_file:
            raise ConfigError("etcdPasswordFile", "", "a file with the password of etcdUser")

    @classmethod
    def from_properties(cls, path: Path | str, *, strict: bool = False, **overrides: Any) -> ControllerConfig:
        """Read a properties file, which is also where remote changes are saved; `overrides` (by field) win over it.

        Raises:
            ConfigError: the file cannot be read, or a key holds a value that is not allowed.
        """
        return cls.from_mapping(read_properties(path), strict=strict, **{"config_store_path": Path(path), **overrides})

    @classmethod
    def from_mapping(cls, properties: Mapping[str, str], *, strict: bool = False, **overrides: Any) -> ControllerConfig:
        """Build the settings from RocketMQ's keys and text values. Unknown keys are named in the log.

        Raises:
            ConfigError: a key holds a value that is not allowed; or, with `strict`, is unknown.
        """
        note_unknown_keys(properties.keys() - KEYS, KEYS, strict=strict)
        if properties.get("controllerType", "").strip() == "jRaft":
            log.warning("controllerType=jRaft is as DLedger here: controllers agree by orbitmq's own Raft")
        return cls(**{**cls.parse(properties), **overrides})


_PATHS = ("controller_store_path", "config_store_path", "acl_file")
_RANGES: dict[str, tuple[int, int]] = {
    "scan_not_active_broker_interval": (10, 600_000),
    "scan_inactive_master_interval": (10, 600_000),
    "incomplete_election_wait_ms": (0, 86_400_000),
    "etcd_lease_seconds": (1, 600),
}
CONTROLLER_TYPES = ("DLedger", "jRaft", "etcd")
WITHOUT_EFFECT = NETTY_KEYS | frozenset(
    [
        "rocketmqHome",
        "listenPort",
        "controllerThreadPoolNums",
        "controllerRequestThreadPoolQueueCapacity",
        "mappedFileSize",
        "electMasterMaxRetryCount",
        "isProcessReadEvent",
        "jraftConfig",
        "jRaftElectionTimeoutMs",
        "jRaftSnapshotIntervalSecs",
        "jRaftGroupId",
        "jRaftServerId",
        "jRaftInitConf",
        "jRaftControllerRPCAddr",
        "jRaftScanWaitTimeoutMs",
        "metricsExporterType",
        "metricsGrpcExporterTarget",
        "metricsGrpcExporterHeader",
        "metricGrpcExporterTimeOutInMills",
        "metricGrpcExporterIntervalInMills",
        "metricLoggingExporterIntervalInMills",
        "metricsPromExporterPort",
        "metricsPromExporterHost",
        "metricsLabel",
        "metricsInDelta",
        "shutdownWaitTimeSeconds",
    ]
)
"""Keys of Java's thread pools, jRaft and exporters: accepted, without a meaning here."""
KEYS = fields_by_key(ControllerConfig).keys() | WITHOUT_EFFECT
"""All keys that a settings file of a controller may have."""
