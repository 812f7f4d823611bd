"""A whole RocketMQ cluster inside the process of a test: real sockets, real files, chosen ports, gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

from orbitmq.address import parse_address
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.loop import loop_factory
from orbitmq.testing.processes import ServerProcess

T = TypeVar("T")

_LOOPBACK = "127.0.0.1"


class _Service(Protocol):
    @property
    def address(self) -> str: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class _Node:
    """One server that may be stopped and started again on the port that it had."""

    def __init__(self, build: Callable[[int], _Service]) -> None:
        self.address = ""
        self._build = build
        self._service: _Service | None = None

    async def start(self) -> None:
        if self._service is not None:
            return
        service = self._build(parse_address(self.address)[1] if self.address else 0)
        await service.start()
        self._service = service
        self.address = service.address

    async def stop(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            await service.stop()

    async def kill(self) -> None:
        if not isinstance(self._service, ServerProcess | None):
            raise InvalidArgument("processes", False, "True: a server of this process cannot be killed on its own")
        service, self._service = self._service, None
        if service is not None:
            await service.kill()


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
        settings: `BrokerConfig` fields for every broker, such as `{"flush_disk_type": "SYNC_FLUSH"}`.
        processes: every server is a process of its own, which `kill_broker` and `kill_name_server` need.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        name_servers: int = 1,
        data_dir: Path | str | None = None,
        settings: Mapping[str, Any] | None = None,
        processes: bool = False,
    ) -> None:
        if not 1 <= brokers <= 26:
            raise InvalidArgument("brokers", brokers, "1 to 26")
        if not 1 <= name_servers <= 26:
            raise InvalidArgument("name_servers", name_servers, "1 to 26")
        self._settings = dict(settings or {})
        self._processes = processes
        self._kept_dir = Path(data_dir) if data_dir is not None else None
        self._data_dir = self._kept_dir
        self._name_servers = [_Node(self._name_server_builder(index)) for index in range(name_servers)]
        names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
        self._brokers = {name: _Node(self._broker_builder(name)) for name in names}

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
    ) -> Iterator[BlockingCluster]:
        """Run a cluster in a thread with a loop of its own, for tests that are not asynchronous.

        with LocalCluster.running() as cluster:
            print(cluster.name_servers)
        """
        cluster = LocalCluster(
            brokers=brokers, name_servers=name_servers, data_dir=data_dir, settings=settings, processes=processes
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
    def data_dir(self) -> Path:
        """Where the brokers keep their messages: one directory each, called like the broker."""
        assert self._data_dir is not None, "the cluster is not running"
        return self._data_dir

    async def start(self) -> None:
        """Start every server; returns when messages can be sent."""
        if self._data_dir is None:
            self._data_dir = Path(tempfile.mkdtemp(prefix="orbitmq-"))
        try:
            for node in (*self._name_servers, *self._brokers.values()):
                await node.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop every server and remove what was temporary."""
        for node in (*self._brokers.values(), *self._name_servers):
            await node.stop()
        if self._kept_dir is None and self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
            self._data_dir = None

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
        await self._name_servers[index].stop()

    async def start_name_server(self, index: int = 0) -> None:
        """Start a stopped NameServer again, on its port; brokers register by themselves."""
        await self._name_servers[index].start()

    async def kill_name_server(self, index: int = 0) -> None:
        """End a NameServer's process as `kill -9` does. Needs `processes=True`."""
        await self._name_servers[index].kill()

    async def restart_name_server(self, index: int = 0) -> None:
        """Stop a NameServer and start it again, empty."""
        await self.stop_name_server(index)
        await self.start_name_server(index)

    def _broker(self, name: str) -> _Node:
        if name not in self._brokers:
            raise InvalidArgument("broker", name, f"one of {', '.join(self._brokers)}")
        return self._brokers[name]

    def _name_server_builder(self, index: int) -> Callable[[int], _Service]:
        def build(port: int) -> _Service:
            root = self.data_dir / f"nameserver-{index}"
            config = NameServerConfig(
                bind_address=_LOOPBACK,
                listen_port=port,
                kv_config_path=root / "kvConfig.json",
                config_store_path=root / "namesrv.properties",
            )
            return ServerProcess("nameserver", config.to_properties(), root) if self._processes else NameServer(config)

        return build

    def _broker_builder(self, name: str) -> Callable[[int], _Service]:
        def build(port: int) -> _Service:
            root = self.data_dir / name
            fixed = {
                "broker_name": name,
                "bind_address": _LOOPBACK,
                "listen_port": port,
                "namesrv_addr": self.name_servers,
                "store_path_root_dir": root,
            }
            config = BrokerConfig(**{**fixed, **self._settings})
            return ServerProcess("broker", config.to_properties(), root) if self._processes else Broker(config)

        return build


class BlockingCluster:
    """A LocalCluster in a thread of its own; every method waits until it is done."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BlockingCluster:
        looping: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=_run_loop, args=(looping,), name="orbitmq cluster", daemon=True)
        self._thread.start()
        self._loop = looping.result()
        try:
            self._wait(self._cluster.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait(self._cluster.stop())
        finally:
            self._end()

    @property
    def name_servers(self) -> str:
        """The NameServers' addresses, as clients take them: `host:port;host:port`."""
        return self._cluster.name_servers

    @property
    def brokers(self) -> dict[str, str]:
        """Broker name to address, stopped brokers included."""
        return self._cluster.brokers

    @property
    def data_dir(self) -> Path:
        """Where the brokers keep their messages: one directory each, called like the broker."""
        return self._cluster.data_dir

    def stop_broker(self, name: str = "broker-a") -> None:
        """Stop a broker as an operator would."""
        self._wait(self._cluster.stop_broker(name))

    def start_broker(self, name: str = "broker-a") -> None:
        """Start a stopped broker again, on its port and with its messages."""
        self._wait(self._cluster.start_broker(name))

    def kill_broker(self, name: str = "broker-a") -> None:
        """End a broker's process as `kill -9` does. Needs `processes=True`."""
        self._wait(self._cluster.kill_broker(name))

    def restart_broker(self, name: str = "broker-a") -> None:
        """Stop a broker and start it again."""
        self._wait(self._cluster.restart_broker(name))

    def stop_name_server(self, index: int = 0) -> None:
        """Stop a NameServer; it forgets all routes."""
        self._wait(self._cluster.stop_name_server(index))

    def start_name_server(self, index: int = 0) -> None:
        """Start a stopped NameServer again, on its port; brokers register by themselves."""
        self._wait(self._cluster.start_name_server(index))

    def kill_name_server(self, index: int = 0) -> None:
        """End a NameServer's process as `kill -9` does. Needs `processes=True`."""
        self._wait(self._cluster.kill_name_server(index))

    def restart_name_server(self, index: int = 0) -> None:
        """Stop a NameServer and start it again, empty."""
        self._wait(self._cluster.restart_name_server(index))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the cluster is not running"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None


def _run_loop(looping: Future[asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        loop = runner.get_loop()
        loop.call_soon(looping.set_result, loop)
        loop.run_forever()
