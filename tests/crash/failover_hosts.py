"""A group that fails over with a host of its own for each member, whose cables can be cut, one way and both.

Needs root and iproute2, see `cluster.lab`.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cluster.lab import Host, Lab, lab
from orbitmq.broker.config import BrokerConfig
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.testing.processes import ServerProcess

_NAME_SERVER = "ns"
_NO_HOST = "02:00:00:00:00:01"
_PORTS = {"broker-a-1": 10911, "broker-a-2": 10921, "broker-a-3": 10931}
"""Different ones, though each has its own host: acknowledgements are told apart by their ports."""
_CONTROLLER_PORT = 9878


class HostCluster:
    """What `FailoverGroup` needs of a `LocalCluster`."""

    def __init__(self, home: Path, settings: Mapping[str, Any]) -> None:
        self.data_dir = home
        self._settings = settings
        self._stack = ExitStack()
        self._lab: Lab | None = None
        self._services: dict[str, ServerProcess] = {}

    @property
    def lab(self) -> Lab:
        """The hosts; between `start` and `stop`."""
        assert self._lab is not None
        return self._lab

    @property
    def name_servers(self) -> str:
        """As clients take them."""
        return f"{self.lab.hosts[_NAME_SERVER].ip}:9876"

    @property
    def brokers(self) -> dict[str, str]:
        """Member to address."""
        return {member: f"{self.lab.hosts[member].ip}:{port}" for member, port in _PORTS.items()}

    @property
    def controllers(self) -> dict[str, str]:
        """Member to its controller's address."""
        return {member: f"{self.lab.hosts[member].ip}:{_CONTROLLER_PORT}" for member in _PORTS}

    async def start(self) -> None:
        """Make the hosts, and start the NameServer and all members."""
        self._lab = self._stack.enter_context(lab(_NAME_SERVER, *_PORTS))
        root = self.data_dir / "nameserver"
        config = NameServerConfig(
            bind_address="0.0.0.0",
            kv_config_path=root / "kvConfig.json",
            config_store_path=root / "namesrv.properties",
        )
        self._services[_NAME_SERVER] = self._process(_NAME_SERVER, "nameserver", config.to_properties(), root)
        await self._services[_NAME_SERVER].start()
        await asyncio.gather(*map(self.start_broker, _PORTS))

    async def stop(self) -> None:
        """Kill what runs, and take the hosts away."""
        try:
            for service in self._services.values():
                await service.kill()
        finally:
            self._stack.close()

    async def start_broker(self, member: str) -> None:
        """Start a member, unless it runs."""
        if member in self._services:
            return
        root = self.data_dir / member
        peers = ";".join(f"n{number}-{address}" for number, address in enumerate(self.controllers.values(), 1))
        fixed = {
            "enable_d_leger_commit_log": True, "d_leger_peers": peers, "d_leger_self_id": f"n{member[-1]}",
            "broker_name": member[:-2], "bind_address": "0.0.0.0", "broker_ip1": self.lab.hosts[member].ip,
            "listen_port": _PORTS[member], "namesrv_addr": self.name_servers, "store_path_root_dir": root,
            "vip_channel_enable": False, "disk_space_clean_forcibly_ratio": 100, "disk_space_warning_level_ratio": 100,
        }  # fmt: skip
        config = BrokerConfig(**{**fixed, **self._settings})
        self._services[member] = self._process(member, "broker", config.to_properties(), root)
        await self._services[member].start()

    async def kill_broker(self, member: str) -> None:
        """End a member's process as `kill -9` does, if it runs."""
        service = self._services.pop(member, None)
        if service is not None:
            await service.kill()

    def pid(self, member: str) -> int:
        """The number of a member's process."""
        process: Any = self._services[member]._process
        return int(process.pid)

    def cut(self, member: str) -> Callable[[], None]:
        """Cut a member's cable; return what repairs it."""
        host = self.lab.hosts[member]
        host.unplug()
        return lambda: host.plug(self.lab.bridge)

    def mute(self, member: str) -> Callable[[], None]:
        """Let nothing that a member says arrive, though it hears the others; return what repairs it."""
        host = self.lab.hosts[member]
        others = [other.ip for other in self.lab.hosts.values() if other is not host] + [self.lab.runner_ip]
        for address in others:
            _send_nowhere(host, address)

        def repair() -> None:
            for address in others:
                _ip("-n", host.name, "neigh", "del", address, "dev", "eth0")

        return repair

    def deafen(self, member: str) -> Callable[[], None]:
        """Let nothing arrive at a member, though the others hear it; return what repairs it."""
        host = self.lab.hosts[member]
        others = [other for other in self.lab.hosts.values() if other is not host]
        for other in others:
            _send_nowhere(other, host.ip)
        bridge = self.lab.bridge
        _ip("neigh", "replace", host.ip, "lladdr", _NO_HOST, "dev", bridge, "nud", "permanent")

        def repair() -> None:
            for other in others:
                _ip("-n", other.name, "neigh", "del", host.ip, "dev", "eth0")
            _ip("neigh", "del", host.ip, "dev", bridge)

        return repair

    def _process(self, host: str, command: str, properties: Mapping[str, str], root: Path) -> ServerProcess:
        return ServerProcess(command, properties, root, prefix=self.lab.hosts[host].command())


def _send_nowhere(host: Host, address: str) -> None:
    """Let a host send what is for an address to a station that does not exist: it is lost without a word."""
    _ip("-n", host.name, "neigh", "replace", address, "lladdr", _NO_HOST, "dev", "eth0", "nud", "permanent")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
