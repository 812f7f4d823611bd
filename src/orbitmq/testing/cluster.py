"""A whole RocketMQ cluster inside the process of a test: real sockets, real files, chosen ports, gone at the end."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.failover.making import make_broker
from orbitmq.broker.registration.addresses import kept_port
from orbitmq.client.session.arguments import whole
from orbitmq.client.session.validation import checked
from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.loop import start_together
from orbitmq.settings import fields_by_key, nearest, parse_value
from orbitmq.testing.blocking_cluster import BlockingCluster
from orbitmq.testing.processes import ServerNode, ServerProcess, Service

SERVERS_MAX = 26
"""Brokers are called by a letter."""
REPLICAS_MAX = 7
_LOOPBACK = "127.0.0.1"


@checked(
    init={
        "brokers": whole(1, SERVERS_MAX),
        "name_servers": whole(1, SERVERS_MAX),
        "replicas": whole(1, REPLICAS_MAX),
    }
)
class LocalCluster:
    """NameServers and brokers on chosen loopback ports, in the running event loop.

        async with LocalCluster(brokers=2) as cluster:
            async with Producer("tests", cluster.name_servers) as producer:
                await producer.send(Message("orders", b"{}"))
            await cluster.restart_broker("broker-b")

    Args:
        brokers: how many masters; they are called broker-a, broker-b ...
        name_servers: how many NameServers; every broker registers with all of them.
        data_dir: where messages are kept; by default in a temporary directory that is removed at the end.
        settings: of every broker, by the keys of a `broker.conf`, such as `{"flushDiskType": "SYNC_FLUSH"}`, or by the names
            of `BrokerConfig`'s fields; values are Python's own, or text as in the file.
        processes: every server is a process of its own, which `kill_broker` and `kill_name_server` need.
        replicas: members of each broker name, one of which leads; they are called broker-a-1, broker-a-2 ... and have a controller
            each. Where one of three is lost, another one leads.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        name_servers: int = 1,
        data_dir: Path | str | None = None,
        settings: Mapping[str, Any] | None = None,
        processes: bool = False,
        replicas: int = 1,
    ) -> None:
        self._replicas = replicas
        self._controllers: dict[str, socket.socket] = {}
        """The sockets that keep the controllers' ports, by the members' names."""
        self._settings = dict(_setting(key, value) for key, value in (settings or {}).items())
        self._processes = processes
        self._kept_dir = Path(data_dir) if data_dir is not None else None
        self._data_dir = self._kept_dir
        self._name_servers = [ServerNode(self._name_server_builder(index)) for index in range(name_servers)]
        names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
        if replicas > 1:
            members = [(name, number) for name in names for number in range(1, replicas + 1)]
            self._brokers = {
                f"{name}-{number}": ServerNode(self._broker_builder(name, number)) for name, number in members
            }
        else:
            self._brokers = {name: ServerNode(self._broker_builder(name)) for name in names}

    async def __aenter__(self) -> LocalCluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @staticmethod
    @contextlib.contextmanager
    def running(
        *,
        brokers: int = 1,
        name_servers: int = 1,
        data_dir: Path | str | None = None,
        settings: Mapping[str, Any] | None = None,
        processes: bool = False,
        replicas: int = 1,
    ) -> Iterator[BlockingCluster]:
        """Run a cluster in a thread with a loop of its own, for tests that are not asynchronous.

        with LocalCluster.running() as cluster:
            print(cluster.name_servers)
        """
        cluster = LocalCluster(
            brokers=brokers,
            name_servers=name_servers,
            data_dir=data_dir,
            settings=settings,
            processes=processes,
            replicas=replicas,
        )
        with BlockingCluster(cluster) as face:
            yield face

    @property
    def name_servers(self) -> str:
        """The NameServers' addresses, as clients take them: `host:port;host:port`."""
        return ";".join(node.address for node in self._name_servers)

    @property
    def brokers(self) -> dict[str, str]:
        """Broker name to address, stopped brokers included."""
        return {name: node.address for name, node in self._brokers.items()}

    @property
    def metrics(self) -> dict[str, str]:
        """Broker name to the HTTP port of its metrics and health, host:port; of running brokers whose settings ask for
        one: `settings={"metrics_port": 0}`.
        """
        found = {name: node.metrics_address for name, node in self._brokers.items()}
        return {name: address for name, address in found.items() if address is not None}

    @property
    def data_dir(self) -> Path:
        """Where the brokers keep their messages: one directory each, called like the broker."""
        assert self._data_dir is not None, "the cluster is not running"
        return self._data_dir

    async def start(self) -> None:
        """Start every server; returns when messages can be sent."""
        if self._data_dir is None:
            self._data_dir = Path(tempfile.mkdtemp(prefix="orbitmq-"))
        try:
            for node in self._name_servers:
                await node.start()
            await self._start_brokers()
        except BaseException:
            await self.stop()
            raise

    async def _start_brokers(self) -> None:
        """Start one broker after the other; members of a group together, for a majority has to be there."""
        if self._replicas == 1:
            for node in self._brokers.values():
                await node.start()
            return
        for name in self._brokers:
            self._controllers[name] = kept_port(_LOOPBACK, 0)
        await start_together(*(node.start for node in self._brokers.values()))

    def _controllers_of(self, broker_name: str) -> str:
        """Return the controllers of a group as dLegerPeers has them."""
        names = [f"{broker_name}-{number}" for number in range(1, self._replicas + 1)]
        ports = [self._controllers[name].getsockname()[1] for name in names]
        return ";".join(f"n{number}-{_LOOPBACK}:{port}" for number, port in enumerate(ports, 1))

    async def stop(self) -> None:
        """Stop every server and remove what was temporary; one that fails to stop keeps none of the others.

        Raises:
            BaseException: an interruption or a cancellation that came meanwhile, else what the first server that failed to
                stop has raised.
        """
        errors: list[BaseException] = []
        for node in (*self._brokers.values(), *self._name_servers):
            try:
                await node.stop()
            except BaseException as error:
                errors.append(error)
            node.give_port_back()
        for kept in self._controllers.values():
            kept.close()
        self._controllers.clear()
        if self._kept_dir is None and self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
            self._data_dir = None
        if errors:
            raise next((error for error in errors if not isinstance(error, Exception)), errors[0])

    async def stop_broker(self, name: str = "broker-a") -> None:
        """Stop a broker as an operator would: it says good-bye to the NameServers and writes everything down."""
        await self._broker(name).stop()

    async def start_broker(self, name: str = "broker-a") -> None:
        """Start a stopped broker again, on its port and with its messages."""
        await self._broker(name).start()

    async def kill_broker(self, name: str = "broker-a") -> None:
        """End a broker's process as `kill -9` does. Needs `processes=True`."""
        await self._broker(name).kill()

    async def restart_broker(self, name: str = "broker-a") -> None:
        """Stop a broker and start it again."""
        await self.stop_broker(name)
        await self.start_broker(name)

    async def stop_name_server(self, index: int = 0) -> None:
        """Stop a NameServer; it forgets all routes."""
        await self._name_server(index).stop()

    async def start_name_server(self, index: int = 0) -> None:
        """Start a stopped NameServer again, on its port; brokers register by themselves."""
        await self._name_server(index).start()

    async def kill_name_server(self, index: int = 0) -> None:
        """End a NameServer's process as `kill -9` does. Needs `processes=True`."""
        await self._name_server(index).kill()

    async def restart_name_server(self, index: int = 0) -> None:
        """Stop a NameServer and start it again, empty."""
        await self.stop_name_server(index)
        await self.start_name_server(index)

    def _broker(self, name: str) -> ServerNode:
        if name not in self._brokers:
            raise InvalidArgument("name", name, f"one of {', '.join(self._brokers)}")
        return self._brokers[name]

    def _name_server(self, index: int) -> ServerNode:
        if index >= len(self._name_servers):
            raise InvalidArgument("index", index, f"0 to {len(self._name_servers) - 1}")
        return self._name_servers[index]

    def _name_server_builder(self, index: int) -> Callable[[int], Service]:
        def build(port: int) -> Service:
            root = self.data_dir / f"nameserver-{index}"
            config = NameServerConfig(
                bind_address=_LOOPBACK,
                listen_port=port,
                kv_config_path=root / "kvConfig.json",
                config_store_path=root / "namesrv.properties",
            )
            return ServerProcess("nameserver", config.to_properties(), root) if self._processes else NameServer(config)

        return build

    def _broker_builder(self, name: str, member: int = 0) -> Callable[[int], Service]:
        def build(port: int) -> Service:
            root = self.data_dir / (f"{name}-{member}" if member else name)
            group: dict[str, Any] = {}
            if member:
                peers = self._controllers_of(name)
                group = {"enable_d_leger_commit_log": True, "d_leger_peers": peers, "d_leger_self_id": f"n{member}"}
            fixed = {
                **group,
                "broker_name": name,
                "bind_address": _LOOPBACK,
                "listen_port": port,
                "namesrv_addr": self.name_servers,
                "store_path_root_dir": root,
                # One port less that another process may have taken when a broker starts again.
                "vip_channel_enable": False,
                "enable_property_filter": True,
                # A test's messages are few: they fit on a disk that a server would take no more on.
                "disk_space_clean_forcibly_ratio": 100,
                "disk_space_warning_level_ratio": 100,
            }
            config = BrokerConfig(**{**fixed, **self._settings})
            return ServerProcess("broker", config.to_properties(), root) if self._processes else make_broker(config)

        return build


def _setting(key: Any, value: Any) -> tuple[str, Any]:
    """Return the field of `BrokerConfig` that a key means, and its value."""
    by_key = fields_by_key(BrokerConfig)
    spec = by_key.get(key) or BrokerConfig.__dataclass_fields__.get(key)
    if spec is None:
        meant = nearest(key, [*by_key, *BrokerConfig.__dataclass_fields__]) if isinstance(key, str) else ""
        raise InvalidArgument("settings", key, f"{meant}a key of docs/reference/broker.md, or a field of BrokerConfig")
    return spec.name, parse_value(key, value, spec.type) if isinstance(value, str) else value
