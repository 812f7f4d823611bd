"""One server of a test cluster, through all its stops and starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from orbitmq.address import parse_address
from orbitmq.errors import InvalidArgument
from orbitmq.testing.processes import ServerProcess


class Service(Protocol):
    """A server of this process, or in a process of its own."""

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        ...

    @property
    def metrics_address(self) -> str | None:
        """Where its HTTP port is, as host:port; None without."""
        ...

    async def start(self) -> None:
        """Listen."""
        ...

    async def stop(self) -> None:
        """Listen no more."""
        ...


class ServerNode:
    """One server that may be stopped and started again on the port that it had.

    Args:
        build: returns the server that is to listen on a port; 0 stands for any.
    """

    def __init__(self, build: Callable[[int], Service]) -> None:
        self.address = ""
        self._build = build
        self._service: Service | None = None

    @property
    def metrics_address(self) -> str | None:
        """Where the running server's HTTP port is, as host:port; None without."""
        return None if self._service is None else self._service.metrics_address

    async def start(self) -> None:
        """Start the server, unless it is running."""
        if self._service is not None:
            return
        service = self._build(parse_address(self.address)[1] if self.address else 0)
        await service.start()
        self._service = service
        self.address = service.address

    async def stop(self) -> None:
        """Stop the server, if it is running."""
        service, self._service = self._service, None
        if service is not None:
            await service.stop()

    async def kill(self) -> None:
        """End the server's process at once, if it is running.

        Raises:
            InvalidArgument: the server has no process of its own.
        """
        if not isinstance(self._service, ServerProcess | None):
            raise InvalidArgument("processes", False, "True: a server of this process cannot be killed on its own")
        service, self._service = self._service, None
        if service is not None:
            await service.kill()
