"""One server of a test cluster, through all its stops and starts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from orbitmq.address import parse_address
from orbitmq.broker.registration.addresses import kept_port
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
        self._placeholder: socket.socket | None = None
        """Keeps the port while the server is down: others that choose one of their own are not given it."""

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
        self.give_port_back()

    async def stop(self) -> None:
        """Stop the server, if it is running."""
        service, self._service = self._service, None
        if service is not None:
            await service.stop()
            self._keep_port()

    async def kill(self) -> None:
        """Kill the server's process, if it is running.

        Raises:
            InvalidArgument: the server has no process of its own.
        """
        if not isinstance(self._service, ServerProcess | None):
            raise InvalidArgument("processes", False, "True: a server of this process cannot be killed on its own")
        service, self._service = self._service, None
        if service is not None:
            await service.kill()
            self._keep_port()

    def give_port_back(self) -> None:
        """Keep the port of a stopped server no longer: it will not come back."""
        placeholder, self._placeholder = self._placeholder, None
        if placeholder is not None:
            placeholder.close()

    def _keep_port(self) -> None:
        with suppress(OSError):  # another process was quicker: the next start says so
            self._placeholder = kept_port(*parse_address(self.address))
