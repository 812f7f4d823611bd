"""A LocalCluster for synchronous tests, in a thread of its own."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

from orbitmq.client.loop_thread import STOP_TIMEOUT_S, LoopThread

T = TypeVar("T")


class _AsyncCluster(Protocol):
    """The part of a LocalCluster that its blocking face calls; LocalCluster makes that face, so it is not imported here."""

    @property
    def name_servers(self) -> str: ...
    @property
    def brokers(self) -> dict[str, str]: ...
    @property
    def metrics(self) -> dict[str, str]: ...
    @property
    def data_dir(self) -> Path: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def stop_broker(self, name: str) -> None: ...
    async def start_broker(self, name: str) -> None: ...
    async def kill_broker(self, name: str) -> None: ...
    async def restart_broker(self, name: str) -> None: ...
    async def stop_name_server(self, index: int) -> None: ...
    async def start_name_server(self, index: int) -> None: ...
    async def kill_name_server(self, index: int) -> None: ...
    async def restart_name_server(self, index: int) -> None: ...


class BlockingCluster:
    """A LocalCluster in a thread of its own; every method waits until it is done."""

    def __init__(self, cluster: _AsyncCluster) -> None:
        self._cluster = cluster
        self._loop_thread: LoopThread | None = None

    def __enter__(self) -> BlockingCluster:
        self._loop_thread = LoopThread("orbitmq cluster")
        try:
            self._wait(self._cluster.start())
        except BaseException:
            self._loop_thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop_thread is not None
        try:
            self._loop_thread.call(self._cluster.stop(), STOP_TIMEOUT_S)
        finally:
            self._loop_thread.stop()

    @property
    def name_servers(self) -> str:
        """The NameServers' addresses, as clients take them: `host:port;host:port`."""
        return self._cluster.name_servers

    @property
    def brokers(self) -> dict[str, str]:
        """Broker name to address, stopped brokers included."""
        return self._cluster.brokers

    @property
    def metrics(self) -> dict[str, str]:
        """Broker name to the HTTP port of its metrics and health, of running brokers whose settings ask for one."""
        return self._cluster.metrics

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
        assert self._loop_thread is not None, "the cluster is not running"
        return self._loop_thread.call(work)
